"""What benchmarks that make driver calls themselves have in common."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from torpor import paths


def on_the_software_gpu() -> None:
    """Starts this program again with the software GPU as its driver."""
    library = paths.software_gpu()
    if library is None:
        raise SystemExit("the software GPU is not built: run scripts/setup")
    folder = str(library.parent)
    if os.environ.get("LD_LIBRARY_PATH", "").split(":")[0] != folder:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)  # one that was only noted would be lost with this program
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def checked(result: tuple[Any, ...]) -> Any:
    """What a call gave; ends the program when it failed."""
    status, *values = result
    if int(status) != 0:
        raise SystemExit(f"a call failed: {status}")
    return values[0] if len(values) == 1 else values
