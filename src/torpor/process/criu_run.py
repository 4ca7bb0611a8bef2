"""One run of CRIU as a child of the supervisor."""

from __future__ import annotations

import os
import signal

from torpor.process import spawn
from torpor.process.loop import READ, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OUTPUT_KEPT = 4096


class CriuRun:
    """Starts CRIU with `argv`; `ended(self)` is called once it was reaped and `status` and `output` are final.

    CRIU gets the descriptors of `inherit`. Where `{key}` stands in an argument it becomes the number of that one; the
    others are announced by `--inherit-fd`.
    """

    def __init__(self, loop: Loop, argv: list[str], inherit: dict[str, int], ended: Callable[[CriuRun], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._output = bytearray()
        self._dumps = "dump" in argv
        self._kills = self._dumps and "--leave-running" not in argv
        self.status: int | None = None
        command = list(argv)
        for key, fd in inherit.items():
            if any(f"{{{key}}}" in part for part in argv):
                command = [part.replace(f"{{{key}}}", str(fd)) for part in command]
            else:
                command += ["--inherit-fd", f"fd[{fd}]:{key}"]
        self.pid, self._reader = spawn.criu(command, list(inherit.values()))
        loop.watch(self._reader, READ, self._on_output)

    @property
    def output(self) -> str:
        return self._output.decode(errors="replace")

    @property
    def dumped_and_killed(self) -> bool:
        return self._kills and self.status == 0

    def _on_output(self, _events: int) -> None:
        self._read()

    def _read(self) -> bool:
        try:
            data = os.read(self._reader, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._loop.forget(self._reader)
            return False
        self._output += data
        del self._output[:-OUTPUT_KEPT]
        return True

    def finish(self, status: int) -> None:
        """It was reaped, with an exit status (negative: the signal that killed it)."""
        while self._read():
            pass
        self._loop.forget(self._reader)
        os.close(self._reader)
        self.status = status
        if self._dumps:
            self._end_its_children()
        self._ended(self)

    def _end_its_children(self) -> None:
        """One that was killed leaves its script, and what it tries the kernel's features with: the job's they are not.

        What it restored leads groups of its own, but nothing that belongs to a dump outlives it."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
            while True:
                os.waitpid(-self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return
