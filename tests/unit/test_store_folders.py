"""Where images of stores pass through, and what killed restores leave there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from torpor import paths, records, store_folders
from torpor.errors import UsageError
from torpor.store.passing import passing


def test_an_image_passes_through_memory_where_there_is_room(home: Path) -> None:
    assert home.is_dir()
    with passing(1 << 20) as folder:
        assert folder.parent.parent == paths.dram_dir()
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "image").mkdir()
        (folder / "image" / "file").write_bytes(b"data")
    assert not folder.exists()


def test_an_image_passes_through_the_disk_where_memory_has_no_room(home: Path) -> None:
    with passing(1 << 60) as folder:
        assert folder.parent.parent == home / "images"
    assert not folder.exists()


def test_a_failed_restore_leaves_no_folder(home: Path) -> None:
    assert home.is_dir()
    with pytest.raises(RuntimeError):
        with passing(1 << 20) as folder:
            raise RuntimeError
    assert not folder.exists()


def test_what_killed_restores_left_goes_and_what_living_ones_use_stays(home: Path) -> None:
    assert home.is_dir()
    parent = paths.dram_dir() / ".fetched"
    ended = subprocess.Popen(["true"])
    ended.wait()
    living = f"{os.getpid()}-{records.process_start(os.getpid())}-abc"
    for name in (f"{ended.pid}-12345-abc", f"{os.getpid()}-1-reused", living, "something else"):
        (parent / name).mkdir(parents=True)
    with passing(1 << 20):
        assert {path.name for path in parent.iterdir()} >= {living, "something else"}
        assert not list(parent.glob("*-12345-*")) + list(parent.glob("*-reused"))


def test_names_of_images_are_taken_once(home: Path) -> None:
    (home / "images" / "job-1").mkdir(parents=True)
    with pytest.raises(UsageError, match="job-1"):
        store_folders.image_folder("job-1", "dram")
    with pytest.raises(UsageError):
        store_folders.image_folder("../job", "disk")
    assert store_folders.image_folder("job-2", "disk") == home / "images" / "job-2"
