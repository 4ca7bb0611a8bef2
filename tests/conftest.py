"""Shared by every test: a home of its own for Torpor, short enough for Unix sockets, and the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.aftermath import last_lines

REPOSITORY = Path(__file__).resolve().parents[1]

PATIENCE = 100.0
"""Seconds that a test waits for what must come true: no measure of speed, a slow machine shall not fail by it."""

# Programs that fork beside threads, as many do, are what is tested here; from 3.12 on Python warns of each on stderr.
FORKS = "ignore:This process:DeprecationWarning"
os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), FORKS)))

# Who runs the tests in a shell's background has it ignored, in all that they start as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes to be drawn says something of the machine alone.
_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("random", **_PATIENT)
settings.register_profile("fixed", **_PATIENT, derandomize=True)

# It also draws numbers and texts that it finds in those of our modules that are loaded by then: other examples after
# other tests, and one that failed could not be found again. There is no setting for that.
_OURS, _NOTHING = "_get_local_constants", providers.Constants()
if hasattr(providers, _OURS):
    setattr(providers, _OURS, lambda: _NOTHING)


def pytest_configure(config: pytest.Config) -> None:
    """What hypothesis draws is the same each time, but with `--full`: there new examples are looked for."""
    settings.load_profile("fixed" if "not full" in config.option.markexpr else "random")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is in tests/gpu needs a GPU."""
    for item in items:
        if REPOSITORY / "tests" / "gpu" in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the jobs and keepers of the test wrote last."""
    report = yield
    if report.failed:
        given = getattr(item, "funcargs", None) or {}
        named = [given.get("home"), given.get("tmp_path"), os.environ.get("TORPOR_HOME")]
        with suppress(OSError):  # somebody may be at work there
            told = last_lines({Path(place) for place in named if place is not None})
            if told:
                report.sections.append(("last lines of logs", told))
    return report


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty TORPOR_HOME (and TORPOR_DRAM in memory), on the software GPU; jobs and keeper are ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    dram = Path(tempfile.mkdtemp(prefix="tp-", dir="/dev/shm"))
    monkeypatch.setenv("TORPOR_HOME", str(folder))
    monkeypatch.setenv("TORPOR_DRAM", str(dram))
    monkeypatch.setenv("TORPOR_GPU", "sim")
    yield folder
    end_everything(folder)
    shutil.rmtree(folder)
    shutil.rmtree(dram)


def end_everything(folder: Path) -> None:
    """End every job and keeper whose files are in this home."""
    from torpor import api
    from torpor.errors import TorporError
    from torpor.process.client import SupervisorClient
    from torpor.records import LIVE_STATES

    for job in api.jobs():
        if job.state in LIVE_STATES:
            try:
                with SupervisorClient(folder / "jobs" / job.name) as supervisor:
                    supervisor.shutdown()
            except TorporError:
                pass  # it ended by itself in between
            eventually(lambda job=job: job.state not in LIVE_STATES)
    # A keeper that was just started does not listen yet, and one that stops still has its memory to give back.
    stop_keepers(folder)


def keepers(folder: Path, watching: bool = False) -> list[int]:
    """Pids of the keepers of this home; with `watching`, of those that wait to start the next one."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if b"torpor.keeper" not in command or (b"torpor-keeper-watch" in command) != watching:
                continue
            environ = (entry / "environ").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if f"TORPOR_HOME={folder}".encode() in environ:
            found[int(entry.name)] = parent
    # A child that a keeper makes looks like it until it is the program that it is to be.
    return [pid for pid, parent in found.items() if parent not in found]


def keeper_of(folder: Path) -> int:
    """Pid of the keeper of this home. One more may have been started while it did not listen yet: it gives way."""
    (pid,) = eventually(lambda: len(found := keepers(folder)) == 1 and found)
    return int(pid)


def stop_keepers(folder: Path) -> None:
    """Until there is none, nor one that was started and could still become it; what they are at is waited for."""
    from torpor import api
    from torpor.errors import TorporError

    def ask() -> None:
        with suppress(TorporError):  # it is still at work
            api.keeper_stop("sim")

    eventually(lambda: not keepers(folder) + keepers(folder, watching=True), doing=ask)


def start_keeper(folder: Path, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()) -> int:
    """Pid of a fresh keeper with this in its environment, started by a command behind `prefix`.

    Whoever needs a keeper starts one, and may be faster: then it is that one's, and this begins again.
    """
    wanted = {"TORPOR_TEST_KEEPER": uuid.uuid4().hex, **(env or {})}

    def start() -> int:
        stop_keepers(folder)
        command = [*prefix, *Cli.command, "keeper", "start"]
        subprocess.run(command, env={**os.environ, **wanted}, check=True, stdout=subprocess.DEVNULL)
        pid = keeper_of(folder)
        known = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return pid if {f"{name}={value}".encode() for name, value in wanted.items()} <= set(known) else 0

    return int(eventually(start))


def eventually(
    condition: Callable[[], Any], *, seconds: float = PATIENCE, doing: Callable[[], Any] | None = None
) -> Any:
    """Wait until `condition()` is true and return what it gave; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"this did not come true within {seconds} s")
        if doing is not None:
            doing()
        time.sleep(0.01)


def end_family(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that is no job, and its descendants: they would go on after a test that failed."""
    from torpor.process import tree

    for pid in tree.family(process.pid) if process.poll() is None else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


class Started(subprocess.Popen[bytes]):
    """One that is killed by a test that fails, which would wait for its end until its own time is over."""

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *more)


class Cli:
    """Runs `torpor`; `check` is the exit code that the test expects, None for any."""

    command = (sys.executable, "-m", "torpor")

    def __call__(
        self,
        *args: str,
        check: int | None = 0,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*self.command, *args],
            input=given,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=PATIENCE * 2,
            check=False,
        )
        if check is not None:
            assert done.returncode == check, f"torpor {args} ended with {done.returncode}: {done.stderr.decode()}"
        return done

    def json(self, *args: str, check: int = 0) -> Any:
        """What the verb prints with `--json`."""
        return json.loads(self(*args, "--json", check=check).stdout)

    def start(self, *args: str, **options: Any) -> Started:
        """Start `torpor` with pipes to all its streams, or with what `options` say."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return Started([*self.command, *args], **{**streams, **options})


@pytest.fixture
def torpor(home: Path) -> Cli:
    """The command line, in a home of its own."""
    del home
    return Cli()
