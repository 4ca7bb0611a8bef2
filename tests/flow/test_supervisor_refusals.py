"""What CRIU cannot save or bring back is named in plain words, and the job runs on, or nothing of it is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.flow.supervised import ALL_KINDS, Supervised, World, world
from torpor.errors import NoSpace, StepFailed
from torpor.process import criu, wire

__all__ = ["world"]
pytestmark = pytest.mark.criu

STAY = "\nprint('ready', flush=True)\nimport time\nwhile True: time.sleep(0.01); open(f'{job}/lives', 'w').close()\n"
BEGIN = "import ctypes, fcntl, mmap, os, socket, sys; job = os.environ['TORPOR_JOB_DIR']\n"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A Unix socket of somebody who is not part of the job, and who takes one connection."""
    accepted: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "outside"))
        listener.listen(1)
        taker = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        taker.start()
        yield tmp_path / "outside"
        with socket.socket(socket.AF_UNIX) as last:
            if not accepted:
                last.connect(str(tmp_path / "outside"))
            taker.join()
    accepted[0].close()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])",
            "it has a Unix socket whose other end is outside the job",
        ),
        (
            "l = ctypes.CDLL(None, use_errno=True); attr = (ctypes.c_uint32 * 32)(1, 128, 9);"
            " fd = l.syscall(298, attr, 0, -1, -1, 0); assert fd >= 0, os.strerror(ctypes.get_errno())",
            "its descriptor 3 is of a kind that CRIU cannot save (anon anon_inode:[perf_event])",
        ),
        (
            "f = open(f'{job}/deleted', 'w+b'); os.posix_fallocate(f.fileno(), 0, 1153437696); os.unlink(f.name)",
            "it has the deleted file /run/torpor/job/deleted of ",
        ),
        (
            "l = ctypes.CDLL(None, use_errno=True); fd = l.syscall(425, 8, bytes(ctypes.create_string_buffer(120)));"
            " assert fd >= 0, os.strerror(ctypes.get_errno())",
            "it uses io_uring, which CRIU cannot save",
        ),
        (
            "l = ctypes.CDLL(None, use_errno=True); id = l.shmget(0, 4096, 0o1600); l.shmat.restype = ctypes.c_void_p;"
            " l.shmat(id, None, 0); l.shmctl(id, 0, None)",
            "it uses System V shared memory",
        ),
        (
            "p = os.fork()\nif p == 0: l = ctypes.CDLL(None); l.ptrace(0, 0, 0, 0);"
            " os.kill(os.getpid(), 19); os._exit(0)\n"
            "os.waitpid(p, os.WUNTRACED)",
            "it cannot be stopped: another program traces it, or the right to is missing",
        ),
    ],
)
def test_what_cannot_be_dumped(world: World, tmp_path: Path, outside: Path, program: str, reason: str) -> None:
    job = world().start(sys.executable, "-c", BEGIN + program + STAY, str(outside))
    eventually(lambda: job.log == "ready\n")
    images = tmp_path / "images"
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        with pytest.raises(StepFailed) as caught:
            dump.wait_written(60)
    assert caught.value.reason.startswith(reason), caught.value.details
    assert caught.value.process in (300, 301, None), caught.value.details
    assert caught.value.hint
    runs_on(job)


def runs_on(job: Supervised) -> None:
    (job.folder / "lives").unlink(missing_ok=True)
    eventually((job.folder / "lives").exists)


def test_no_space(world: World, small: Path) -> None:
    job = world().start(sys.executable, "-c", BEGIN + "b = os.urandom(8 << 20)" + STAY)
    eventually(lambda: job.log == "ready\n")
    with criu.Dump(job.folder) as dump:
        dump.start(small)
        with pytest.raises(NoSpace):
            dump.wait_written(60)
    runs_on(job)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "torpor-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def asleep(world: World, tmp_path: Path) -> tuple[Supervised, Path, dict[str, str | None]]:
    """A job of all kinds that was dumped and killed: its folder, its images, its streams."""
    job = world().start(*ALL_KINDS, stdin="pipe")
    job.walks_on()
    info = job.dump(tmp_path / "images")
    return job, tmp_path / "images", info.stdio


