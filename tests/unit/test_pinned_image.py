"""Pinned host memory between a job's files and an image's: every byte, no more than there is, nothing left open."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torpor.errors import ImageDamaged
from torpor.image.manifest import SEGMENT
from torpor.image.reader import check_hashes
from torpor.keeper.pinned_out import PinnedOut
from torpor.paths import PINNED_IN_JOB
from torpor.process import pinned, pinned_fill
from torpor.process.mounts import PINNED_INSIDE
from torpor.process.pinned import PinnedFile, Saved

PLACE = "/dev/shm"
PAGE = 4096
MIB = 1 << 20


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_fill, "PINNED_INSIDE", PLACE)


@pytest.fixture
def files() -> Iterator[list[PinnedFile]]:
    """Three: of one page; of a piece and some, mostly zeros; of nothing but zeros."""
    source = random.Random(5)
    written = [{0: source.randbytes(PAGE)}, {MIB: source.randbytes(3 * MIB + 7), SEGMENT: source.randbytes(100)}, {}]
    sizes = [PAGE, SEGMENT + 3 * MIB + PAGE, 2 * MIB]
    made = []
    for number, (size, parts) in enumerate(zip(sizes, written, strict=True)):
        descriptor = os.open(PLACE, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(descriptor, 0, size)
        for at, data in parts.items():
            os.pwrite(descriptor, data, at)
        made.append(PinnedFile(f"file[1:{number}]", size, 0o600, Path(f"/proc/self/fd/{descriptor}")))
    yield made
    for file in made:
        os.close(int(file.path.name))


def save(files: list[PinnedFile], image: Path, *, hashed: bool = True, in_place: bool = False) -> PinnedOut:
    out = PinnedOut(image, hashed=hashed, in_place=in_place)
    out.start(files)
    out.finish()
    return out


def contents(descriptor: int) -> bytes:
    return Path(f"/proc/self/fd/{descriptor}").read_bytes()


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_supervisor_and_keeper_mean_the_same_place() -> None:
    assert str(PINNED_IN_JOB) == PINNED_INSIDE


@pytest.mark.parametrize("hashed", [True, False])
def test_what_comes_back_is_what_went(tmp_path: Path, files: list[PinnedFile], hashed: bool) -> None:
    out = save(files, tmp_path, hashed=hashed)
    assert out.size == sum(file.size for file in files)
    assert len(out.entries) == 4
    assert all((entry.hash is not None) == hashed for entry in out.entries.values())
    check_hashes(tmp_path, out.entries.values())
    made = pinned_fill.make(pinned.to_make(tmp_path))
    for file in files:
        assert contents(made[file.key]) == file.path.read_bytes()
        assert stat.S_IMODE(os.fstat(made[file.key]).st_mode) == 0o600
        os.close(made[file.key])


def test_zeros_take_no_room(tmp_path: Path, files: list[PinnedFile]) -> None:
    save(files, tmp_path)
    pieces = [tmp_path / "pinned" / f"{number:04d}" for number in range(4)]
    assert [file.stat().st_size for file in pieces] == [PAGE, SEGMENT, 3 * MIB + PAGE, 2 * MIB]
    assert sum(file.stat().st_blocks * 512 for file in pieces) < 6 * MIB
    made = pinned_fill.make(pinned.to_make(tmp_path))
    assert sum(os.fstat(fd).st_blocks * 512 for fd in made.values()) < 6 * MIB
    for descriptor in made.values():
        os.close(descriptor)


def test_in_place_nothing_moves(tmp_path: Path, files: list[PinnedFile]) -> None:
    out = save(files, tmp_path, in_place=True)
    assert out.entries == {}
    for number, file in enumerate(files):
        link = tmp_path / "pinned" / f"{number:04d}"
        assert link.is_symlink()
        assert link.read_bytes() == file.path.read_bytes()


def test_without_such_memory_nothing_is_written(tmp_path: Path) -> None:
    save([], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert pinned.to_make(tmp_path) == []
    assert pinned.find([os.getpid(), 1 << 22]) == []  # the second is no process


def test_one_that_is_let_go_of_hides_no_other(files: list[PinnedFile], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the list of mappings and at one of them."""
    maps = [mmap.mmap(int(file.path.name), file.size) for file in files]
    device, mount = os.fstat(int(files[0].path.name)).st_dev, "7"
    monkeypatch.setattr(pinned, "_mount", lambda _pid: (int(mount), f"{os.major(device):02x}:{os.minor(device):02x}"))
    whole = {file.key for file in pinned.find([os.getpid()])}
    assert len(whole) >= len(files)
    look, gone = Path.stat, []

    def stat_but_first(path: Path, **options: bool) -> os.stat_result:
        if not gone:
            gone.append(path)
            raise FileNotFoundError(path)
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", stat_but_first)
    assert len(whole) - 1 == len({file.key for file in pinned.find([os.getpid()])})
    for one in maps:
        one.close()


def test_a_piece_that_is_gone_leaves_nothing_open(tmp_path: Path, files: list[PinnedFile]) -> None:
    save(files, tmp_path)
    (tmp_path / "pinned" / "0001").unlink()
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        pinned_fill.make(pinned.to_make(tmp_path))
    assert descriptors() == before


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, files: list[PinnedFile]) -> None:
    out = PinnedOut(tmp_path / "missing", hashed=True, in_place=False)
    out.start(files)
    with pytest.raises(FileNotFoundError):
        out.finish()
    out.stop()


def test_stopping_waits_until_all_is_at_rest(tmp_path: Path, files: list[PinnedFile]) -> None:
    out = PinnedOut(tmp_path, hashed=True, in_place=False)
    out.start(files)
    out.stop()
    shutil.rmtree(tmp_path / "pinned", ignore_errors=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "index",
    [
        "[",
        '[{"key": "a"}]',
        '[{"key": "a", "size": 2, "mode": 0, "pieces": [["0000", 1]]}]',
        '[{"key": "a", "size": 1, "mode": 0, "pieces": [["../0000", 1]]}]',
        '[{"key": "a", "size": 1, "mode": 0, "pieces": [["0000", 2], ["0001", -1]]}]',
    ],
)
def test_an_index_that_cannot_be_one_is_told(tmp_path: Path, index: str) -> None:
    (tmp_path / "pinned").mkdir()
    (tmp_path / "pinned" / "index.json").write_text(index)
    with pytest.raises(ImageDamaged, match=r"pinned/index\.json"):
        pinned.read_index(tmp_path)


def test_the_index_says_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "pinned").mkdir()
    saved = [Saved("file[2a:5]", 3, 0o600, [("0000", 2), ("0001", 1)])]
    pinned.write_index(tmp_path, saved)
    assert pinned.read_index(tmp_path) == saved
    entries: list[dict[str, Any]] = json.loads((tmp_path / "pinned" / "index.json").read_text())
    assert entries[0]["key"] == "file[2a:5]"
