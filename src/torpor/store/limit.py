"""A bound on how many bytes per second a store takes and gives: a backend over one, with a token bucket each way."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from torpor.errors import UsageError
from torpor.store.backend import Backend, Stored

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)(?:/s)?\s*")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
LEAST = 1000
"""Bytes per second: less is a rate whose unit was forgotten."""

_SLICE = 1 << 20
"""Bytes that are let through at a time, where the backend below takes an object bit by bit."""


def parse_rate(text: str) -> int:
    """Bytes per second of `200MB/s`, `1.5 GiB/s` or `300000`; at least LEAST. Raises UsageError."""
    match = _RATE.fullmatch(text)
    rate = round(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2]]) if match else 0
    if not match or rate < 1 or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not a rate", hint="bytes per second, as 200MB/s or 1.5GiB/s")
    if rate < LEAST:
        meant = f"{match[1]}{match[2] or 'M'}B/s"
        raise UsageError(
            f"{text!r} is {rate} bytes per second, with which nothing would ever be done",
            hint=f"say the unit, as in {meant if not match[2] else '200MB/s'}",
        )
    return rate


class Bucket:
    """Lets `rate` bytes per second through, and after a rest as many at once as a tenth of a second is worth."""

    def __init__(
        self,
        rate: int,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._free_at = clock()

    def take(self, count: int) -> None:
        """Wait until the bytes that others took are through, so that `count` more can go."""
        with self._lock:
            now = self._clock()
            start = max(self._free_at, now - 0.1)
            self._free_at = start + count / self.rate
        if start > now:
            self._pause(start - now)

    def correct(self, count: int) -> None:
        """So many bytes more have come than were taken, or fewer; who takes next waits accordingly."""
        with self._lock:
            self._free_at += count / self.rate


class _Paced(Sequence[bytes | memoryview]):
    """The parts of an object, in slices that are let through as they are asked for; the same each time they are."""

    def __init__(self, parts: Sequence[bytes | memoryview], bucket: Bucket) -> None:
        self._slices = [
            view[at : at + _SLICE]
            for view in (memoryview(part).cast("B") for part in parts if len(part))
            for at in range(0, len(view), _SLICE)
        ]
        self._bucket = bucket

    def __len__(self) -> int:
        return len(self._slices)

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | Sequence[memoryview]:
        found = self._slices[index]
        for view in [found] if isinstance(found, memoryview) else found:
            self._bucket.take(len(view))
        return found


class LimitBackend:
    """Contract: `backend.Backend`. `rate` bytes per second into the store, and as many out of it."""

    gathers = False

    def __init__(self, inner: Backend, rate: int, *, up: Bucket | None = None, down: Bucket | None = None) -> None:
        self._inner = inner
        self._up = up or Bucket(rate)
        self._down = down or Bucket(rate)

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def readers(self) -> int:
        return self._inner.readers

    def list(self, kind: str) -> Iterator[Stored]:
        return self._inner.list(kind)

    def size(self, name: str) -> int:
        return self._inner.size(name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self._down.take(length or 0)
        data = self._inner.read(name, offset, length)
        self._down.correct(len(data) - (length or 0))
        return data

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        size = sum(map(len, rooms))
        self._down.take(size)
        count = self._inner.read_into(name, offset, rooms)
        self._down.correct(count - size)
        return count

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        self._inner.write(name, _Paced(parts, self._up))

    def delete(self, names: Sequence[str]) -> None:
        self._inner.delete(names)

    def sweep(self) -> int:
        return self._inner.sweep()

    def close(self) -> None:
        self._inner.close()
