"""Encryption at rest: a backend over one that keeps every object but `config` sealed, under its own name.

What lies in the place tells names, sizes and times, and nothing else; what is changed there, cut short or put under
another name is noticed when it is read, as ImageDamaged.
"""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from torpor.errors import ImageMismatch, NoRights
from torpor.store import cipher
from torpor.store.backend import CONFIG, Backend, Stored, pour
from torpor.store.cipher import Altered, ObjectCipher
from torpor.store.sealed import damaged

_REMEMBERED = 4096
"""Objects whose ciphers are kept: a pack is read many times, in ranges."""


class Encryption(msgspec.Struct, kw_only=True):
    """What an encrypted store's config says: `salt` of its key, and `check`, which only the right key gives; hex."""

    cipher: str
    frame: int
    salt: str
    check: str


def begin(key: bytes, salt: bytes) -> Encryption:
    """The entry for the config of a new store with that key; `salt` is random."""
    store_key = cipher.derive(key, salt, "store")
    return Encryption(cipher=cipher.CIPHER, frame=cipher.FRAME, salt=salt.hex(), check=_check(store_key))


def unlock(encryption: Encryption, keys: Sequence[bytes], url: str) -> bytes:
    """The store's key from that one of a user's keys that fits. NoRights when none does; ImageMismatch."""
    _check_known(encryption, url)
    for key in keys:
        store_key = cipher.derive(key, bytes.fromhex(encryption.salt), "store")
        if hmac.compare_digest(_check(store_key), encryption.check):
            return store_key
    raise NoRights(
        f"the store {url} is encrypted, and " + ("the key that is named is not its key" if keys else "no key is named"),
        hint="name its key in TORPOR_KEY_FILE, or a command that prints it in TORPOR_KEY_COMMAND",
    )


def accept(encryption: Encryption, store_key: bytes, url: str) -> bytes:
    """The store's key, which another process has unlocked. NoRights when it is not this store's; ImageMismatch."""
    _check_known(encryption, url)
    if not hmac.compare_digest(_check(store_key), encryption.check):
        raise NoRights(f"the store {url} has another key than when it was opened", hint="was it made anew meanwhile?")
    return store_key


def _check_known(encryption: Encryption, url: str) -> None:
    if encryption.cipher != cipher.CIPHER or encryption.frame != cipher.FRAME:
        raise ImageMismatch(
            f"the store {url} is encrypted with {encryption.cipher} in frames of {encryption.frame} bytes, "
            f"which this Torpor does not know",
            hint="use a newer Torpor",
        )


def _check(store_key: bytes) -> str:
    return cipher.derive(store_key, b"", "check").hex()


class EncryptBackend:
    """Contract: `backend.Backend`; reading raises ImageDamaged as well. `store_key` is what `unlock` gives."""

    gathers = False

    def __init__(self, inner: Backend, store_key: bytes) -> None:
        self._inner = inner
        self._key = store_key
        self._lock = threading.Lock()
        self._ciphers: OrderedDict[str, ObjectCipher] = OrderedDict()

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def readers(self) -> int:
        return self._inner.readers

    def list(self, kind: str) -> Iterator[Stored]:
        for one in self._inner.list(kind):
            yield Stored(one.name, cipher.plain_size(one.size))

    def size(self, name: str) -> int:
        size = self._inner.size(name)
        return size if name == CONFIG else cipher.plain_size(size)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if name == CONFIG:
            return self._inner.read(name, offset, length)
        try:
            if offset == 0 and length is None:
                return self._read_all(name)
            return self._read_range(name, offset, length)
        except Altered as error:
            raise damaged(self, name, str(error)) from error

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return pour(self.read(name, offset, sum(map(len, rooms))), rooms)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        if name == CONFIG:
            self._inner.write(name, parts)
            return
        # The next reader may not take this object for the one that had the name before.
        self._forget([name])
        self._inner.write(name, [*ObjectCipher(self._key, name).seal(parts)])

    def delete(self, names: Sequence[str]) -> None:
        self._forget(names)
        self._inner.delete(names)

    def sweep(self) -> int:
        return self._inner.sweep()

    def close(self) -> None:
        self._inner.close()

    def _read_all(self, name: str) -> bytes:
        data = self._inner.read(name)
        opened = ObjectCipher.of_head(self._key, name, data[: cipher.HEAD])
        if len(data) == cipher.HEAD:
            raise Altered("it is cut short in frame 0")
        return opened.open(memoryview(data)[cipher.HEAD :], 0, True)

    def _read_range(self, name: str, offset: int, length: int | None) -> bytes:
        first, at, size = cipher.place(offset, length)
        if first == 0:
            # The head comes along, so that it is surely that of these frames.
            data = self._inner.read(name, 0, None if size is None else cipher.HEAD + size + 1)
            known = self._remember(name, data)
            sealed = memoryview(data)[cipher.HEAD :]
            if not sealed:
                raise Altered("it is cut short in frame 0")
            plain = _opened(known, sealed, first, size)
        else:
            plain = self._read_frames(name, first, at, size)
        skipped = offset - first * cipher.FRAME
        return plain[skipped : None if length is None else skipped + length]

    def _read_frames(self, name: str, first: int, at: int, size: int | None) -> bytes:
        known = self._ciphers.get(name)
        wanted = None if size is None else size + 1
        if known is not None:
            try:
                return _opened(known, self._inner.read(name, at, wanted), first, size)
            except Altered:
                pass  # somebody else may have written an object of that name anew since its head was read
        known = self._remember(name, self._inner.read(name, 0, cipher.HEAD))
        return _opened(known, self._inner.read(name, at, wanted), first, size)

    def _remember(self, name: str, data: bytes) -> ObjectCipher:
        made = ObjectCipher.of_head(self._key, name, data[: cipher.HEAD])
        with self._lock:
            self._ciphers[name] = made
            while len(self._ciphers) > _REMEMBERED:
                self._ciphers.popitem(last=False)
        return made

    def _forget(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._ciphers.pop(name, None)


def _opened(known: ObjectCipher, data: bytes | memoryview, first: int, size: int | None) -> bytes:
    """The bytes of frames that were asked for with one byte more, which tells whether the object goes on after them."""
    if size is None or len(data) <= size:
        return known.open(data, first, True)
    return known.open(memoryview(data)[:size], first, False)
