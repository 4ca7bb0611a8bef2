"""The folder backend: the contract, and what only a folder can show."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.store.contract import NAME, BackendContract
from torpor.errors import NoRights, NoSpace, StepFailed
from torpor.store.backend import NoObject
from torpor.store.files import Files
from torpor.store.local import LocalBackend
from torpor.store.pack import Chunk, PackBuilder


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    made = LocalBackend(tmp_path / "store")
    made.prepare()
    return made


class TestLocalBackend(BackendContract):
    pass


class Failing(Files):
    """Calls that fail as a disk does: full, read-only or broken, after some bytes were written."""

    number = 0

    def write_new(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        super().write_new(path, [bytes(parts[0])[:3]])
        if self.number:
            raise OSError(self.number, os.strerror(self.number), str(path))


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, NoSpace), (errno.EDQUOT, NoSpace), (errno.EROFS, NoRights), (errno.EIO, StepFailed)],
)
def test_a_failed_write_is_named_and_leaves_nothing(backend: LocalBackend, number: int, expected: type) -> None:
    backend.write(NAME, [b"old"])
    failing = Failing()
    failing.number = number
    broken = LocalBackend(backend.root, failing)
    with pytest.raises(expected, match=NAME):
        broken.write(NAME, [b"newer"])
    assert backend.read(NAME) == b"old"
    assert [path.name for path in (backend.root / "packs").iterdir()] == [NAME.removeprefix("packs/")]


def test_what_a_killed_write_leaves_is_no_object_and_is_swept(backend: LocalBackend) -> None:
    left = backend.root / "packs" / ".new-0123"
    left.write_bytes(b"12345")
    assert list(backend.list("packs")) == []
    assert backend.sweep() == 5
    assert not left.exists()


def test_a_store_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NoObject, match="which is not there"):
        LocalBackend(tmp_path / "nowhere").read("config")


def test_files_are_for_their_user_only(backend: LocalBackend) -> None:
    backend.write(NAME, [b"data"])
    assert (backend.root / NAME).stat().st_mode & 0o077 == 0
    assert (backend.root / "packs").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("size", [(4 << 20) - 1, 4 << 20, (4 << 20) + 1, (17 << 20) + 4097])
def test_large_objects_come_back_wherever_in_memory_they_were(backend: LocalBackend, size: int, shift: int) -> None:
    room = mmap.mmap(-1, size + shift)
    room[shift:] = hashlib.shake_128(b"large").digest(size)
    parts = [memoryview(room)[shift:], b"a directory", b""]
    backend.write(NAME, parts)
    assert backend.read(NAME) == b"".join(bytes(part) for part in parts)


def test_large_parts_go_past_the_page_cache(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        os.close(os.open(tmp_path / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        direct = False
    else:
        direct = True
    sizes: dict[bool, int] = {False: 0, True: 0}
    real = {name: getattr(os, name) for name in ("write", "writev")}

    def count(descriptor: int, written: int) -> int:
        sizes[bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)] += written
        return written

    monkeypatch.setattr(os, "write", lambda fd, data: count(fd, real["write"](fd, data)))
    monkeypatch.setattr(os, "writev", lambda fd, parts: count(fd, real["writev"](fd, parts)))
    builder = PackBuilder()
    builder.add(Chunk(bytes(32), 5 << 20, 0, bytes(5 << 20)))
    pack = builder.finish()
    backend.write(f"packs/{pack.name}", pack.parts)
    assert sizes[True] == (builder.size // 4096 * 4096 if direct else 0)
    assert sizes[True] + sizes[False] == pack.size
