"""Writes the samples `store-encrypted` and `store-encrypted-*`: run once, and never over those that are kept.

    python -m tests.golden.make_encrypted_store FOLDER

Its config has format 2, and all else is as in version 1. The key is no secret: it is for these alone.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.golden.make_stores import CHUNK, cut, facts, flip, images, largest, only
from torpor.store.local import LocalBackend
from torpor.store.put import put
from torpor.store.repository import create

KEY = bytes(range(100, 132))


def _swap(folder: Path) -> None:
    """Two objects, each in the other's place."""
    first, second = sorted(folder.iterdir())
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)


BROKEN: dict[str, Callable[[Path], None]] = {
    "frame": lambda store: flip(only(store / "packs", largest), 1000),
    "cut": lambda store: cut(only(store / "packs", largest)),
    "swapped": lambda store: _swap(store / "images"),
    "tag": lambda store: flip(store / "tags" / "first", 60),
}
"""What was done to each broken sample."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = LocalBackend(Path(folder) / "store")
        backend.prepare()
        repository = create(backend, chunk=CHUNK, key=KEY)
        made = images(Path(folder))
        for image in made:
            put(repository, image, compression="none")
        repository.tag(repository.find("sample-1"), "first")
        (backend.root / "locks").rmdir()  # git keeps no empty folders
        for left in backend.root.glob(".*"):
            left.unlink()
        shutil.copytree(backend.root, target / "store-encrypted")
        # They are the images of the first version's samples, so store-1.json says what is in them.
        assert facts(made) == json.loads((target / "store-1.json").read_text())
        for name, harm in BROKEN.items():
            shutil.copytree(backend.root, target / f"store-encrypted-{name}")
            harm(target / f"store-encrypted-{name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
