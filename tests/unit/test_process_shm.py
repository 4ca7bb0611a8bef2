"""Names in /dev/shm that are made for a dump."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from torpor.process import shm
from torpor.process.criu_images import write_entries
from torpor.process.timers import FILES


@pytest.fixture
def stem() -> Iterator[Path]:
    """What all names here begin with."""
    stem = Path(f"/dev/shm/torpor-test-{os.getpid()}")
    yield stem
    for path in stem.parent.glob(f"{stem.name}*"):
        path.unlink()


@pytest.mark.parametrize("taken", [False, True])
def test_names_that_were_made_go_and_no_other(tmp_path: Path, stem: Path, taken: bool) -> None:
    lost = {f"{stem}-first": f"{stem}-now"}
    Path(f"{stem}-now").write_text("the job's")
    write_entries(tmp_path / "files.img", FILES, [])
    shm.name_again(lost)
    if taken:
        Path(f"{stem}-first").write_text("somebody's")
    shm.save(tmp_path, tmp_path, lost)
    there = {path.name.removeprefix(f"{stem.name}-"): path.read_text() for path in stem.parent.glob(f"{stem.name}*")}
    assert there == {"now": "the job's", **({"first": "somebody's"} if taken else {})}


def test_a_name_that_has_stayed_is_taken_for_made(tmp_path: Path, stem: Path) -> None:
    lost = {f"{stem}-first": f"{stem}-now"}
    Path(f"{stem}-now").write_text("the job's")
    write_entries(tmp_path / "files.img", FILES, [])
    for _time in range(2):
        shm.name_again(lost)
    shm.save(tmp_path, tmp_path, lost)
    assert [path.name for path in stem.parent.glob(f"{stem.name}*")] == [f"{stem.name}-now"]
