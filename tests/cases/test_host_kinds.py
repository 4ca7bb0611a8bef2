"""What a process holds of the host comes back as it was, twice over, or is refused by name before it is touched."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import torpor
from tests.cases import refused, rounds
from tests.conftest import eventually, start_keeper
from tests.flow import walking
from torpor.errors import KeeperUnavailable, Refused
from torpor.keeper import jobs
from torpor.process import refusals, shm
from torpor.process.criu import find_criu
from torpor.records import JobState

pytestmark = pytest.mark.criu


@pytest.mark.parametrize("group", ["files", "events", "sockets", "processes"])
def test_group(home: Path, tmp_path: Path, group: str) -> None:
    del home
    reference = rounds.native(group, tmp_path / "native", 2)
    assert rounds.cycled(group, tmp_path / "job", 2) == reference


def test_shared_memory_comes_back_into_an_empty_dev_shm(home: Path, tmp_path: Path) -> None:
    del home
    kinds = ("semaphores", "named_semaphores")
    seen: list[set[str]] = []

    def wipe(image: torpor.Image) -> None:
        found = shm.read_index(image.path)
        assert not any(Path(one.path).exists() for one in found if one.passing)
        names = {one.path for one in found if not one.passing}
        for name in names:
            Path(name).unlink()
        seen.append(names)

    reference = rounds.native("processes", tmp_path / "native", 2, *kinds)
    before = set(Path("/dev/shm").glob("sem.*"))
    with remains() as others:
        assert rounds.cycled("processes", tmp_path / "job", 2, *kinds, between=wipe) == reference
        assert all(path.read_bytes() == b"theirs" for path in others)
    assert len(seen[0]) == 3
    assert seen[0] == seen[1]
    assert not any(Path(name).exists() for name in seen[0])
    eventually(lambda: set(Path("/dev/shm").glob("sem.*")) <= before)  # other tests have some for a while


@contextmanager
def remains() -> Iterator[list[Path]]:
    """What CRIU leaves in /dev/shm when it is killed, by the names that it gives to any job's files."""
    made = []
    for number in range(1, 100):
        path = Path(f"/dev/shm/link_remap.{number}")
        with suppress(FileExistsError), path.open("xb") as file:
            file.write(b"theirs")
            made.append(path)
    try:
        yield made
    finally:
        for path in made:
            path.unlink()


def test_names_that_were_made_for_a_dump_go_though_the_keeper_dies(home: Path, tmp_path: Path) -> None:
    waiting, go = tmp_path / "waiting", tmp_path / "go"
    criu = tmp_path / "criu"
    until_told = f"touch {waiting}; until [ -e {go} ]; do sleep 0.01; done"
    criu.write_text(f'#!/bin/sh\n[ "$1" != dump ] || {{ {until_told}; }}\nexec {shlex.join(find_criu().argv)} "$@"\n')
    criu.chmod(0o755)
    keeper = start_keeper(home, {"TORPOR_CRIU": str(criu)})
    job = rounds.begin("processes", tmp_path / "job", 1, "named_semaphores")
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in walking.processes_of(home))
    made = {Path(name) for name in re.findall(r"(/dev/shm/sem\.\S+ \(deleted\))$", maps, re.MULTILINE)}
    assert len(made) == 2
    assert not any(name.exists() for name in made)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(job.checkpoint)
        eventually(waiting.exists)
        assert all(name.exists() for name in made)
        os.kill(keeper, signal.SIGKILL)
        go.touch()
        with pytest.raises(KeeperUnavailable):
            asked.result()
    start_keeper(home)
    eventually(lambda: job.state is JobState.RUNNING)
    assert not any(name.exists() for name in made)
    (tmp_path / "job" / "go-0").touch()
    assert job.wait(100)
    assert job.exit_code == 0


def test_two_lives_do_not_share_their_memory(home: Path, tmp_path: Path) -> None:
    del home
    job = rounds.begin("processes", tmp_path / "job", 1, "semaphores")
    image = job.checkpoint(leave_running=True)
    [shared] = [Path(one.path) for one in shm.read_index(image.path)]
    before = shared.read_bytes()
    with pytest.raises(Refused, match=f"{shared}, which the job shares memory by, is in use by process"):
        torpor.restore(image, name="second")
    assert shared.read_bytes() == before
    assert [one.name for one in torpor.jobs()] == ["holder"]
    job.kill(9)
    assert job.wait(100)
    job.remove()
    # What it left behind is not what the image knows: the image counts.
    shared.write_bytes(b"\xff" * 8192)
    woken = torpor.restore(image, name="second")
    assert shared.read_bytes() == before
    (tmp_path / "job" / "go-0").touch()
    assert woken.wait(100)
    assert woken.exit_code == 0
    assert not shared.exists()


@pytest.fixture
def everything_refused(home: Path, tmp_path: Path) -> torpor.Job:
    """A job that holds all that is refused, at once."""
    del home
    assert sorted(refused.NEEDED) == sorted(refused.KINDS)
    return rounds.begin("refused", tmp_path / "job", 1)


