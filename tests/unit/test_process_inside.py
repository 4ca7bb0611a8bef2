"""System calls made by another process: it does them, and notices nothing of having been stopped."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor.process.inside import Inside

GETPID, OPENAT, CLOSE = 39, 257, 3
AT_FDCWD = -100

PROGRAM = """
import os, select, signal, sys, time

told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
begun = time.monotonic()
print("ready", flush=True)
what = sys.argv[1]
if what == "read":
    found = os.read(0, 5)
elif what == "sleep":
    found = time.sleep(1)
elif what == "poll":
    found = select.poll().poll(1000)
elif what == "sigtimedwait":
    found = signal.sigtimedwait([signal.SIGUSR2], 1)
elif what == "suspend":
    found = signal.sigwait([signal.SIGUSR2]).name
elif what == "spin":
    found = 0
    while time.monotonic() < begun + 1:
        found = 1
took = time.monotonic() - begun
while os.read(0, 100):
    pass  # it stays until nobody wants anything of it any more
print(found, len(told), what in ("read", "suspend") or took > 0.99)
"""

CASES = {"read": "b'hello'", "sleep": "None", "poll": "[]", "sigtimedwait": "None", "suspend": "SIGUSR2", "spin": "1"}


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        eventually(lambda: b"sleep" in command(process.pid) and state(process.pid) == "S")
        yield process
        process.kill()


@pytest.mark.parametrize("what", sorted(CASES))
def test_a_call_under_way_goes_on(what: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for turn in range(20):
            with Inside(process.pid) as inside:
                assert inside.call(GETPID) == process.pid
                if turn == 10:
                    os.kill(process.pid, signal.SIGUSR1)
        if what == "suspend":
            os.kill(process.pid, signal.SIGUSR2)
        out, _err = process.communicate(b"hello" if what == "read" else b"", timeout=100)
        assert out.decode() == f"{CASES[what]} 1 True\n"
        assert process.returncode == 0


def test_paths_results_and_errors(sleeper: subprocess.Popen[bytes]) -> None:
    before = Path(f"/proc/{sleeper.pid}/maps").read_text()
    with Inside(sleeper.pid) as inside:
        number = inside.path_call(OPENAT, b"/dev/null", os.O_RDWR, 0, first=AT_FDCWD)
        assert Path(f"/proc/{sleeper.pid}/fd/{number}").readlink() == Path("/dev/null")
        assert inside.call(CLOSE, number) == 0
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            inside.call(CLOSE, number)
        assert caught.value.errno == errno.EBADF
        with pytest.raises(FileNotFoundError):
            inside.path_call(OPENAT, b"/nowhere", os.O_RDONLY, 0, first=AT_FDCWD)
    assert Path(f"/proc/{sleeper.pid}/maps").read_text() == before


def test_a_stopped_one_stays_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    eventually(lambda: state(sleeper.pid) == "T")
    with Inside(sleeper.pid) as inside:
        assert inside.call(GETPID) == sleeper.pid
    eventually(lambda: state(sleeper.pid) == "T")
    os.kill(sleeper.pid, signal.SIGCONT)
    eventually(lambda: state(sleeper.pid) == "S")


def test_one_that_is_killed_meanwhile(sleeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ProcessLookupError), Inside(sleeper.pid) as inside:
        inside.call(GETPID)
        sleeper.kill()
        time.sleep(0)
        for _turn in range(1000):
            inside.call(GETPID)
    assert sleeper.wait() == -signal.SIGKILL
