"""Sifting where the device cannot hash: every byte comes into pinned memory, and the processors hash it there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blake3 import blake3

from torpor.driver.copies import Stream
from torpor.driver.devices import Driver
from torpor.driver.hashing import zero_digest
from torpor.image.manifest import SEGMENT
from torpor.keeper import transfer
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import Row
from torpor.keeper.pool import Pool
from torpor.keeper.sift import BlockKey, Sifted

Take = Callable[[list[bytes], list[memoryview]], None]
"""Is given hashes and chunks, and keeps of them what is new. The views are of memory that is used again afterwards."""


@dataclass(frozen=True)
class _Place:
    """A chunk: the `number`-th of its block, and where the device has it."""

    key: BlockKey
    number: int
    address: int
    length: int


@dataclass
class HostSifter:
    """As `Sifter`, with every chunk that is not zero given to `take`, by several threads at once."""

    driver: Driver
    pool: Pool
    chunk: int
    take: Take
    stop: threading.Event = field(default_factory=threading.Event)

    def sift(self, rows: Sequence[Row], mapped: Mapping[str, MappedRow], on_bytes: Callable[[int], None]) -> Sifted:
        """As `Sifter.sift`; `on_bytes` hears of all bytes."""
        digests = {
            (block.pid, block.address): [b""] * -(-block.size // self.chunk) for row in rows for block in row.blocks
        }
        work = [
            (mapped[row.uuid].device.ordinal, self._hashing(batch, digests))
            for row in rows
            for batch in self._batches(row, mapped[row.uuid].base)
        ]
        return Sifted(digests, transfer.run(self.driver, work, on_bytes, self.stop, hashing=True))

    def _batches(self, row: Row, base: int) -> Iterator[list[_Place]]:
        """The row's chunks, cut from each block's start; of those that lie end to end, as many as a segment takes."""
        batch: list[_Place] = []
        for block, at in zip(row.blocks, row.bases, strict=True):
            for number, offset in enumerate(range(0, block.size, self.chunk)):
                length = min(self.chunk, block.size - offset)
                address = base + at + offset
                if batch and address + length - batch[0].address > SEGMENT:
                    yield batch
                    batch = []
                batch.append(_Place((block.pid, block.address), number, address, length))
        if batch:
            yield batch

    def _hashing(self, batch: list[_Place], digests: dict[BlockKey, list[bytes]]) -> transfer.Work:
        def hash_them(stream: Stream) -> int:
            start = batch[0].address
            size = batch[-1].address + batch[-1].length - start
            segment = self.pool.acquire(to_keep=False)
            try:
                stream.to_host(segment.address, start, size)
                stream.wait()
                view = segment.view(size)
                names: list[bytes] = []
                chunks: list[memoryview] = []
                for place in batch:
                    data = view[place.address - start : place.address - start + place.length]
                    digest = blake3(data).digest()
                    digests[place.key][place.number] = digest
                    if digest != zero_digest(place.length):
                        names.append(digest)
                        chunks.append(data)
                self.take(names, chunks)
            finally:
                self.pool.release(segment)
            return size

        return hash_them
