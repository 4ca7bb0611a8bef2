"""Somebody who starts the next keeper at once when this one dies: nobody else might ask for one while jobs stand still.

A shell reads from a pipe whose other end only the keeper has. A word there is the keeper's orderly end; the end of the
pipe without one is its death, and the shell becomes the next keeper, which recovers what was left (`recovery`).
"""

from __future__ import annotations

import os
import subprocess
import sys

from torpor.records import Backend

LIVES = 5
"""How many keepers follow each other like this. What kills every one of them is no accident; a verb starts another."""

_LIFE = "TORPOR_KEEPER_LIFE"
_SCRIPT = 'read -r word || exec "$@"'


class Watch:
    """Watches over this process from `start` on."""

    def __init__(self) -> None:
        self._end: int | None = None
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self, backend: Backend) -> None:
        """Start the shell, unless this keeper is the last of its line."""
        life = int(os.environ.get(_LIFE, "1"))
        if life >= LIVES:
            return
        reader, self._end = os.pipe2(os.O_CLOEXEC)
        try:
            keeper = [sys.executable, "-m", "torpor.keeper", "--backend", backend]
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "torpor-keeper-watch", *keeper],
                stdin=reader,
                cwd="/",
                env={**os.environ, _LIFE: str(life + 1)},
                start_new_session=True,
            )
        finally:
            os.close(reader)

    def dismiss(self) -> None:
        """This keeper ends as it should: no other is to follow."""
        if self._end is not None:
            os.write(self._end, b"end\n")
            os.close(self._end)
            self._end = None
        if self._shell is not None:
            self._shell.wait()
