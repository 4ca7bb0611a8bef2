"""How an encrypted store turns bytes into others: keys out of keys, and objects in frames that are each authenticated.

The primitives are AES-256-GCM and HKDF-SHA-256 of the `cryptography` package, which is loaded when a store needs it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torpor.errors import MissingPart

MAGIC = b"TORPOR-E"
FORMAT = 1
FRAME = 64 << 10
"""Bytes of an object in a frame; the last has fewer."""

TAG = 16
KEY = 32
_SALT = 32
_START = struct.Struct(f"<8sI{_SALT}s")  # magic, format, salt of the object's key
HEAD = _START.size
_STEP = FRAME + TAG
_NONCE = struct.Struct("<QI")  # number of the frame, whether it is the last

CIPHER = "aes-256-gcm"


class Altered(ValueError):
    """These bytes are not what was written under this key and name; says why."""


def derive(key: bytes, salt: bytes, purpose: str) -> bytes:
    """A key of 32 bytes out of another."""
    with _needed():
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    return HKDF(hashes.SHA256(), KEY, salt, b"torpor " + purpose.encode()).derive(key)


def check_present() -> None:
    """MissingPart when what encryption needs is not installed."""
    with _needed():
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401


def sealed_size(size: int) -> int:
    """Bytes that an object of `size` bytes takes."""
    return HEAD + size + TAG * max(-(-size // FRAME), 1)


def plain_size(size: int) -> int:
    """Bytes of an object that takes `size`; 0 for what is too short to be one."""
    frames = -(-max(size - HEAD, 0) // _STEP)
    return max(size - HEAD - frames * TAG, 0)


def place(offset: int, length: int | None) -> tuple[int, int, int | None]:
    """Where the frames with that range of an object lie: the number of the first, their offset, and their length."""
    first = offset // FRAME
    if length is None:
        return first, HEAD + first * _STEP, None
    last = (offset + max(length, 1) - 1) // FRAME
    return first, HEAD + first * _STEP, (last - first + 1) * _STEP


class ObjectCipher:
    """Seals and opens the frames of one object, under a key that only this writing of it has."""

    def __init__(self, store_key: bytes, name: str, salt: bytes | None = None) -> None:
        self.salt = salt or os.urandom(_SALT)
        self.head = _START.pack(MAGIC, FORMAT, self.salt)
        with _needed():
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._aead = AESGCM(derive(store_key, self.salt, "object"))
        self._bound = self.head + name.encode()

    @classmethod
    def of_head(cls, store_key: bytes, name: str, head: bytes) -> ObjectCipher:
        """The one of an object that begins like this. Raises Altered."""
        if len(head) < HEAD:
            raise Altered(f"it ends after {len(head)} bytes")
        magic, version, salt = _START.unpack_from(head)
        if magic != MAGIC or version != FORMAT:
            raise Altered("it does not begin as an encrypted object does")
        return cls(store_key, name, salt)

    def seal(self, parts: Sequence[bytes | memoryview]) -> Iterator[bytes]:
        """What an object of these parts becomes: its head, and frame after frame."""
        yield self.head
        number = 0
        frames = _frames(parts)
        frame = next(frames, b"")
        for following in frames:
            yield self._aead.encrypt(_NONCE.pack(number, 0), frame, self._bound)
            frame = following
            number += 1
        yield self._aead.encrypt(_NONCE.pack(number, 1), frame, self._bound)

    def open(self, data: bytes | memoryview, first: int, ends: bool) -> bytes:
        """The bytes of these frames, of which the first has that number, and the last is the object's last or not.

        Raises Altered when a frame is not what was written, or is another than that.
        """
        view = memoryview(data)
        count = -(-len(view) // _STEP)
        return b"".join(
            self._open(view[index * _STEP : (index + 1) * _STEP], first + index, ends and index == count - 1)
            for index in range(count)
        )

    def _open(self, sealed: memoryview, number: int, last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        if len(sealed) < TAG:
            raise Altered(f"it is cut short in frame {number}")
        try:
            return self._aead.decrypt(_NONCE.pack(number, last), sealed, self._bound)
        except InvalidTag:
            raise Altered(f"frame {number} is not what was written under this key and name") from None


def _frames(parts: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The parts' bytes in frames, all but the last full; copied only where parts meet."""
    pending: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        view = memoryview(part).cast("B") if len(part) else memoryview(b"")
        at = 0
        while at < len(view):
            taken = view[at : at + FRAME - size]
            at += len(taken)
            size += len(taken)
            pending.append(taken)
            if size == FRAME:
                yield pending[0] if len(pending) == 1 else b"".join(pending)
                pending, size = [], 0
    if pending:
        yield b"".join(pending)


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingPart(
            "the store is encrypted, and the Python package cryptography is not here",
            hint="pip install 'torpor[encryption]'",
        ) from None
