"""A job in the foreground of a terminal is on a terminal, and leaves ours as it was."""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, eventually
from tests.seat import Seat
from torpor import api
from torpor.process import tree
from torpor.records import JobState


@pytest.fixture
def seat(home: Path) -> Iterator[Seat]:
    del home
    one = Seat()
    yield one
    one.close()


ASKS = (
    "import os, sys\n"
    "print(*(os.isatty(fd) for fd in range(3)), os.tcgetpgrp(0) == os.getpgrp(), *os.get_terminal_size(), flush=True)\n"
    "print('got', input('name? '), flush=True)\n"
    "sys.exit(5)\n"
)


def python(program: str) -> tuple[str, ...]:
    return ("run", "--name", "job", "--", sys.executable, "-c", program)


def test_it_is_on_a_terminal_of_its_own(seat: Seat) -> None:
    seat.resize(33, 111)
    seat.start(*python(ASKS))
    seat.read_until(rb"True True True True 111 33\r\n")
    seat.read_until(rb"name\? ")
    assert seat.is_raw
    seat.type(b"someone\r")
    seat.read_until(rb"someone\r\ngot someone\r\n")  # echoed once, by the job's terminal
    assert seat.ends() == 5


def test_ours_is_as_it_was_when_the_job_is_killed(seat: Seat) -> None:
    seat.start(*python("import os, signal; input('on'); os.kill(os.getpid(), signal.SIGKILL)"))
    seat.read_until(b"on")
    seat.type(b"\r")
    assert seat.ends() == -signal.SIGKILL


def test_ours_is_as_it_was_when_we_are_told_to_end(seat: Seat) -> None:
    process = seat.start(*python("input('on')"))
    seat.read_until(b"on")
    process.send_signal(signal.SIGTERM)
    assert seat.ends() == -signal.SIGTERM


def test_its_attributes_are_those_of_ours(seat: Seat) -> None:
    attributes = termios.tcgetattr(seat.terminal)
    attributes[3] &= ~termios.ECHO
    attributes[6][termios.VINTR] = b"\x07"
    termios.tcsetattr(seat.terminal, termios.TCSANOW, attributes)
    seat.before = termios.tcgetattr(seat.terminal)
    seat.start("run", "--", "stty", "-a")
    seat.read_until(rb"intr = \^G.* -echo ")
    assert seat.ends() == 0


def test_keys_that_interrupt_go_to_the_job(seat: Seat) -> None:
    program = (
        "import signal, sys\n"
        "for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):\n"
        "    signal.signal(number, lambda got, _: print('told', signal.Signals(got).name, flush=True))\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin: print('line', repr(line), flush=True)\n"
    )
    process = seat.start(*python(program))
    seat.read_until(b"ready")
    for key, name in ((b"\x03", b"SIGINT"), (b"\x1c", b"SIGQUIT"), (b"\x1a", b"SIGTSTP")):
        seat.type(key)
        seat.read_until(b"told " + name)
    assert process.poll() is None
    seat.type(b"more\r\x04")
    seat.read_until(rb"line 'more\\n'")
    assert seat.ends() == 0


def test_a_shell_has_its_job_control(seat: Seat) -> None:
    seat.start("run", "--", "bash", "--norc", "-i")
    seat.read_until(rb"[$#] ")
    seat.type(b"sleep 1000\r")
    seat.read_until(b"sleep 1000")
    eventually(lambda: _runs("sleep"))
    seat.type(b"\x1a")
    seat.read_until(rb"Stopped")
    seat.type(b"kill -9 %1; while kill -0 %1 2>&-; do sleep 0.02; done; echo rest $((40 + 2))\r")
    seat.read_until(rb"rest 42")
    seat.type(b"exit 3\r")
    assert seat.ends() == 3


def _runs(name: str) -> bool:
    (job,) = api.jobs()
    pid = job.record.supervisor_pid
    tasks = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    while level := tasks.pop():
        if any(tree.name(int(one)) == name for one in level):
            return True
        tasks.append([n for one in level for n in Path(f"/proc/{one}/task/{one}/children").read_text().split()])
    return False


def test_the_size_of_the_window_follows(seat: Seat) -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('size', *os.get_terminal_size(), flush=True))\n"
        "print('ready', flush=True)\nwhile True: signal.pause()\n"
    )
    process = seat.start(*python(program))
    seat.read_until(b"ready")
    seat.resize(50, 132)
    process.send_signal(signal.SIGWINCH)  # which the kernel sends to the terminal's foreground
    seat.read_until(b"size 132 50")
    process.send_signal(signal.SIGTERM)
    assert seat.ends() == -signal.SIGTERM


def let_go(seat: Seat, shows: bytes) -> None:
    """Three times within a second is what it asks for; who has no processor may read them later."""
    for _attempt in range(10):
        seat.type(b"\x1d\x1d")
        seat.type(b"\x1d")
        with suppress(AssertionError):
            seat.read_until(shows, seconds=PATIENCE / 10)
            return
    raise AssertionError("it did not let go")


def test_letting_go_and_coming_back(seat: Seat) -> None:
    seat.start(*python("print('on'); print('got', input(), flush=True)"))
    seat.read_until(b"on")
    let_go(seat, b"job runs on.*torpor attach job")
    assert seat.ends() == 0
    assert api.job("job").state is JobState.RUNNING
    seat.start("attach", "job")
    eventually(lambda: seat.is_raw)
    seat.type(b"\x15again\r")  # Ctrl-U takes back what is left of the keys
    seat.read_until(b"got again")
    assert seat.ends() == 0


def test_output_that_goes_elsewhere_is_plain(seat: Seat, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        seat.start(
            "run", "--", sys.executable, "-c", "import os; print(*map(os.isatty, range(3)))", stdout=out.fileno()
        )
        assert seat.ends() == 0
    assert (tmp_path / "out").read_bytes() == b"False False False\n"


def test_error_output_alone_may_go_elsewhere(seat: Seat, tmp_path: Path) -> None:
    program = "import os, sys; print(*map(os.isatty, range(3))); print('err', file=sys.stderr)"
    with (tmp_path / "err").open("wb") as err:
        seat.start("run", "--", sys.executable, "-c", program, stderr=err.fileno())
        seat.read_until(b"True True False\r\n")
        assert seat.ends() == 0
    assert (tmp_path / "err").read_bytes() == b"err\n"


def test_stopped_and_in_the_background_it_leaves_the_terminal_to_the_shell(seat: Seat) -> None:
    job = "$TORPOR run --name job -- sh -c 'echo on; read line; echo got $line'"
    line = f"{job} & echo shell; read a; fg; echo end"
    seat.start(shell=line)
    seat.read_until(b"shell.*on\r|on\r.*shell")
    assert not seat.is_raw
    seat.type(b"for-the-shell\r")
    eventually(lambda: seat.is_raw)
    seat.type(b"for-the-job\r")
    seat.read_until(b"got for-the-job")
    seat.read_until(b"end")
    assert seat.ends() == 0
