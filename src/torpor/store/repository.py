"""A store as a whole: its config, its index, its images and their names."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from torpor.errors import ImageDamaged, NoRights, NotFound, TorporError, UsageError
from torpor.records import check_name
from torpor.store import contents, encrypt, index, locks, sealed
from torpor.store.backend import CONFIG, Backend, NoObject
from torpor.store.contents import Contents, ImageHead
from torpor.store.encrypt import EncryptBackend, Encryption
from torpor.store.index import Index
from torpor.store.pack import MOST_CHUNK

CHUNK = 512 << 10
"""Bytes of a chunk in a new store (docs/design/store.md has the measurement)."""

CHUNKS = (64 << 10, MOST_CHUNK)
"""The smallest and the largest that a store may have."""

SHORT = 12
"""Digits of an image's id that people are shown."""

ENCRYPTED = 2
"""Format of the config of an encrypted store, so that a Torpor that does not know encryption stays away from it."""

Keys = Callable[[], Sequence[bytes]]
"""Gives the keys that the user has; asked when a store turns out to be encrypted."""

_READERS = 16


class Config(msgspec.Struct, kw_only=True, omit_defaults=True):
    format: int
    id: str
    chunk: int
    created: str
    encryption: Encryption | None = None


class Tag(msgspec.Struct, kw_only=True):
    """A second name of an image; it can be moved to another."""

    image: str
    set: str


class StoredImage(NamedTuple):
    """An image of a store: its id (64 hex digits) and head."""

    id: str
    head: ImageHead


class Repository:
    """An opened store. Reading methods may be called from several threads.

    `store_key` is an encrypted one's own key, by which another process can open it (`open_repository`) that does not
    have the user's. It is to be written nowhere.
    """

    def __init__(
        self, backend: Backend, config: Config, *, locked: bool = True, store_key: bytes | None = None
    ) -> None:
        self.backend = backend if store_key is None else EncryptBackend(backend, store_key)
        self.config = config
        self.store_key = store_key
        self._locked = locked

    @property
    def url(self) -> str:
        return self.backend.url

    @property
    def chunk(self) -> int:
        return self.config.chunk

    @contextmanager
    def lock(
        self,
        mode: locks.Mode,
        verb: str,
        *,
        wait: float = locks.WAIT,
        read_only: bool = False,
        name: str | None = None,
    ) -> Iterator[locks.Held]:
        """Hold a lock of the store, for whoever brings an image with its name; archives, which one process writes, have
        none."""
        if not self._locked:
            yield locks.Held(self.backend, None)
            return
        with locks.hold(self.backend, mode, verb, wait=wait, read_only=read_only, name=name) as held:
            yield held

    def every_lock(self) -> list[locks.Lock]:
        """All locks, those of the dead included."""
        return [*locks.every(self.backend).values()] if self._locked else []

    def load_index(self, *, only_present: bool = False) -> Index:
        """Every chunk of the store; one that is in several packs where it is there in full, if it is anywhere.

        With `only_present`, without the packs that are not there in their full length. Raises ImageDamaged for a
        damaged index file.
        """
        # Packs first: those of an index file that appears later are taken for missing, which costs room, and no more.
        sizes = {one.name: one.size for one in self.backend.list("packs")}
        names = sorted(one.name for one in self.backend.list("index"))
        parts = [index.read(self.backend, name) for name in names]

        def present(name: str, size: int) -> bool:
            return sizes.get(f"packs/{name}") == size

        if only_present:
            return index.build(parts, present)
        whole = [{name: pack for name, pack in part.items() if present(name, pack[0])} for part in parts]
        return index.build([*whole, *parts])

    def images(self) -> list[StoredImage]:
        """The images by their heads, the oldest first. Raises ImageDamaged for one whose head cannot be read."""
        found, wrong = self.readable_images()
        if wrong:
            raise wrong[0]
        return found

    def readable_images(
        self, known: Mapping[str, StoredImage] | None = None
    ) -> tuple[list[StoredImage], list[TorporError]]:
        """The images whose heads can be read, the oldest first, and what is wrong with the others.

        Those that are `known`, by their ids, are not read again.
        """
        names = [one.name.removeprefix("images/") for one in self.backend.list("images")]
        found: list[StoredImage] = []
        wrong: list[TorporError] = []

        def read(identity: str) -> StoredImage | TorporError | None:
            if known is not None and identity in known:
                return known[identity]
            try:
                return StoredImage(identity, contents.read_head(self.backend, identity))
            except NoObject:
                return None  # removed since the listing
            except (*sealed.OBJECT_ERRORS, NoRights) as error:
                return error

        with ThreadPoolExecutor(_READERS) as threads:
            for one in threads.map(read, sorted(names)):
                if isinstance(one, StoredImage):
                    found.append(one)
                elif one is not None:
                    wrong.append(one)
        return sorted(found, key=lambda one: (one.head.stored, one.id)), wrong

    def find(self, name: str) -> StoredImage:
        """The image of that name, tag, or id (its first digits suffice). NotFound; UsageError where several fit."""
        found, wrong = self.readable_images()
        fitting = [one for one in found if one.head.name == name]
        if not fitting:
            tagged = self.tags().get(name)
            fitting = [one for one in found if one.id == tagged]
        if not fitting and len(name) >= 6:
            fitting = [one for one in found if one.id.startswith(name)]
        if len(fitting) > 1:
            ids = ", ".join(one.id[:SHORT] for one in fitting)
            raise UsageError(f"{name} names several images of the store {self.url}: {ids}", hint="name one by its id")
        if not fitting:
            if wrong:
                raise wrong[0]
            raise NotFound(
                f"the store {self.url} has no image named {name!r}",
                hint=f"`torpor images --store {self.url}` lists them",
            )
        return fitting[0]

    def read(self, image: StoredImage) -> Contents:
        """All that the store says of an image. Raises ImageDamaged, NoObject."""
        return contents.read(self.backend, image.id)

    def tags(self) -> dict[str, str]:
        """Images' ids by tag. Raises ImageDamaged for one that cannot be read."""
        found = {}
        for one in self.backend.list("tags"):
            try:
                data = sealed.unpack_json(self.backend, one.name)
            except NoObject:
                continue
            found[one.name.removeprefix("tags/")] = msgspec.convert(data, Tag).image
        return found

    def tag(self, image: StoredImage, name: str) -> None:
        """Give an image a further name, which another may have had before."""
        check_name(name)
        tag = Tag(image=image.id, set=_now())
        self.backend.write(f"tags/{name}", sealed.pack_json(msgspec.to_builtins(tag)))

    def untag(self, name: str) -> None:
        """Forget a tag; NotFound when there is none of that name."""
        if name not in self.tags():
            raise NotFound(f"the store {self.url} has no tag {name!r}")
        self.backend.delete([f"tags/{name}"])

    def remove(self, image: StoredImage) -> None:
        """Forget an image and its tags. Its chunks stay until a prune."""
        with self.lock("shared", "rm"):
            # Tags first: one that names nothing would look like a sign of an image that was lost.
            self.backend.delete([f"tags/{name}" for name, target in self.tags().items() if target == image.id])
            self.backend.delete([f"images/{image.id}"])


