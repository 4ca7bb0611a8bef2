"""Writes the samples of a version of the store's format: run once for each, and never over those that are kept.

    python -m tests.golden.make_stores FOLDER VERSION

Version 1 is `store-1`, and `store-1-*` what was done to it. Version 2 is `store-2`: the same images without hashes.

The samples of a version stay as they are for ever: what a reader of a later one must still understand, or must name.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.store.images import PAGE, contents, make_image, noise
from torpor.image import read_manifest
from torpor.image.manifest import FileEntry, encode
from torpor.store.deposit import Deposit
from torpor.store.local import LocalBackend
from torpor.store.put import put
from torpor.store.repository import create
from torpor.store.scan import Scan

CHUNK = 64 << 10


def images(folder: Path) -> list[Path]:
    """Two images: blocks that cross segments, zeros, text, floats; pages at addresses; most of it in both."""
    import numpy as np

    floats = (np.arange(PAGE // 4, dtype=np.float32) / 977).tobytes()
    text = b"".join(b"line %d of the sample\n" % number for number in range(2000))
    blocks = {1 << 40: noise("sample", PAGE // 2) + text, 2 << 40: bytes(3 * CHUNK), 3 << 40: floats}
    pages = [(0x10000, noise("pages", 64) * 64), (0x7F0000, b"p" * PAGE)]
    first = make_image(folder / "sample-1", blocks=blocks, pages=pages)
    blocks[3 << 40] = floats[: PAGE // 2] + noise("changed", PAGE // 2)
    return [first, make_image(folder / "sample-2", blocks=blocks, pages=pages, log=b"started\nwent on\n")]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def only(folder: Path, place: Callable[[list[Path]], Path] = lambda found: found[0]) -> Path:
    return place(sorted(folder.iterdir()))


def largest(found: list[Path]) -> Path:
    return max(found, key=lambda path: path.stat().st_size)


BROKEN: dict[str, Callable[[Path], None]] = {
    "chunk": lambda store: flip(only(store / "packs", largest), 1000),
    "directory": lambda store: flip(only(store / "packs", largest), -100),
    "short-pack": lambda store: cut(only(store / "packs", largest)),
    "lost-pack": lambda store: only(store / "packs", largest).unlink(),
    "index": lambda store: flip(only(store / "index"), 200),
    "lost-index": lambda store: _empty(store / "index"),
    "image": lambda store: flip(only(store / "images"), -1),
    "image-head": lambda store: flip(only(store / "images"), 30),
    "tag": lambda store: flip(store / "tags" / "first", 3),
    "config": lambda store: flip(store / "config", 3),
    "newer": lambda store: _newer(store / "config"),
}
"""What was done to each broken sample."""


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _newer(config: Path) -> None:
    from torpor.store import sealed

    data = json.loads(config.read_text().splitlines()[0])
    config.write_bytes(b"".join(sealed.pack_json({**data, "format": 2})))


def version_2(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = LocalBackend(Path(folder) / "store")
        backend.prepare()
        repository = create(backend, chunk=CHUNK)
        for image in images(Path(folder)):
            manifest = read_manifest(image)
            manifest.files = [FileEntry(path=entry.path, size=entry.size) for entry in manifest.files]
            scan = Scan(image, manifest, CHUNK)
            with repository.lock("shared", "checkpoint") as held, Deposit(repository, held) as deposit:
                scan.run(1, deposit.take, lambda _count: None)
                deposit.flush()
                deposit.commit(deposit.seal(image.name, manifest, encode(manifest), scan, hashed=False))
        shutil.copytree(backend.root, target / "store-2")
    (target / "store-2" / "locks").rmdir()
    (target / "store-2" / ".reserve").unlink()


def version_1(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = LocalBackend(Path(folder) / "store")
        backend.prepare()
        repository = create(backend, chunk=CHUNK)
        made = images(Path(folder))
        for image in made:
            put(repository, image, compression="small")
        repository.tag(repository.find("sample-1"), "first")
        shutil.copytree(backend.root, target / "store-1")
        (target / "store-1.json").write_text(json.dumps(facts(made), indent=1, sort_keys=True) + "\n")
        for name, harm in BROKEN.items():
            shutil.copytree(backend.root, target / f"store-1-{name}")
            harm(target / f"store-1-{name}")
    # Git keeps no empty folders, and a reader takes a missing one for empty.
    for folder in target.glob("store-1*/locks"):
        folder.rmdir()


def facts(made: list[Path]) -> dict[str, dict[str, str | None]]:
    """Hashes of the images' files, None for their folders."""
    return {image.name: {path: _told(data) for path, (data, _) in contents(image).items()} for image in made}


def _told(data: bytes | None) -> str | None:
    from blake3 import blake3

    return None if data is None else blake3(data).hexdigest()


if __name__ == "__main__":
    {"1": version_1, "2": version_2}[sys.argv[2]](Path(sys.argv[1]))
