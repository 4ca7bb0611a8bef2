"""A job on a terminal sleeps and wakes: before another terminal, which it controls as it did the first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually
from tests.seat import Seat
from torpor import api
from torpor.errors import AWAY
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = (
    "import os, signal, sys, termios\n"
    "from cuda.bindings import driver\n"
    "driver.cuInit(0)\n"
    "signal.signal(signal.SIGINT, lambda *_: print('interrupted', flush=True))\n"
    "modes = termios.tcgetattr(0); modes[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, modes)\n"
    "print('ready', flush=True)\n"
    "for line in sys.stdin:\n"
    "    echo = bool(termios.tcgetattr(0)[3] & termios.ECHO)\n"
    "    print('line', line.strip(), *map(os.isatty, range(3)), echo, *os.get_terminal_size(), flush=True)\n"
)


@pytest.fixture
def seats(home: Path) -> Iterator[tuple[Seat, Seat]]:
    del home
    both = Seat(), Seat()
    yield both
    for one in both:
        one.close()


def test_it_wakes_before_another_terminal(seats: tuple[Seat, Seat], torpor: Cli) -> None:
    first, second = seats
    first.start("run", "--name", "job", "--", sys.executable, "-c", PROGRAM)
    first.read_until(b"ready")
    torpor("checkpoint", "job")
    first.read_until(b"job sleeps in .*torpor restore job-1")
    assert first.ends() == AWAY
    second.resize(40, 100)
    second.start("restore", "--attach", "job-1")
    eventually(lambda: second.is_raw)
    second.type(b"one\r")
    second.read_until(rb"line one True True True False 100 40\r\n")
    second.type(b"\x03")
    second.read_until(b"interrupted")
    second.type(b"two\r\x04")
    second.read_until(rb"line two ")
    assert second.ends() == 0


BY_NAME = (
    "import os\n"
    "by_name = open('/dev/tty', 'r+b', buffering=0)\n"
    "by_name.write(b'ready\\n')\n"
    "while line := by_name.readline(): by_name.write(b'by name ' + line)\n"
)


def test_one_who_opened_it_as_the_controlling_terminal(seats: tuple[Seat, Seat], torpor: Cli) -> None:
    """Password prompts and pagers open /dev/tty."""
    first, second = seats
    first.start("run", "--name", "job", "--", sys.executable, "-c", BY_NAME)
    first.read_until(b"ready")
    torpor("checkpoint", "job", "--leave-running")
    first.type(b"one\r")
    first.read_until(b"by name one")
    torpor("checkpoint", "job")
    assert first.ends() == AWAY
    second.start("restore", "--attach", "job-2")
    eventually(lambda: second.is_raw)
    second.type(b"two\r")
    second.read_until(b"by name two")
    second.type(b"\x04")
    assert second.ends() == 0


def test_it_runs_on_before_the_same_one(seats: tuple[Seat, Seat], torpor: Cli) -> None:
    seat, _other = seats
    seat.start("run", "--name", "job", "--", sys.executable, "-c", PROGRAM)
    seat.read_until(b"ready")
    torpor("checkpoint", "job", "--leave-running")
    torpor("suspend", "job")
    torpor("checkpoint", "job", "--leave-running")
    torpor("resume", "job")
    seat.type(b"one\r")
    seat.read_until(rb"line one True True True False 80 24\r\n")
    seat.type(b"\x04")
    assert seat.ends() == 0


def test_a_woken_shell_has_its_job_control(seats: tuple[Seat, Seat], torpor: Cli) -> None:
    first, second = seats
    first.start("run", "--name", "job", "--", "bash", "--norc", "-i")
    first.read_until(rb"[$#] ")
    first.type(b"x=40; sleep 1000\r")
    first.read_until(b"sleep 1000")
    eventually(_sleeps)
    torpor("checkpoint", "job")
    assert first.ends() == AWAY
    woken = api.restore("job-1")
    assert woken.state is JobState.RUNNING
    second.start("attach", "job")
    eventually(lambda: second.is_raw)
    second.type(b"\x1a")
    second.read_until(b"Stopped")
    second.type(b"kill -9 %1; while kill -0 %1 2>&-; do sleep 0.02; done; echo rest $((x + 2))\r")
    second.read_until(rb"rest 42")
    second.type(b"exit 4\r")
    assert second.ends() == 4


def _sleeps() -> bool:
    (job,) = (one for one in api.jobs() if one.name == "job")
    supervisor = job.record.supervisor_pid
    assert supervisor is not None
    return any(one.comm == "sleep" for one in tree.read(supervisor, 300).processes)
