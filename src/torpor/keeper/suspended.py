"""What a new keeper needs to resume a job that is suspended in `dram`: its blocks and where their bytes lie.

A folder per job in TORPOR_DRAM, laid out like an image's `gpu/`, with the layout beside it. (In `hbm` the supervisor's
hold says it all.)
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from torpor import paths, records
from torpor.errors import NotFound, TorporError
from torpor.image.manifest import FileEntry, ProcessEntry
from torpor.keeper.host import SUSPENDED_FOLDER
from torpor.records import JobState

_LAYOUT = "layout.json"


class Layout(msgspec.Struct, kw_only=True):
    """`processes` and `files` as in an image's manifest."""

    processes: list[ProcessEntry]
    files: list[FileEntry]


def folder(job: str) -> Path:
    """Where the bytes of a suspended job are."""
    return paths.dram_dir() / SUSPENDED_FOLDER / job


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


def remove(job: str) -> None:
    shutil.rmtree(folder(job), ignore_errors=True)


def remove_orphans(busy: set[str]) -> list[str]:
    """Remove the bytes of jobs that are not suspended any more (killed, say); `busy` ones are left alone."""
    place = paths.dram_dir() / SUSPENDED_FOLDER
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