def cannot_wake(woken: Supervised, images: Path, stdio: dict[str, str | None], **options: Any) -> StepFailed:
    """Restores, which must fail, and checks that nothing of the job is left."""
    place = woken.folder.parent
    before = everyone(place)
    with pytest.raises(StepFailed) as caught:
        woken.restore(images, stdio, **options)
    assert not (woken.folder / wire.SOCKET_NAME).exists()
    eventually(lambda: everyone(place) <= before)
    return caught.value


def everyone(place: Path) -> set[int]:
    """The supervisors, CRIUs and jobs that are alive and whose environment or mounts name a folder below this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
            roots = [line.split()[3] for line in (entry / "mountinfo").read_text().splitlines()]
        except OSError:
            continue
        below = "/".join(place.parts[-2:]) + "/"
        if entry.name.isdigit() and (str(place).encode() in environment or any(below in root for root in roots)):
            found.add(int(entry.name))
    return found - {os.getpid()}


Asleep = tuple[Supervised, Path, dict[str, str | None]]


def test_a_file_that_is_gone(asleep: Asleep, world: World) -> None:
    job, images, stdio = asleep
    error = cannot_wake(world("woken"), images, stdio)
    assert error.reason == (
        "the file /run/torpor/job/record, which the job had open or mapped, cannot be opened: No such file or directory"
    )
    assert error.process == 300
    woken = world("once-more", like=job)
    woken.restore(images, stdio)
    woken.walks_on()


def test_a_file_that_has_changed(world: World, tmp_path: Path) -> None:
    job = world()
    (job.folder / "read").write_text("as it was")
    job.start(sys.executable, "-c", BEGIN + "f = open(f'{job}/read')" + STAY)
    eventually(lambda: job.log == "ready\n")
    info = job.dump(tmp_path / "images")
    woken = world("woken")
    (woken.folder / "read").write_text("as it is now")
    error = cannot_wake(woken, tmp_path / "images", info.stdio)
    assert error.reason == "the file /run/torpor/job/read has 12 bytes; the job knows it with 9"


def test_an_image_with_no_inventory(asleep: Asleep, world: World) -> None:
    job, images, stdio = asleep
    (images / "inventory.img").unlink()
    error = cannot_wake(world("woken", like=job), images, stdio)
    assert error.reason == "a file of the image is missing, short or altered"


@pytest.mark.parametrize("name", ["pstree.img", "core-300.img", "files.img", "mm-300.img"])
def test_an_image_file_that_is_short(asleep: Asleep, world: World, name: str) -> None:
    job, images, stdio = asleep
    os.truncate(images / name, (images / name).stat().st_size - 1)
    error = cannot_wake(world("woken", like=job), images, stdio)
    assert error.reason == f"the image's file {name} is short"


def test_a_port_that_is_taken(world: World, tmp_path: Path) -> None:
    listen = "LISTEN = socket.create_server(('127.0.0.1', 0)); LISTEN.listen(); print(LISTEN.getsockname()[1])"
    job = world().start(sys.executable, "-c", BEGIN + listen + STAY)
    eventually(lambda: "ready" in job.log)
    port = int(job.log.split()[0])
    info = job.dump(tmp_path / "images", leave_running=True)
    error = cannot_wake(world("copy"), tmp_path / "images", info.stdio)
    assert "its name or port is taken" in error.reason
    with job.client() as client:
        client.shutdown()
    eventually(job.gone)
    world("woken").restore(tmp_path / "images", info.stdio)
    socket.create_connection(("127.0.0.1", port)).close()


def test_an_id_that_is_taken(world: World, tmp_path: Path) -> None:
    """Without namespaces; with them no id can be."""
    job = world().start(sys.executable, "-c", BEGIN + STAY, namespaces=False)
    eventually(lambda: job.log == "ready\n")
    root = job.info().root
    info = job.dump(tmp_path / "images", leave_running=True)
    before = everyone(tmp_path)
    assert before
    with pytest.raises(StepFailed, match=f"the process id {root} is taken"):
        criu.restore(tmp_path / "images", world("copy").folder, root, info.stdio, namespaces=False)
    runs_on(job)
    eventually(lambda: everyone(tmp_path) <= before)
