"""Ctrl-C reaches who waits, at whatever moment it comes: here to a thread that does not wait, as one is that comes just
before the wait begins."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import torpor
from tests.conftest import PATIENCE, Cli, Started, eventually
from torpor import api, records
from torpor.cli import main
from torpor.errors import Cancelled, TorporError
from torpor.keeper import messages
from torpor.keeper.client import _converse
from torpor.keeper.interruptions import Interruptions
from torpor.process import namespace
from torpor.profiling import Sampler

CANCELLED = messages.Failed(error=Cancelled("cancelled, and rolled back").to_dict())


def interrupt_this_thread() -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@contextmanager
def keeper(answer: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """A connection to somebody who hears a request, and goes on as told."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE)

    def serve() -> None:
        with theirs:
            assert isinstance(messages.receive(theirs), messages.Request)
            answer(theirs)

    with ours, ThreadPoolExecutor(1) as threads:
        serving = threads.submit(serve)
        yield ours
        serving.result()


def interrupted_at_work(client: socket.socket) -> None:
    """As `answer`: the user stops waiting, and the verb is undone."""
    interrupt_this_thread()
    assert isinstance(messages.receive(client), messages.Cancel)
    messages.send(client, CANCELLED)


def test_who_waits_for_a_keeper_is_woken() -> None:
    with keeper(interrupted_at_work) as channel, pytest.raises(Cancelled):
        _converse(channel, messages.Request(verb="restore"), None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_that_comes_while_progress_is_told_cancels_as_well() -> None:
    told = []

    def answer(client: socket.socket) -> None:
        messages.send(client, messages.Progress(phase="copy", event="start"))
        assert isinstance(messages.receive(client), messages.Cancel)
        messages.send(client, CANCELLED)

    def show(progress: messages.Progress) -> None:
        told.append(progress.phase)
        if progress.phase == "copy":
            interrupt_this_thread()

    with keeper(answer) as channel, pytest.raises(Cancelled):
        _converse(channel, messages.Request(verb="checkpoint"), show)
    assert told == ["copy", messages.CANCEL, messages.OVER]


def test_one_that_comes_when_all_is_done_takes_nothing_from_it() -> None:
    over = threading.Event()

    def answer(client: socket.socket) -> None:
        messages.send(client, messages.Progress(phase="copy", event="end"))
        messages.send(client, messages.Done(result={"said": 1}))
        client.close()
        over.set()

    def show(progress: messages.Progress) -> None:
        if progress.phase == "copy":
            assert over.wait(PATIENCE)
            interrupt_this_thread()

    with keeper(answer) as channel:
        assert _converse(channel, messages.Request(verb="restore"), show) == {"said": 1}


def test_the_second_one_leaves_the_keeper_to_itself() -> None:
    def answer(client: socket.socket) -> None:
        interrupt_this_thread()
        assert isinstance(messages.receive(client), messages.Cancel)
        interrupt_this_thread()
        assert messages.receive(client) is None

    with pytest.raises(KeyboardInterrupt):  # the connection ends before the other side is waited for
        with keeper(answer) as channel, channel:
            _converse(channel, messages.Request(verb="suspend"), None)


def test_what_cannot_be_cancelled_is_left() -> None:
    def answer(client: socket.socket) -> None:
        interrupt_this_thread()
        assert messages.receive(client) is None

    with pytest.raises(KeyboardInterrupt):
        with keeper(answer) as channel, channel:
            _converse(channel, messages.Request(verb="flush"), None)


def test_a_handler_that_raises_nothing_stays_the_programs_own() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))

    def answer(client: socket.socket) -> None:
        interrupt_this_thread()
        messages.send(client, messages.Done(result={"said": 1}))

    try:
        with keeper(answer) as channel:
            assert _converse(channel, messages.Request(verb="restore"), None) == {"said": 1}
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


@contextmanager
def woken_by_signals() -> Iterator[socket.socket]:
    """What is written to somebody who asked for it before, as an event loop does."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.settimeout(PATIENCE)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            assert signal.set_wakeup_fd(before) == writer.fileno()


def test_who_was_woken_by_signals_before_still_is() -> None:
    with woken_by_signals() as reader:
        with keeper(interrupted_at_work) as channel, pytest.raises(TorporError):
            _converse(channel, messages.Request(verb="restore"), None)
        assert reader.recv(16) == bytes([signal.SIGINT])


def test_signals_that_come_after_the_last_wait_are_passed_on_as_well() -> None:
    with woken_by_signals() as reader:
        with pytest.raises(KeyboardInterrupt), Interruptions():
            interrupt_this_thread()
        assert reader.recv(16) == bytes([signal.SIGINT])


def test_one_that_nobody_took_is_raised_at_the_end() -> None:
    def answer(client: socket.socket) -> None:
        messages.send(client, messages.Progress(phase="copy", event="start"))
        messages.send(client, messages.Done(result={}))

    def show(_progress: messages.Progress) -> None:
        interrupt_this_thread()
        raise TorporError("no room for a report")

    with keeper(answer) as channel, pytest.raises(TorporError, match="no room"):
        _converse(channel, messages.Request(verb="flush"), show)
    with pytest.raises(KeyboardInterrupt), Interruptions():
        interrupt_this_thread()
    with Interruptions() as interruptions:
        interrupt_this_thread()
        assert interruptions.take()


def test_a_call_in_the_progress_of_another_hears_them() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Interruptions() as outer:
        with Interruptions() as inner:
            interrupt_this_thread()
            assert not inner.wait(ours.fileno())
            assert inner.take()
        assert not outer.take()
        interrupt_this_thread()
        assert outer.take()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_the_program_chose_meanwhile_stays() -> None:
    def own(_number: int, _frame: object) -> None:
        pass

    before = signal.getsignal(signal.SIGINT)
    try:
        with Interruptions():
            signal.signal(signal.SIGINT, own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("call", range(2), ids=["begin", "end"])
def test_one_that_comes_while_it_begins_or_ends_leaves_nothing(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """When the descriptor to be woken by has just been changed."""
    real, calls = signal.set_wakeup_fd, iter(range(10))
    there = len(os.listdir("/proc/self/fd"))

    def interrupted(*arguments: int, **more: bool) -> int:
        before = real(*arguments, **more)
        if next(calls) == call:
            interrupt_this_thread()
        return before

    monkeypatch.setattr(signal, "set_wakeup_fd", interrupted)
    with pytest.raises(KeyboardInterrupt), Interruptions():
        pass
    assert real(-1) == -1
    assert len(os.listdir("/proc/self/fd")) == there
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callback_that_catches_them_is_left_in_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), Interruptions():
        for _ in range(3):
            interrupt_this_thread()


def test_in_a_thread_there_are_none() -> None:
    def count() -> bool:
        ours, theirs = socket.socketpair()
        with ours, theirs, Interruptions() as interruptions:
            return interruptions.wait(ours.fileno(), 0.01) or interruptions.take()

    with ThreadPoolExecutor(1) as threads:
        assert not threads.submit(count).result()


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The supervisors that have started: as each has, this thread is interrupted."""
    real, supervisors = namespace.start_supervisor, list[int]()

    def start(spec: namespace.Spec) -> int:
        supervisors.append(real(spec))
        interrupt_this_thread()
        return supervisors[-1]

    monkeypatch.setattr(namespace, "start_supervisor", start)
    return supervisors


