"""Playing a row of the fault matrix: arm the fault, run the verb, see what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import eventually, keepers
from tests.faults.rows import KILLED, Row
from tests.faults.scene import SETTLE_SECONDS, Lost, Scene
from tests.flow import walking
from torpor import api, errors, paths, writeback
from torpor.errors import TorporError
from torpor.process import tree
from torpor.process.loop import is_readable
from torpor.records import JobState

FAULTS_OF_KEEPER = ("keeper", "cli", "interrupt", "job", "writer", "keeper of the writer")
"""Agents that strike where `TORPOR_FAULT` says."""

DEADLINE = 1.0
"""Seconds that a verb gives a job to come to rest, where its driver hangs."""


@dataclass(frozen=True)
class Played:
    """What came of a row: the outcome, and the exit code and message of the verb (0 and "" where it succeeded)."""

    outcome: str
    code: int
    message: str


def play(scene: Scene, row: Row) -> Played:
    """Play one row; raises Lost (or what the scene raises) when it does not come out as the row says."""
    pair = row.agent == "second process"
    fault = row.text.replace("GATE", str(scene.gate)) if pair or row.agent == "driver of the job" else None
    scene.prepare(_tier(row), fault, pair)
    with _place(scene, row) as spoil:
        _arm(scene, row)
        before = walking.traces(scene.home)
        told = _act(scene, row, spoil)
        if row.fault == "read-only":
            # What could not be removed there goes when a keeper starts and can.
            subprocess.run(["mount", "-o", "remount,rw", scene.place], check=True)
            scene.keeper({})
        played = Played(_judge(scene, row, before), *told)
    _check(row, played)
    return played


def _tier(row: Row) -> str:
    return "dram" if row.flow.endswith("dram") else "disk"


def _arm(scene: Scene, row: Row) -> None:
    env = {}
    gate = str(scene.gate)
    if _in_store(row):
        env["TORPOR_HASH"] = "gpu"
        _store(scene, row)
    if row.agent == "driver of the keeper":
        env["TORPOR_SIM_FAULT"] = row.text
        if "HostRegister" in row.text:
            env["TORPOR_POOL"] = ""  # its first segments are made by the flow
    elif row.agent in FAULTS_OF_KEEPER or row.fault == "read-only":
        env["TORPOR_FAULT"] = row.text.replace("GATE", gate)
    elif row.agent == "criu":
        (scene.home / "mode").write_text(row.text)
    Path(f"{gate}.reached").unlink(missing_ok=True)
    scene.keeper(env)
    if row.text.startswith("fsize="):
        for pid in keepers(scene.home):
            subprocess.run(["prlimit", "--pid", str(pid), f"--{row.text}:unlimited"], check=True)


@contextmanager
def _place(scene: Scene, row: Row) -> Iterator[Callable[[], None]]:
    """A small file system for the image where the row wants one; gives what spoils it."""
    if row.agent != "file system" or row.text.startswith("fsize="):
        yield lambda: None
        return
    options = "size=600m" if row.fault == "read-only" else row.text
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "torpor-test", scene.place], check=True)

    def spoil() -> None:
        # Refused while any file there is open for writing, as one just written may be for a moment.
        eventually(lambda: subprocess.run(["mount", "-o", "remount,ro", scene.place], check=False).returncode == 0)

    try:
        yield spoil
    finally:
        subprocess.run(["umount", scene.place], check=True)


def _act(scene: Scene, row: Row, spoil: Callable[[], None]) -> tuple[int, str]:
    """Run the verb, and do meanwhile what the row says; its exit code and message."""
    if row.flow.startswith(("resume", "from")):
        scene.job.suspend(tier=_tier_of_memory(row))
        if row.agent == "second process" and row.text == KILLED:
            _kill_second(scene)
    if row.agent in ("cli", "interrupt"):
        return _by_command_line(scene, row)
    meanwhile = threading.Thread(target=lambda: None)
    if row.agent == "job":
        meanwhile = threading.Thread(target=_at_the_gate, args=(scene, lambda: _kill_root(scene)))
    elif row.agent == "keeper of the writer":
        [pid] = keepers(scene.home)
        meanwhile = threading.Thread(target=_at_the_gate, args=(scene, lambda: os.kill(pid, signal.SIGKILL)))
    elif row.fault == "read-only":
        meanwhile = threading.Thread(target=_at_the_gate, args=(scene, spoil))
    elif row.fault.startswith("hangs"):
        meanwhile = threading.Thread(target=_after_a_while, args=(scene,))
    meanwhile.start()
    try:
        _verb(scene, row)()
    except TorporError as error:
        if isinstance(error, errors.Refused):
            raise Lost(f"refused, so the fault was not reached: {error.message}") from None
        if row.named is not None and not isinstance(error, errors.KeeperUnavailable):
            step = error.details.get("step")
            if step != row.named:
                raise Lost(f"the error names the step {step!r}, not {row.named!r}: {error.message}") from None
        return error.code, error.message
    finally:
        meanwhile.join()
    return 0, ""


def _verb(scene: Scene, row: Row) -> Callable[[], object]:
    job = scene.job
    bound = {"deadline": DEADLINE} if row.fault.startswith("hangs") else {}
    match row.flow.split():
        case ["restore", _]:
            old = _old(scene, row)
            return lambda: api.restore(old, name="copy")
        case ["suspend", tier]:
            return lambda: job.suspend(tier=tier, **bound)
        case ["resume", _]:
            return job.resume
    if _in_store(row):
        tier = "dram" if row.flow.startswith("through") else "disk"
        return lambda: _store(scene, row).checkpoint(job, leave_running=_stays(row), tier=tier)
    return lambda: job.checkpoint(leave_running=_stays(row), to=_new(scene, row), tier=_tier(row))


def _stays(row: Row) -> bool:
    """Whether the job is to stay beside its image."""
    return row.flow in ("leave running", "from dram stays", "store stays")


def _in_store(row: Row) -> bool:
    return "store" in row.flow.split()


def _store(scene: Scene, row: Row) -> api.Store:
    """The scene's store, on the small file system where the row has one."""
    path = (scene.place if row.agent == "file system" else scene.home) / "store"
    return api.open_store(str(path)) if (path / "config").exists() else api.create_store(str(path))


