"""Copies in parts: every byte in its place, holes kept, and nothing under way after a failure."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from torpor.process import side_by_side

PAGE = 4096
MIB = 1 << 20


@pytest.fixture
def memory() -> Iterator[Path]:
    """A file in memory: bytes, a hole of 150 MiB, bytes that end within a page."""
    path = Path(f"/dev/shm/torpor-test-side-by-side-{os.getpid()}")
    source = random.Random(3)
    with path.open("xb") as file:
        file.write(source.randbytes(3 * MIB + 5))
        file.seek(153 * MIB)
        file.write(source.randbytes(70 * MIB + 77))
    yield path
    path.unlink()


def copied(source: Path, target: Path, size: int) -> None:
    with target.open("xb") as file:
        file.truncate(size)
        side_by_side.copy(side_by_side.parts(str(source), size, file.fileno()))


def test_every_byte_is_in_its_place(memory: Path, tmp_path: Path) -> None:
    copied(memory, tmp_path / "copy", memory.stat().st_size)
    assert (tmp_path / "copy").read_bytes() == memory.read_bytes()
    assert (tmp_path / "copy").stat().st_blocks * 512 < 80 * MIB


def test_parts_go_where_they_are_told(memory: Path, tmp_path: Path) -> None:
    with (tmp_path / "copy").open("w+b") as file:
        file.truncate(10 * PAGE)
        side_by_side.copy(side_by_side.parts(str(memory), PAGE + 8, file.fileno(), 3 * PAGE + 5))
    found, source = (tmp_path / "copy").read_bytes(), memory.read_bytes()
    assert found == bytes(3 * PAGE + 5) + source[: PAGE + 8] + bytes(6 * PAGE - 13)


@pytest.mark.parametrize("size", [0, 1, PAGE, side_by_side.LENGTH + 1])
def test_a_source_may_be_shorter(tmp_path: Path, size: int) -> None:
    (tmp_path / "source").write_bytes(b"abc")
    copied(tmp_path / "source", tmp_path / "copy", size)
    found = (tmp_path / "copy").read_bytes()
    assert found == b"abc"[:size] + bytes(max(0, size - 3))


def test_the_first_failure_is_told_and_all_is_at_rest(memory: Path, tmp_path: Path) -> None:
    size = memory.stat().st_size
    with (tmp_path / "copy").open("xb") as file:
        wanted = side_by_side.parts(str(memory), size, file.fileno())
        wanted.insert(1, ("/no/such/file", 0, 1, file.fileno(), 0))
        with pytest.raises(FileNotFoundError):
            side_by_side.copy(wanted)
    assert not [thread for thread in threading.enumerate() if thread.name == "side-by-side"]
