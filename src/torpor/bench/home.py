"""A home of its own for a run's jobs, images and keeper, so that the user's are neither touched nor in the way.

It lies inside the user's (so images go to the same disk) and beside the user's folder in memory, and is removed at the
end, with everything that still runs in it. A lock in it tells that its run lives: what a killed one left goes with the
next run.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from torpor import api, paths, records
from torpor.errors import CriuMissing, TorporError
from torpor.records import LIVE_STATES, Backend

_NAME = re.compile(r"bench-\d+")
END_SECONDS = 30.0
BEGIN_SECONDS = 1.0
"""From the beginning of a program until its command line can be read; some never have one."""


@contextmanager
def own(backend: Backend) -> Iterator[Path]:
    """Within, `TORPOR_HOME`, `TORPOR_DRAM` and `TORPOR_GPU` are this run's own. Yields a scratch folder in it."""
    outer = dict(os.environ)
    homes, memory = paths.home(), paths.dram_dir()
    _forget_dead(homes, memory, backend)
    criu = _criu()  # one at the user's home is not found from another home
    home, dram = homes / f"bench-{os.getpid()}", memory.with_name(f"{memory.name}-bench-{os.getpid()}")
    lock = _make(home)
    try:
        paths.make_private(dram)
        _enter(home, dram, backend)
        if criu is not None:
            os.environ["TORPOR_CRIU"] = str(criu)
        scratch = home / "scratch"
        scratch.mkdir()
        yield scratch
    finally:
        with undisturbed():
            leave(home, dram, backend, outer)
            os.close(lock)


def _criu() -> Path | None:
    from torpor.process.criu import find_criu

    try:
        return find_criu().path
    except CriuMissing:
        return None


def _make(home: Path) -> int:
    """Make the folder with its lock held; it has its name only when that is so. The lock's descriptor."""
    unnamed = paths.make_private(home.with_name(f".{home.name}"))
    lock = os.open(unnamed / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    shutil.rmtree(home, ignore_errors=True)
    unnamed.rename(home)
    return lock


def _is_dead(home: Path) -> bool:
    try:
        lock = os.open(home / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _enter(home: Path, dram: Path, backend: Backend) -> None:
    os.environ["TORPOR_HOME"], os.environ["TORPOR_DRAM"] = str(home), str(dram)
    if backend == "sim":
        os.environ["TORPOR_GPU"] = "sim"


def leave(home: Path, dram: Path, backend: Backend, outer: Mapping[str, str]) -> None:
    """End what runs in the present home, go back to the environment `outer`, and remove both folders."""
    try:
        _end_everything(backend)
    finally:
        os.environ.clear()
        os.environ.update(outer)
        for folder in (home, dram):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM do nothing: who is impatient would leave jobs behind that nobody can reach."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget_dead(homes: Path, memory: Path, backend: Backend) -> None:
    """End and remove what runs left that were killed."""
    if not homes.is_dir():
        return
    for home in homes.iterdir():
        if _NAME.fullmatch(home.name) is None or not _is_dead(home):
            continue
        outer = dict(os.environ)
        dram = memory.with_name(f"{memory.name}-{home.name}")
        _enter(home, dram, backend)
        with undisturbed():
            leave(home, dram, backend, outer)


def _end_everything(backend: Backend) -> None:
    """End every job of the present home, and its keeper; nothing that goes wrong keeps the rest from being ended."""
    # A Ctrl-C may have come before it was known who had been started: such a `torpor run` would make a home again.
    _kill(_processes(_is_run))
    end = time.monotonic() + END_SECONDS
    while sum(_ends(job) for job in api.jobs()) and time.monotonic() < end:
        time.sleep(0.02)
    end = time.monotonic() + END_SECONDS
    # One that was just started does not listen yet, and one that is at work does not stop.
    while (running := _processes(_is_keeper)) and time.monotonic() < end:
        with suppress(TorporError):
            api.keeper_stop(backend)
        time.sleep(0.02)
    _kill(running)


def _ends(job: api.Job) -> bool:
    """Have its supervisor end it, if it lives; whether it did."""
    from torpor.process.client import SupervisorClient

    lives = False
    try:
        lives = job.state in LIVE_STATES
        if lives or records.supervisor_alive(job.record):
            with SupervisorClient(paths.job_dir(job.name)) as supervisor:
                supervisor.shutdown()
    except (TorporError, OSError):
        pass  # it is ending, or has no supervisor yet
    return lives


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_keeper(command: Sequence[bytes]) -> bool:
    """Also what waits to start one again."""
    return b"torpor.keeper" in command


def _is_run(command: Sequence[bytes]) -> bool:
    return any(Path(os.fsdecode(one)).name == "torpor" and two == b"run" for one, two in pairwise(command))


def _processes(wanted: Callable[[Sequence[bytes]], bool]) -> list[int]:
    """Those whose home is the present one, by their command lines."""
    home = f"TORPOR_HOME={os.environ['TORPOR_HOME']}".encode()
    found, end = [], time.monotonic() + BEGIN_SECONDS
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted(_words(entry / "cmdline", end)) and home in _words(entry / "environ", end):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _words(file: Path, end: float) -> list[bytes]:
    """What a process was given. One that has just been started has its new memory before it has that: it is waited
    for, where there is a program, which those that have ended and parts of the kernel do not have. OSError."""
    while not (found := file.read_bytes()) and time.monotonic() < end:
        (file.parent / "exe").readlink()
        time.sleep(0.001)
    return found.split(b"\0")