def _old(scene: Scene, row: Row) -> api.Image | api.ImageInStore:
    """The image that a restore takes."""
    if not _in_store(row):
        return scene.old
    store, name = _store(scene, row), f"{scene.job.name}-old"
    if name not in {one.name for one in store.images()}:
        store.put(scene.old, name=name)
    return store.image(name)


def _new(scene: Scene, row: Row) -> Path:
    return paths.tier_dir("dram") / "new" if _tier(row) == "dram" else scene.place / "new"


def _tier_of_memory(row: Row) -> str:
    return row.flow.split()[1]


def _at_the_gate(scene: Scene, act: Callable[[], object]) -> None:
    """Act while the keeper stands at its fault point, then let it go on."""
    try:
        eventually(Path(f"{scene.gate}.reached").exists)
        act()
    finally:
        scene.gate.touch()


def _after_a_while(scene: Scene) -> None:
    """Let what hangs go on, after more time than the verb's deadline."""
    time.sleep(3 * DEADLINE)
    scene.gate.touch()


def _kill_root(scene: Scene) -> None:
    record = api.job(scene.job.name).record
    assert record.supervisor_pid is not None
    inner = tree.host_pid(record.supervisor_pid, 300)
    if inner is not None:  # at a commit CRIU may have been first
        handle = os.pidfd_open(inner)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        is_readable(handle, 5.0)  # it ends, unless CRIU has it
        os.close(handle)


def _kill_second(scene: Scene) -> None:
    record = api.job(scene.job.name).record
    assert record.supervisor_pid is not None
    supervisor = record.supervisor_pid
    [second] = [one for one in tree.read(supervisor, 300).processes if one.inner != 300]
    os.kill(second.pid, signal.SIGKILL)
    eventually(lambda: len(tree.read(supervisor, 300).processes) == 1)


