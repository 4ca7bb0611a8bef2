"""Sifting device memory: of all chunks, only those that nobody has yet come into pinned memory.

The device hashes its memory (docs/design/device-hash.md), stretch after stretch. While one stretch is hashed, chunks of
earlier ones are on their way: gathered into pinned segments, densely and wherever they lay, and handed over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from torpor.driver.copies import Stream
from torpor.driver.devices import Device, Driver
from torpor.driver.hashing import ChunkHashes, DeviceHasher, Hashing, zero_digest
from torpor.errors import TorporError
from torpor.image.manifest import SEGMENT
from torpor.keeper import transfer
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import Row
from torpor.keeper.pool import Pool
from torpor.keeper.transfer import Work

T = TypeVar("T")

STRETCH = 1 << 30
"""Bytes hashed at a time: about a millisecond on an H200, so copies begin early."""
_AHEAD = 2
"""Stretches that are queued for hashing while the oldest is waited for."""

Found = Sequence[tuple[bytes, memoryview]]
"""Hash and bytes of chunks. The views are of pinned memory that is used again after the call they are given to."""

Chunk = tuple[int, int, bytes]
"""Address, length and hash."""

BlockKey = tuple[int, int]
"""Pid and address of a block, as the job sees them."""


class Hashers:
    """A `DeviceHasher` for each device that is asked for, kept until `close`. Threads may share it."""

    def __init__(self, driver: Driver, chunk: int) -> None:
        self.chunk = chunk
        self._driver = driver
        self._lock = threading.Lock()
        self._by_ordinal: dict[int, DeviceHasher] = {}

    def of(self, device: Device) -> DeviceHasher:
        """The device's hasher, made now if need be; leaves the device bound. MissingPart when it is too old."""
        self._driver.bind(device.ordinal)
        with self._lock:
            if device.ordinal not in self._by_ordinal:
                self._by_ordinal[device.ordinal] = DeviceHasher(self._driver, device, self.chunk)
            return self._by_ordinal[device.ordinal]

    def close(self) -> None:
        for ordinal in list(self._by_ordinal):
            self._driver.bind(ordinal)
            self._by_ordinal.pop(ordinal).close()


class CannotHash(Exception):
    """The device's memory cannot be hashed where it is. Its `__cause__` says why: a TorporError."""


Claim = Callable[[Sequence[bytes]], Sequence[bool]]
"""Is given different 32-byte hashes and says of each whether its chunk has to be brought. Several threads call it."""


def unknown_to(known: Container[bytes]) -> Claim:
    """Everything has to be brought that is not `known`."""
    return lambda digests: [digest not in known for digest in digests]


@dataclass
class Sieve:
    """Decides which chunks must move: those that are not zero, were not chosen before, and that `claim` wants.

    Threads share it. The counts are of bytes.
    """

    claim: Claim
    zero: int = 0
    already_known: int = 0
    repeated: int = 0
    chosen: int = 0
    _chosen: set[bytes] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def choose(self, hashes: ChunkHashes) -> list[Chunk]:
        """Those that must move."""
        found: list[Chunk] = []
        with self._lock:
            for number, (address, length) in enumerate(hashes.ranges):
                mine = hashes.of_range(number)
                rest = length - (len(mine) - 1) * hashes.chunk
                if rest < hashes.chunk:
                    self._choose(address + length - rest, rest, [mine.pop()], found)
                self._choose(address, hashes.chunk, mine, found)
        return found

    def _choose(self, address: int, length: int, hashes: list[bytes], found: list[Chunk]) -> None:
        """For chunks of equal length, end to end. A few hundred thousand of them are nothing unusual: as little per
        chunk as there can be."""
        zero, chosen = zero_digest(length), self._chosen
        asked = [digest for digest in dict.fromkeys(hashes) if digest != zero and digest not in chosen]
        wanted = {digest for digest, new in zip(asked, self.claim(asked), strict=True) if new}
        zeros = repeated = already = 0
        for number, digest in enumerate(hashes):
            if digest in wanted:
                wanted.remove(digest)
                chosen.add(digest)
                found.append((address + number * length, length, digest))
            elif digest in chosen:
                repeated += 1
            elif digest == zero:
                zeros += 1
            else:
                already += 1
        self.zero += zeros * length
        self.repeated += repeated * length
        self.already_known += already * length
        self.chosen += (len(hashes) - zeros - repeated - already) * length


@dataclass(frozen=True)
class Sifted:
    """The hashes of each block's chunks, cut from the block's start, and how many bytes moved in how many seconds."""

    digests: dict[BlockKey, list[bytes]]
    moved: transfer.Moved


