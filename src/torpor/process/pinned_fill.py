"""In the supervisor, before a restore: the job's pinned host memory, as files without names, filled from an image.

The supervisor does it and not the keeper, so that the memory counts as the job's.
"""

from __future__ import annotations

import os

from torpor.process import side_by_side
from torpor.process.mounts import PINNED_INSIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def make(wanted: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Descriptors of new files by CRIU's keys, with all bytes. Raises OSError; nothing is left open then."""
    made: dict[str, int] = {}
    try:
        parts: list[side_by_side.Part] = []
        for file in wanted:
            descriptor = os.open(PINNED_INSIDE, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            made[file["key"]] = descriptor
            os.truncate(descriptor, file["size"])
            at = 0
            for path, length in file["pieces"]:
                parts += side_by_side.parts(path, length, descriptor, at)
                at += length
        side_by_side.copy(parts)
        for file in wanted:
            os.fchmod(made[file["key"]], file["mode"])
    except BaseException:
        for descriptor in made.values():
            os.close(descriptor)
        raise
    return made
