"""Files that a user asks for: whole, or as they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def data(file: Path, content: bytes) -> None:
    """Write this into the file (`whole`)."""
    whole(file, lambda beside: beside.write_bytes(content))


def whole(file: Path, write: Callable[[Path], object]) -> None:
    """Have `write` write it beside, and take its place when it is whole; but for what is no file, as a device.

    An OSError names the file.
    """
    file = Path(os.path.realpath(file))  # a link stays one
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if file.exists() and not file.is_file():
            write(file)
            return
        write(partial)
        partial.replace(file)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(file)
        raise