@dataclass(frozen=True)
class _Part:
    """A part of a block, of at most STRETCH bytes."""

    key: BlockKey
    address: int
    length: int


@dataclass
class Sifter:
    """Sends what `sieve` chooses of device memory to `deliver`, which is called by several threads at once."""

    driver: Driver
    pool: Pool
    hashers: Hashers
    sieve: Sieve
    deliver: Callable[[Found], None]
    stop: threading.Event = field(default_factory=threading.Event)

    def sift(self, rows: Sequence[Row], mapped: Mapping[str, MappedRow], on_bytes: Callable[[int], None]) -> Sifted:
        """Sift all blocks of the rows, which are mapped under their UUIDs and are not written to meanwhile.

        `on_bytes` hears of bytes as they have been delivered. Raises the first failure, once all threads are at rest:
        CannotHash when a device fails to hash. Returns early, with fewer hashes, when `stop` is set.
        """
        digests: dict[BlockKey, list[bytes]] = {(b.pid, b.address): [] for row in rows for b in row.blocks}
        with ExitStack() as ends:
            feeds: dict[int, Generator[Work, None, None]] = {}
            for row in rows:
                device = mapped[row.uuid].device
                hasher = _hashed(partial(self.hashers.of, device))
                feeds[device.ordinal] = self._batches(row, mapped[row.uuid].base, hasher, digests)
                ends.enter_context(closing(feeds[device.ordinal]))
                ends.callback(self.driver.bind, device.ordinal)
            moved = transfer.serve(self.driver, feeds, on_bytes, self.stop, hashing=True)
        return Sifted(digests, moved)

    def _batches(
        self, row: Row, base: int, hasher: DeviceHasher, digests: dict[BlockKey, list[bytes]]
    ) -> Generator[Work, None, None]:
        """One GPU's work: up to a segment of chunks each. Hashes as it is asked for more."""
        stretches = _stretches(row, base)
        under_way: deque[tuple[list[_Part], Hashing]] = deque()
        batch: list[Chunk] = []
        size = 0
        with Stream() as stream:
            try:
                while True:
                    while len(under_way) <= _AHEAD and (parts := next(stretches, None)) is not None:
                        ranges = [(part.address, part.length) for part in parts]
                        under_way.append((parts, _hashed(partial(hasher.start, ranges, stream))))
                    if not under_way:
                        break
                    parts, hashing = under_way.popleft()
                    hashes = _hashed(hashing.result)
                    for number, part in enumerate(parts):
                        digests[part.key] += hashes.of_range(number)
                    for chunk in self.sieve.choose(hashes):
                        if size + chunk[1] > SEGMENT:
                            yield self._gathering(batch)
                            batch, size = [], 0
                        batch.append(chunk)
                        size += chunk[1]
                if batch:
                    yield self._gathering(batch)
            finally:
                for _parts, hashing in under_way:
                    with suppress(TorporError):
                        hashing.result()

    def _gathering(self, batch: list[Chunk]) -> Work:
        def gather(stream: Stream) -> int:
            segment = self.pool.acquire(to_keep=False)
            try:
                offset = 0
                for address, length in _runs(batch):
                    stream.to_host(segment.address + offset, address, length)
                    offset += length
                stream.wait()
                view = segment.view()
                found, at = [], 0
                for _address, length, digest in batch:
                    found.append((digest, view[at : at + length]))
                    at += length
                self.deliver(found)
                return offset
            finally:
                self.pool.release(segment)

        return gather


def _hashed(action: Callable[[], T]) -> T:
    try:
        return action()
    except TorporError as error:
        raise CannotHash from error


def _stretches(row: Row, base: int) -> Iterator[list[_Part]]:
    """The row's blocks in order, in groups of at most STRETCH bytes; larger blocks are cut at multiples of it."""
    group: list[_Part] = []
    size = 0
    for block, at in zip(row.blocks, row.bases, strict=True):
        for offset in range(0, block.size, STRETCH):
            length = min(STRETCH, block.size - offset)
            if size + length > STRETCH:
                yield group
                group, size = [], 0
            group.append(_Part((block.pid, block.address), base + at + offset, length))
            size += length
    if group:
        yield group


def _runs(batch: list[Chunk]) -> Iterator[tuple[int, int]]:
    """Address and length of what lies end to end."""
    start, size = batch[0][0], 0
    for address, length, _digest in batch:
        if address != start + size:
            yield start, size
            start, size = address, 0
        size += length
    yield start, size
