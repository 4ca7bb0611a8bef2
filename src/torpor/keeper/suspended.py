"""What is kept of a suspended job: how its processes and blocks stood and, in `dram`, their bytes.

A folder per job in TORPOR_DRAM, laid out like an image's `gpu/`, with the layout beside it. Homes may share TORPOR_DRAM
and have jobs of the same name, so each home has a folder of its own there. (In `hbm` the bytes are what the supervisor
holds.)
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from torpor import paths, records
from torpor.errors import NotFound, TorporError
from torpor.image.manifest import DriverFacts, FileEntry, ProcessEntry
from torpor.keeper.host import SUSPENDED_FOLDER
from torpor.records import JobState

_LAYOUT = "layout.json"


class Layout(msgspec.Struct, kw_only=True):
    """`processes`, `files`, `driver` as in an image's manifest; in `hbm` without files, and blocks without extents."""

    processes: list[ProcessEntry]
    files: list[FileEntry]
    driver: DriverFacts


def _mine() -> Path:
    """The folder of this home's suspended jobs."""
    return paths.dram_dir() / SUSPENDED_FOLDER / paths.home_mark()


def folder(job: str) -> Path:
    """Where the layout and bytes of a suspended job are."""
    return _mine() / job


def make(job: str) -> Path:
    """An empty folder for a job's bytes."""
    place = folder(job)
    shutil.rmtree(place, ignore_errors=True)
    (place / "gpu").mkdir(parents=True, mode=0o700)
    return place


def save(job: str, layout: Layout) -> None:
    """Write the layout; the segments must be there."""
    records.write_atomically(folder(job) / _LAYOUT, msgspec.json.encode(layout))


def load(job: str) -> Layout:
    """The layout of a suspended job; TorporError when it is not there or damaged."""
    try:
        return msgspec.json.decode((folder(job) / _LAYOUT).read_bytes(), type=Layout)
    except (OSError, msgspec.DecodeError) as error:
        raise TorporError(
            f"the memory of suspended job {job} is not in {folder(job)}: {error}",
            hint="the host may have been restarted; restore an earlier image",
        ) from error


def remove_orphans(busy: set[str]) -> list[str]:
    """Remove the bytes of this home's jobs that are no longer suspended (killed, say); `busy` ones are left alone."""
    place = _mine()
    removed = []
    for entry in sorted(place.iterdir()) if place.is_dir() else []:
        if entry.name in busy or _is_suspended(entry.name):
            continue
        shutil.rmtree(entry, ignore_errors=True)
        removed.append(entry.name)
    return removed


def _is_suspended(job: str) -> bool:
    try:
        return records.state(records.load(job)) in (JobState.SUSPENDED, JobState.CHECKPOINTING)
    except NotFound:
        return False
