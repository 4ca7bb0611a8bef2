"""Which codec a chunk gets: the one with which the whole write is expected to be done first.

A write is as fast as the slower of two things: the processors, which read, hash and compress, and the store, which
takes what is left. Both rates are measured while the write runs; what compression would save is found by a sample.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Literal

import numpy as np

from torpor.store import codec
from torpor.store.codec import LZ4, NAMES, PLANES_2, PLANES_4, RAW, ZSTD

Compression = Literal["auto", "small", "none"]

_SAMPLE: Final = 16 << 10
_SAMPLES: Final = 2
_WORTH: Final = 0.97
"""A codec whose sample is not at least this much smaller is not considered: reading back has its price too."""

_FIRST_STORE_RATE: Final = 0.5e9
_BASE_SECONDS: Final = 1 / 2.0e9
"""Processor seconds per byte of reading and hashing, before any codec."""

_FIRST_RATES: Final = {ZSTD: 0.35e9, LZ4: 1.5e9, PLANES_2: 0.2e9, PLANES_4: 0.25e9}
"""Bytes per second of a thread that has a processor for itself, until the first chunk was timed."""

_MEMORY: Final = 0.9
_STALE: Final = 8
"""Chunks in a row that take over the choice made for the first of them; twice as many each time it is made again."""

_MOST_STALE: Final = 32


class Chooser:
    """Chooses and encodes; any number of threads. `threads` is how many encode at once, on `processors`."""

    def __init__(self, threads: int, compression: Compression = "auto", processors: int | None = None) -> None:
        self._threads = threads
        self._compression = compression
        # What is measured later are the threads' own times, in which they wait for each other.
        share = min(1.0, (processors or threads) / threads)
        self._base = _BASE_SECONDS / share
        self._rates = {one: rate * share for one, rate in _FIRST_RATES.items()}
        self._store_rate = _FIRST_STORE_RATE
        self._lock = threading.Lock()
        self.counts: dict[int, int] = dict.fromkeys(NAMES, 0)

    def wrote(self, size: int, seconds: float) -> None:
        """Tell that the store has taken `size` bytes in `seconds`, all its writers together."""
        with self._lock:
            self._store_rate = _mixed(self._store_rate, size / max(seconds, 1e-6), 0.5)

    def choose(self, data: memoryview) -> int:
        """The codec for a chunk."""
        if self._compression == "none":
            return RAW
        shares = _sampled(data)
        if self._compression == "small":
            return min(shares, key=lambda one: shares[one])
        with self._lock:
            store, rates = self._store_rate, dict(self._rates)

        def seconds(one: int) -> float:
            work = self._base + (1 / rates[one] if one != RAW else 0.0)
            return max(shares[one] / store, work / self._threads)

        return min(shares, key=lambda one: (seconds(one), shares[one]))

    def encode(self, chosen: int, data: memoryview) -> tuple[int, bytes | memoryview]:
        """The codec that the chunk got, and the chunk in it: in the chosen one, or itself where that is not smaller."""
        encoded: bytes | memoryview = data
        if not codec.suits(chosen, len(data)):
            chosen = ZSTD
        if chosen != RAW:
            start = time.perf_counter()
            encoded = codec.encode(chosen, data)
            rate = len(data) / max(time.perf_counter() - start, 1e-7)
            with self._lock:
                self._rates[chosen] = _mixed(self._rates[chosen], rate, _MEMORY)
            if len(encoded) >= len(data):
                chosen = RAW
        with self._lock:
            self.counts[chosen] += 1
        return chosen, encoded if chosen != RAW else data


class Neighbours:
    """Encodes chunks that follow one another, and samples only some of them. For one thread."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._chosen = RAW
        self._left = 0
        self._row = _STALE // 2
        self._share = 1.0

    def encode(self, data: memoryview) -> tuple[int, bytes | memoryview]:
        """As `Chooser.encode`, with a fresh choice where the last one is old or did not do what it promised."""
        fresh = self._left == 0
        if fresh:
            before, self._chosen = self._chosen, self._chooser.choose(data)
            self._row = min(2 * self._row, _MOST_STALE) if self._chosen == before else _STALE
            self._left = self._row
        self._left -= 1
        used, encoded = self._chooser.encode(self._chosen, data)
        share = len(encoded) / max(len(data), 1)
        if fresh:
            self._share = share
        elif abs(share - self._share) > 0.1:
            self._left = 0
        return used, encoded


def _sampled(data: memoryview) -> dict[int, float]:
    """The codecs worth a thought, each with the share of the bytes that its sample kept."""
    sample = _sample(data)
    shares = {RAW: 1.0}
    for one in (ZSTD, LZ4, PLANES_2, PLANES_4):
        if codec.suits(one, len(sample)) and codec.suits(one, len(data)):
            share = len(codec.encode(one, sample)) / max(len(sample), 1)
            if share < _WORTH:
                shares[one] = share
    return shares


def _sample(data: memoryview) -> bytes:
    if len(data) <= _SAMPLES * _SAMPLE:
        return bytes(data)
    starts = np.linspace(0, len(data) - _SAMPLE, _SAMPLES + 2)[1:-1].astype(int) & ~0xFFF
    return b"".join(data[start : start + _SAMPLE] for start in starts.tolist())


def _mixed(old: float, new: float, memory: float) -> float:
    return old * memory + new * (1 - memory)