def _by_command_line(scene: Scene, row: Row) -> tuple[int, str]:
    name, new = scene.job.name, str(_new(scene, row))
    match row.flow.split():
        case ["restore", _]:
            old = _old(scene, row)
            where = str(old.path) if isinstance(old, api.Image) else f"{old.name}@{old.store.url}"
            command = ["restore", where, "--name", "copy", "--detach"]
        case ["suspend", tier]:
            command = ["suspend", name, "--tier", tier]
        case ["resume", _]:
            command = ["resume", name]
        case _:
            place = ["--store", _store(scene, row).url] if _in_store(row) else ["--to", new]
            command = ["checkpoint", name, *place, *(["--leave-running"] if _stays(row) else [])]
    with scene.torpor.start(*command) as asking:
        eventually(Path(f"{scene.gate}.reached").exists)
        asking.send_signal(signal.SIGKILL if row.agent == "cli" else signal.SIGINT)
        answered = row.agent == "cli" or any(b"cancelling" in line for line in _lines(asking))
        scene.gate.touch()
        if not answered:
            raise Lost("Ctrl-C was not answered")
        _out, err = asking.communicate(timeout=100)
    if row.agent == "interrupt" and asking.returncode not in (0, errors.Cancelled.code):
        raise Lost(f"after Ctrl-C `torpor {command[0]}` ended with {asking.returncode}: {err.decode()}")
    return asking.returncode, err.decode().strip()


def _lines(asking: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What it says for people, up to its end."""
    assert asking.stderr is not None
    while line := asking.stderr.readline():
        yield line


def _judge(scene: Scene, row: Row, before: dict[str, object]) -> str:
    if row.flow.startswith("restore"):
        outcome = _judge_restore(scene, row, before)
    elif row.flow.startswith("through"):
        # The next keeper tries at once what the last one could not do.
        scene.keeper({})
        eventually(lambda: not writeback.orders(), seconds=SETTLE_SECONDS)
        outcome = scene.judge(scene.job, before)
        if [image for image in api.images() if image.path != scene.old.path]:
            raise Lost("an image is still in memory")
    else:
        outcome = scene.judge(scene.job, before)
    if _in_store(row):
        with _store(scene, row) as store:
            if store.verify().problems:
                raise Lost(f"the store is not whole: {store.verify().problems[0]}")
        return outcome
    new = _new(scene, row)
    if (new / "manifest.json").exists():
        image = api.open_image(new)
        image.verify()
        image.remove()
    elif new.exists():
        raise Lost(f"{new} is there and no image")
    return outcome


def _judge_restore(scene: Scene, row: Row, before: dict[str, object]) -> str:
    api.recover()
    eventually(scene.settled, seconds=SETTLE_SECONDS)
    copies = [job for job in api.jobs() if job.name == "copy"]
    if copies and copies[0].state is JobState.RUNNING:
        outcome = scene.judge(copies[0], before)
        scene.end_job(copies[0])
        return outcome
    if copies:
        raise Lost(f"the failed restore left the job {copies[0]}")
    # The same image works when the fault is gone, and the job beside it has noticed nothing.
    scene.keeper({})
    copy = api.restore(_old(scene, row), name="copy")
    if scene.judge(copy, before) != "runs on":
        raise Lost("the image does not restore any more")
    scene.end_job(copy)
    if scene.judge(scene.job, before) != "runs on":
        raise Lost("a job beside the failed restore is not as it was")
    return "restores"


def _check(row: Row, played: Played) -> None:
    if played.outcome not in row.outcomes:
        raise Lost(f"{played.outcome}, not {' or '.join(row.outcomes)}: {played.message}")
    if row.failing and played.code == 0:
        raise Lost("the verb reported success, or the fault was not reached")
    if row.failing and not played.message:
        raise Lost("the verb failed without a word")