def test_what_cannot_be_saved_is_named(everything_refused: torpor.Job, home: Path, tmp_path: Path) -> None:
    job = everything_refused
    reference = rounds.native("refused", tmp_path / "native", 1)
    opened = jobs.open_tree(job.record)
    stdio = {key for key in opened.info.stdio.values() if key}
    assert job.record.supervisor_pid is not None
    began = time.thread_time()
    found = [one.what for one in refusals.obstacles(opened.tree, job.record.supervisor_pid, stdio, set())]
    assert time.thread_time() - began < 1
    for kind, says in refused.NEEDED.items():
        assert any(re.search(says, what) for what in found), (kind, found)
    unexpected = [what for what in found if not any(re.search(says, what) for says in refused.NEEDED.values())]
    assert unexpected == []
    before = walking.traces(home)
    with pytest.raises(Refused, match="cannot be saved: it ") as caught:
        job.checkpoint()
    assert caught.value.hint
    assert caught.value.details["process"] == 300
    assert walking.traces(home) == before
    assert job.state is JobState.RUNNING
    (tmp_path / "job" / "go-0").touch()
    assert job.wait(100)
    assert rounds.output(job) == reference


class Outsider:
    """Takes a TCP and a Unix connection, and answers what it is told in capitals."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "outside"
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.path))
        self.unix.listen()
        self._taken: list[socket.socket] = []
        for listener in (self.tcp, self.unix):
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._taken.append(connection)
            while data := connection.recv(100):
                connection.send(data.upper())

    def close(self) -> None:
        for one in (self.tcp, self.unix):
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        for connection in self._taken:
            connection.close()


@pytest.fixture
def outsider(tmp_path: Path) -> Iterator[Outsider]:
    one = Outsider(tmp_path)
    yield one
    one.close()


@pytest.mark.parametrize("kind", ["tcp", "unix", "closed"])
def test_connections_to_the_outside(home: Path, tmp_path: Path, outsider: Outsider, kind: str) -> None:
    del home
    port = outsider.tcp.getsockname()[1]
    connect = {
        "tcp": f"s = socket.create_connection(('127.0.0.1', {port}))",
        "unix": f"s = socket.socket(socket.AF_UNIX); s.connect({str(outsider.path)!r})",
        "closed": f"s = socket.create_connection(('127.0.0.1', {port})); s.close(); s = socket.socket()",
    }[kind]
    program = (
        f"import os, socket, time\n{connect}\nprint('ready', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "s.fileno(); s.send(b'still here'); print(s.recv(100).decode())\n"
    )
    if kind == "closed":
        program = program.replace("s.send(b'still here'); print(s.recv(100).decode())", "print('STILL HERE')")
    job = torpor.run(["python3", "-c", program], name="talker", gpu="sim")
    walking.eventually(lambda: rounds.output(job) == ["ready"])
    if kind == "closed":
        job = torpor.restore(job.checkpoint(tier="dram"))
    else:
        wanted = {"tcp": rf"has a TCP connection to 127.0.0.1:{port} \(established\)", "unix": str(outsider.path)}[kind]
        with pytest.raises(Refused, match=wanted) as caught:
            job.checkpoint()
        assert caught.value.details["descriptor"] == 3
        assert caught.value.details["resource"] == "socket"
    (tmp_path / "go").touch()
    assert job.wait(100)
    assert rounds.output(job) == ["ready", "STILL HERE"]


LARGE = """
import hashlib, mmap, os, sys, time
path, size = sys.argv[1], 130 << 20
with open(path, "x+b") as file:
    file.truncate(size)
    memory = mmap.mmap(file.fileno(), size)
places = (0, (64 << 20) - 5, size - 100000)
for at in places:
    memory[at : at + 100000] = hashlib.shake_128(b"%d" % at).digest(100000)
while True:
    seen = b"".join(memory[at - 10 if at else 0 : at + 100010] for at in places)  # what is read is there, too
    print(hashlib.blake2b(seen, digest_size=8).hexdigest(), flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_much_shared_memory_comes_back(home: Path, tier: str) -> None:
    """In several parts, what was never written left out."""
    path = Path(f"/dev/shm/{home.name}-large")
    job = torpor.run([sys.executable, "-c", LARGE, str(path)], name="large", gpu="sim")
    try:
        for _time in range(2):
            walking.walk_on(job, 2)
            image = job.checkpoint(tier=tier)
            path.unlink()
            [entry] = [entry for entry in image.manifest.files if entry.path == "shm/0000"]
            assert (entry.hash is None) == (tier == "dram")
            assert (image.path / "shm" / "0000").stat().st_blocks * 512 < 2 << 20
            job = torpor.restore(image)
        walking.walk_on(job, 2)
        assert len(set(walking.output(job))) == 1
    finally:
        path.unlink(missing_ok=True)
