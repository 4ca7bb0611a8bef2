"""Staying with a job: its output and end become ours, our input and signals become its own."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from torpor import records
from torpor.api import Job
from torpor.cli import output
from torpor.cli.front import Front
from torpor.errors import AWAY, TorporError, WrongState
from torpor.process.client import Attachment, End
from torpor.records import JobState

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

_PIECE = 32 * 1024


def stay(
    job: Job,
    at_begin: Callable[[], None] | None = None,
    at_attach: Callable[[], None] | None = None,
    at_signal: Callable[[], None] | None = None,
    at_end: Callable[[], None] | None = None,
) -> int:
    """Be the job for its caller until it ends; returns its exit code, or dies by the signal that ended it.

    0 as well when the user let go of a job on a terminal. `at_begin` is called first, when signals are the job's
    already; then `at_attach` when its output is ours, `at_signal` before one is passed on, `at_end` when the job has
    ended or was let go of.
    """
    left = threading.Event()
    begun = False

    def hand_on(number: int) -> None:
        if begun and at_signal is not None:
            at_signal()
        forward(job, number)

    # First of all: one that came a moment later would end us alone, and the job would run on unseen.
    before = {number: signal.signal(number, lambda got, _frame: hand_on(got)) for number in FORWARDED}
    try:
        if at_begin is not None:
            at_begin()
        begun = True
        raw = job.is_on_terminal()
        streams = job.attach()
        try:
            if at_attach is not None:
                at_attach()
            with Front(raw=raw, resize=streams.resize) as front:
                threading.Thread(target=_send_input, args=(streams, front, left), daemon=True).start()
                _copy_output(streams)
        finally:
            streams.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    unrecorded = _unrecorded(job, streams)
    if unrecorded is None and not left.is_set():
        job.wait()
    if at_end is not None:
        at_end()
    if left.is_set():
        output.note(f"{job.name} runs on\n  `torpor attach {job.name}` comes back to it")
        return 0
    state = job.state
    if state is JobState.ASLEEP:
        say_where(job)
        return AWAY
    if unrecorded is not None:
        output.note(f"how {job.name} ended could not be recorded: `torpor ps` takes it for lost")
    code = job.exit_code if unrecorded is None else unrecorded.status
    if code is None:
        raise WrongState(f"{job.name} is gone and nobody saw how it ended", hint=f"see `torpor logs {job.name}`")
    killed = state is JobState.KILLED or (unrecorded is not None and unrecorded.signal is not None)
    if killed and not output.as_json:
        _die_by(code - 128)
    return code


def _unrecorded(job: Job, streams: Attachment) -> End | None:
    """How the job ended where that was told to those who were attached alone: no room was left to record it.

    A supervisor tells it after it has tried. Of a job that a checkpoint ended, the keeper knows more.
    """
    end = streams.end
    if end is None or end.checkpointed or records.load_exit(job.name) is not None:
        return None
    return end


def forward(job: Job, number: int) -> None:
    """Send the job a signal that was ours, if it has not ended."""
    try:
        # What a terminal sends goes to all of its foreground processes, not to the first alone.
        job.kill(number, group=os.isatty(0))
    except TorporError:
        pass  # it has just ended, which is what we are about to learn


def say_where(job: Job) -> None:
    """Which image a job that is asleep went into, and how to wake it."""
    image = job.image
    place = job.record.image or ""
    if image is None and "@" in place.partition("/")[0]:
        output.note(f"{job.name} sleeps in {place}\n  wake it with `torpor restore {place}`")
    elif image is None:
        output.note(f"{job.name} was put to sleep, and its image is gone")
    else:
        output.note(f"{job.name} sleeps in {image.path}\n  wake it with `torpor restore {image.handle}`")


def _send_input(streams: Attachment, front: Front, left: threading.Event) -> None:
    try:
        while data := front.read(_PIECE):
            if front.asks_to_leave(data):
                left.set()
                streams.leave()
                return
            streams.write(data)
        streams.end_input()
    except OSError:
        pass  # the job is gone, or we have no input


def _copy_output(streams: Attachment) -> None:
    targets: dict[str, int] = {"o": 1, "e": 2}
    if os.isatty(0):
        targets["t"] = 0
    for tag, data in streams:
        if tag not in targets:
            continue
        try:
            _write_all(targets[tag], data)
        except BrokenPipeError:
            # Our reader went away (`torpor run … | head`), so the job's has.
            del targets[tag]
            with suppress(BrokenPipeError):
                if tag != "t":
                    streams.close_output(tag)


def _die_by(number: int) -> None:
    """End as the job did, so that a shell or a scheduler sees the same; it has dumped its own core if any."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]