def check_chunk(size: int) -> None:
    """UsageError when no store can have chunks of so many bytes."""
    if size % 4096 or not CHUNKS[0] <= size <= CHUNKS[1]:
        raise UsageError(
            f"chunks of {size} bytes cannot be", hint="a multiple of 4096 from 64 KiB to 16 MiB; 512 KiB is a good one"
        )


def create(backend: Backend, *, chunk: int = CHUNK, locked: bool = True, key: bytes | None = None) -> Repository:
    """Make an empty store in a place that is ready for one; with `key` (32 bytes) an encrypted one.

    UsageError when there is one, or `chunk` makes no sense.
    """
    check_chunk(chunk)
    try:
        backend.size(CONFIG)
    except NoObject:
        pass
    else:
        raise UsageError(f"{backend.url} is a store already")
    config = Config(format=sealed.FORMAT, id=secrets.token_hex(16), chunk=chunk, created=_now())
    if key is not None:
        config.format = ENCRYPTED
        config.encryption = encrypt.begin(key, secrets.token_bytes(32))
    backend.write(CONFIG, sealed.pack_json(msgspec.to_builtins(config)))
    store_key = _unlocked(backend, config, lambda: [] if key is None else [key])
    return Repository(backend, config, locked=locked, store_key=store_key)


def no_store(place: str) -> NotFound:
    """What to raise where no store is at a folder or URL. Its hint is `init` only where that would make one."""
    hint = f"`torpor init {place}` makes one there"
    try:
        names = set(os.listdir(place))
    except OSError:  # nothing there, no right to look, or a URL
        names = set()
    if {"packs", "index", "images"} <= names:
        hint = f"its file {CONFIG} is missing: put it back from a copy; it never changes"
    elif names:
        hint = "the folder has something else in it; name one that `torpor init` made"
    return NotFound(f"there is no store at {place}", hint=hint)


def open_repository(
    backend: Backend, *, locked: bool = True, keys: Keys = lambda: (), store_key: bytes | None = None
) -> Repository:
    """The store that is there. Raises NotFound when there is none, ImageDamaged, ImageMismatch (a newer format).

    NoRights when it is encrypted and none of the keys is its key. With a `store_key` the user's keys are not asked for,
    and NoRights is raised when it is not, or no more, what this store is encrypted with.
    """
    try:
        data = sealed.unpack_json(backend, CONFIG)
    except NoObject:
        raise no_store(backend.url) from None
    except ImageDamaged as error:
        error.hint = "put back the file from a copy; it never changes"
        raise
    newest = ENCRYPTED if "encryption" in data else sealed.FORMAT
    sealed.check_format(backend, CONFIG, int(data.get("format", 0)), newest)
    try:
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise sealed.damaged(backend, CONFIG, str(error)) from error
    return Repository(backend, config, locked=locked, store_key=_unlocked(backend, config, keys, store_key))


def _unlocked(backend: Backend, config: Config, keys: Keys, store_key: bytes | None = None) -> bytes | None:
    """The store's own key; None for one that is not encrypted."""
    if config.encryption is None:
        if store_key is None:
            return None
        # Whoever can write there may have put another config in its place, to be given plain images.
        raise NoRights(f"the store {backend.url} is not encrypted, as it was when it was opened")
    try:
        if store_key is not None:
            return encrypt.accept(config.encryption, store_key, backend.url)
        return encrypt.unlock(config.encryption, keys(), backend.url)
    except ValueError as error:
        raise sealed.damaged(backend, CONFIG, f"its salt makes no sense ({error})") from error


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
