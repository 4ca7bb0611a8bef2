"""A terminal with a person in front of it, for tests of what `torpor` does there."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time

from tests.conftest import PATIENCE, Cli


class Seat:
    """A terminal with a person in front of it, who starts `torpor` there and reads what it shows."""

    def __init__(self) -> None:
        self.keys, self.terminal = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.terminal)
        self.shown = b""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *args: str, shell: str | None = None, **streams: int) -> subprocess.Popen[bytes]:
        """Run `torpor` (or, with `shell`, this line with `$TORPOR`) as the session's leader on this terminal."""
        argv = [*Cli.command, *args] if shell is None else ["bash", "--norc", "-im", "-c", shell]
        command = [sys.executable, "-c", _LEAD, *argv]
        places = dict.fromkeys(("stdin", "stdout", "stderr"), self.terminal)
        env = {**os.environ, "TORPOR": " ".join(Cli.command)}
        self.process = subprocess.Popen(command, env=env, start_new_session=True, **{**places, **streams})
        return self.process

    def type(self, data: bytes) -> None:
        os.write(self.keys, data)

    def read_until(self, pattern: bytes, seconds: float = PATIENCE) -> re.Match[bytes]:
        """Read on until the pattern was shown; what was shown up to there is forgotten."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.shown, re.DOTALL)) is None:
            left = end - time.monotonic()
            assert left > 0, f"{pattern!r} was not shown: {self.shown!r}"
            if select.select([self.keys], [], [], min(left, 0.2))[0]:
                self.shown += os.read(self.keys, 65536)
        self.shown = self.shown[found.end() :]
        return found

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.terminal)[3] & termios.ICANON

    def ends(self) -> int:
        """Wait for the end; the terminal must be as it was."""
        assert self.process is not None
        code = self.process.wait(timeout=PATIENCE)
        assert termios.tcgetattr(self.terminal) == self.before
        return code

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keys)
        os.close(self.terminal)


_LEAD = (
    "import fcntl, os, sys, termios\n"
    "fd = next(fd for fd in (0, 1, 2) if os.isatty(fd))\n"
    "fcntl.ioctl(fd, termios.TIOCSCTTY, 0)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)
