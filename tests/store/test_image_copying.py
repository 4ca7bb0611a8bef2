"""An image in memory onto a disk: the same bytes, each file hashed; or, if anything fails, nothing."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.store.images import PAGE, make_image, noise
from torpor import direct_io
from torpor.errors import ImageDamaged
from torpor.image import copying, read_manifest, verify
from torpor.store import plan

SEGMENT = 2100 * PAGE
"""More than is read at a time, so that a file is written in pieces."""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    blocks = {0x600000000000: noise("a", 1700 * PAGE), 0x600040000000: noise("b", 1500 * PAGE + 512)}
    return make_image(tmp_path / "memory" / "job-1", blocks=blocks, segment=SEGMENT, tier="dram")


def copy(image: Path, path: Path, told: list[int] | None = None) -> None:
    sizes = plan.used_sizes(read_manifest(image))
    copying.copy_to_disk(
        image, path, sizes, on_bytes=(told if told is not None else []).append, on_sealed=lambda _: None
    )


@pytest.mark.parametrize("directly", [True, False])
def test_every_byte_arrives(image: Path, tmp_path: Path, directly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not directly:  # a file system that cannot
        monkeypatch.setattr(direct_io, "write", lambda *_: 0)
    made, told = tmp_path / "disk" / "job-1", list[int]()
    copy(image, made, told)
    manifest = read_manifest(made)
    verify(made, manifest)
    sizes = plan.used_sizes(read_manifest(image))
    assert sum(told) == sum(sizes.values())
    assert manifest.tier == "disk"
    assert all(entry.hash is not None for entry in manifest.files)
    for path, size in sizes.items():
        assert (made / path).read_bytes() == (image / path).read_bytes()[:size], path
        assert (made / path).stat().st_mode == (image / path).stat().st_mode


def test_large_files_go_past_the_page_cache(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but what is no whole page, and small files."""
    direct: list[int] = []

    def write(descriptor: int, part: memoryview) -> int:
        assert np.frombuffer(part, np.uint8).ctypes.data % direct_io.ALIGNED == 0
        assert os.lseek(descriptor, 0, os.SEEK_CUR) % direct_io.ALIGNED == 0
        direct.append(os.write(descriptor, part[: len(part) // PAGE * PAGE]))
        return direct[-1]

    monkeypatch.setattr(direct_io, "write", write)
    copy(image, tmp_path / "disk" / "job-1")
    sizes = plan.used_sizes(read_manifest(image))
    assert sum(direct) == sum(size // PAGE * PAGE for size in sizes.values() if size >= 4 << 20)


def test_of_a_copy_that_fails_nothing_is_left(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before every thread has ended: one that still writes would find its folder gone, or make it again."""
    [*_, last] = read_manifest(image).segments()
    sizes = plan.used_sizes(read_manifest(image))
    os.truncate(image / last.path, sizes[last.path] - 1)
    monkeypatch.setattr(copying, "verify", lambda *_: None)
    with pytest.raises(ImageDamaged, match="shorter"):
        copy(image, tmp_path / "disk" / "job-1")
    assert list((tmp_path / "disk").iterdir()) == []
    assert not any(thread.name.startswith("copy") for thread in threading.enumerate())


def test_a_full_disk_is_told_as_such(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not as an error of the memory that could not be given back meanwhile."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(direct_io, "write", fail)
    with pytest.raises(OSError, match="No space"):
        copy(image, tmp_path / "disk" / "job-1")
    assert list((tmp_path / "disk").iterdir()) == []
