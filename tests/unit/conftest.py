"""Shared by the unit tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 MiB: room for one segment, not for two. Needs the right to mount."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=700", "torpor-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)