def test_a_job_that_is_interrupted_as_it_starts_does_not_run_on(home: Path, interrupted: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt):
        torpor.run(["sleep", "1000"], gpu="sim")
    [supervisor] = interrupted
    eventually(lambda: records.process_start(supervisor) is None)
    assert not any((home / "jobs").iterdir())


def test_a_process_that_is_taken_as_one_comes_is_let_go(home: Path, interrupted: list[int]) -> None:
    with Started(["sleep", "1000"]) as stranger:
        with pytest.raises(KeyboardInterrupt):
            api.checkpoint_process(stranger.pid)
        [supervisor] = interrupted
        eventually(lambda: records.process_start(supervisor) is None)
        assert not any((home / "jobs").iterdir())
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("verb", ["run", "profile"])
def test_one_that_comes_before_a_program_is_attended_to_is_the_programs(
    home: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    del home
    moment = {"run": (torpor.Job, "attach"), "profile": (Sampler, "begin")}[verb]
    real = getattr(*moment)

    def late(*given: Any) -> Any:
        interrupt_this_thread()
        return real(*given)

    monkeypatch.setattr(*moment, late)
    assert main([verb, "--json", "--gpu", "sim", "--", "sleep", "1000"]) == 130
    [job] = torpor.jobs()
    state = job.state
    if state == "running":
        job.kill(signal.SIGKILL)
    assert state == "killed"


COMMAND = """
import signal, threading
from torpor.cli import interrupt
interrupt.end_soon()
waiting, never = threading.Event(), threading.Lock()
never.acquire()
def kill():
    waiting.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=kill, daemon=True).start()
waiting.set()
try:
    never.acquire()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_command_that_has_not_begun_ends_without_a_traceback(tmp_path: Path) -> None:
    """While its modules are imported."""
    (tmp_path / "click.py").write_text("import os; os.kill(os.getpid(), 2); raise SystemExit('late')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*Cli.command, "ps"], env=env, capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_nor_does_one_that_is_about_to_begin() -> None:
    """While it gets ready to be interrupted."""
    code = (
        "import os, signal; from torpor.cli import interrupt; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "os.pipe2 = lambda _flags: os.kill(os.getpid(), 2); interrupt.end_soon()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("loaded", ["torpor.store.location", "torpor.keeper.client"])
def test_one_that_comes_while_a_module_is_loaded_is_one_as_well(loaded: str) -> None:
    code = (
        "import os, sys, types; from torpor.cli import interrupt; interrupt.end_soon()\n"
        "from torpor.store import location; location.reaches_out = lambda: True\n"
        f"sys.modules['{loaded}'] = types.ModuleType('{loaded}')\n"
        "try: os.kill(os.getpid(), 2)\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "interrupted\n", done.stderr


ENDINGS = {
    "returns": "real, cli._told = cli._told, lambda verb: (real(verb), come())[0]",
    "gives up its handlers": "real, cli._told = cli._told, lambda verb: (real(verb), at_signal())[0]",
    "is handed on": "real, cli.main = cli.main, lambda args: (real(args), come())[0]",
    "waits for threads": "real, threading._shutdown = threading._shutdown, lambda: (come(), real())",
    "ends": "atexit.register(come)",
}


@pytest.mark.parametrize("moment", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_nor_does_one_that_has_ended(home: Path, moment: str, number: signal.Signals) -> None:
    """From the moment at which its verb returns."""
    del home
    code = (
        "import atexit, os, signal, sys, threading; from torpor import cli; from torpor.__main__ import main\n"
        f"come, give = lambda: os.kill(os.getpid(), {int(number)}), signal.signal\n"
        f"at_signal = lambda: setattr(signal, 'signal', lambda *given: (come(), give(*given)))\n{moment}\n"
        "sys.argv = ['torpor', 'ps', '--json']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == (b"[]\n", b"")
    assert done.returncode in (0, -number, 128 + number)


def test_a_command_is_interrupted_whatever_it_waits_for() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "interrupted\n", done.stderr
