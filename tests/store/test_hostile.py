"""Stores that somebody made to do harm, and disks that are full: nothing leads out, nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.store.conftest import CHUNK
from tests.store.images import contents as files_of
from tests.store.images import make_image, noise
from torpor.errors import ImageDamaged, NoSpace
from torpor.store import contents, index
from torpor.store.contents import Contents
from torpor.store.files import Files
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.pack import ENTRY
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, open_repository
from torpor.store.verify import verify_store


def remade(repository: Repository, change: Callable[[Contents], None]) -> None:
    """Replace the only image by one that differs, with right seals."""
    (image,) = repository.images()
    found = repository.read(image)
    change(found)
    identity, parts = contents.encode(found)
    repository.backend.delete([f"images/{image.id}"])
    repository.backend.write(f"images/{identity}", parts)


def _path(found: Contents, path: str) -> None:
    found.document.files[0].path = path


def _folder(found: Contents, path: str) -> None:
    found.document.folders[0].path = path


HARM: dict[str, Callable[[Contents], Any]] = {
    "a file above": lambda found: _path(found, "../escaped"),
    "a file anywhere": lambda found: _path(found, "/nowhere/escaped"),
    "a file inside and out": lambda found: _path(found, "cpu/../../escaped"),
    "the manifest": lambda found: _path(found, "manifest.json"),
    "a folder above": lambda found: _folder(found, "../escaped"),
    "another file": lambda found: _path(found, "cpu/other.img"),
    "a hole": lambda found: found.document.streams.pop(0),
    "an overlap": lambda found: found.document.streams.append(found.document.streams[0]),
    "a longer file": lambda found: setattr(found.document.files[0], "size", found.document.files[0].size + 1),
    "a manifest that is none": lambda found: setattr(found.document, "manifest", b"{}\n"),
    "a name above": lambda found: setattr(found.head, "name", "../escaped"),
}


@pytest.mark.parametrize("harm", sorted(HARM))
def test_an_image_made_to_do_harm_is_refused(repository: Repository, tmp_path: Path, harm: str) -> None:
    put(repository, make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 2 * CHUNK)}))
    remade(repository, HARM[harm])
    before = sorted(tmp_path.iterdir())
    (identity,) = [one.name.removeprefix("images/") for one in repository.backend.list("images")]
    with pytest.raises(ImageDamaged):
        get(repository, repository.find(identity), tmp_path / "inner" / "back")
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "inner"] == before
    assert not (tmp_path / "inner").exists() or list((tmp_path / "inner").iterdir()) == []


def test_random_bytes_as_an_image_are_named(repository: Repository) -> None:
    for number in range(50):
        name = f"images/{number:064x}"
        repository.backend.write(name, [noise(number, number * 7)])
        assert name in verify_store(repository).problems[0]["message"]
        repository.backend.delete([name])


def test_unknown_keys_are_passed_over(repository: Repository, tmp_path: Path) -> None:
    """What a later version of the same format may add."""
    image = make_image(tmp_path / "a-1")
    put(repository, image)
    (stored,) = repository.images()
    found = repository.read(stored)

    class More(contents.Document):
        added: str = "later"

    found.document = msgspec.convert({**msgspec.structs.asdict(found.document)}, More, from_attributes=True)
    repository.backend.write(*_with_name(*contents.encode(found)))
    repository.backend.delete([f"images/{stored.id}"])
    assert files_of(get(repository, repository.find("a-1"), tmp_path / "back")) == files_of(image)


def _with_name(identity: str, parts: list[bytes]) -> tuple[str, list[bytes]]:
    return f"images/{identity}", parts


def test_chunks_larger_than_any_are_refused(repository: Repository) -> None:
    entries = np.zeros(1, ENTRY)
    entries["length"] = 1 << 31
    name = index.write(repository.backend, {"0" * 64: (1000, entries)})
    with pytest.raises(ImageDamaged, match=name):
        repository.load_index()


class FillingUp(Files):
    """A disk with room for so many more bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write_new(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        size = sum(len(part) for part in parts)
        if size > self.room:
            path.write_bytes(b"".join(parts)[: self.room])
            self.room = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.room -= size
        super().write_new(path, parts)

    def unlink(self, path: Path) -> None:
        size = path.stat().st_size
        super().unlink(path)
        self.room += size


def test_a_full_disk_loses_nothing(repository: Repository, tmp_path: Path) -> None:
    backend = repository.backend
    assert isinstance(backend, LocalBackend)
    first = make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 4 * CHUNK)})
    second = make_image(tmp_path / "a-2", blocks={1 << 40: noise(2, 4 * CHUNK)})
    put(repository, first)
    done = []
    for room in [0, 200, 1000, *range(CHUNK, 6 * CHUNK, CHUNK // 3)]:
        narrow = open_repository(LocalBackend(backend.root, FillingUp(room)))
        try:
            put(narrow, second, pack_size=2 * CHUNK)
            done.append(room)
        except NoSpace:
            pass
        names = [image.head.name for image in repository.images()]
        assert names == (["a-1", "a-2"] if done else ["a-1"])
        assert verify_store(repository).problems == []
        if done:
            break
        prune(repository)
        assert verify_store(repository).unindexed == 0
    assert done
    for image in (first, second):
        back = get(repository, repository.find(image.name), tmp_path / f"back-{image.name}")
        assert files_of(back) == files_of(image)


def test_a_prune_on_a_full_disk_loses_nothing(repository: Repository, tmp_path: Path) -> None:
    backend = repository.backend
    assert isinstance(backend, LocalBackend)
    kept = make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 2 * CHUNK)})
    put(repository, make_image(tmp_path / "a-2", blocks={(n + 1) << 40: noise(n + 1, 2 * CHUNK) for n in range(6)}))
    put(repository, kept)
    repository.remove(repository.find("a-2"))
    for room in range(0, 6 * CHUNK, CHUNK // 3):
        try:
            prune(open_repository(LocalBackend(backend.root, FillingUp(room))))
        except NoSpace:
            assert verify_store(repository).problems == []
            continue
        break
    assert verify_store(repository).problems == []
    assert files_of(get(repository, repository.find("a-1"), tmp_path / "back")) == files_of(kept)


def test_a_full_disk_can_be_emptied(repository: Repository, tmp_path: Path) -> None:
    backend = repository.backend
    assert isinstance(backend, LocalBackend)
    kept = make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 2 * CHUNK)})
    put(repository, kept)
    put(repository, make_image(tmp_path / "a-2", blocks={1 << 40: noise(2, 4 * CHUNK)}))
    full = open_repository(LocalBackend(backend.root, FillingUp(0)))
    full.remove(full.find("a-2"))
    assert prune(full).freed > 4 * CHUNK
    assert (backend.root / ".reserve").exists()
    assert verify_store(repository).problems == []
    put(full, make_image(tmp_path / "a-3", blocks={1 << 40: noise(3, 2 * CHUNK)}))
    assert [image.head.name for image in repository.images()] == ["a-1", "a-3"]
