"""Programs that a benchmark starts and waits for: a Ctrl-C at any moment leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torpor.keeper.interruptions import Interruptions

Process = subprocess.Popen[bytes]


def begin(command: Sequence[str | Path], **options: Any) -> Process:
    """Start a program in a session of its own: Ctrl-C is for us. One that came meanwhile ends it at once.

    `subprocess` alone forgets a program that it has started when a KeyboardInterrupt comes before it has told of it.
    """
    process = None
    try:
        with Interruptions():  # which raises at its end what came meanwhile
            process = subprocess.Popen(command, start_new_session=True, **options)
    except BaseException:
        if process is not None:
            end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        raise
    return process


def end(process: Process) -> None:
    """End it at once, with what it has started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def started(
    command: Sequence[str | Path], *, ending: Callable[[Process], None] = end, **options: Any
) -> Iterator[Process]:
    """One that has ended when the block has: by itself, or, where the block is left by an error, by `ending`."""
    process = begin(command, **options)
    with process:
        try:
            yield process
        except BaseException:
            ending(process)
            raise


def output(
    command: Sequence[str | Path], given: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run it to its end: its exit status, and what it printed. What it says on stderr is for people to see."""
    with started(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        said, _ = process.communicate(given.encode())
    return process.returncode, said.decode(errors="replace")
