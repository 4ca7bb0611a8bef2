"""BLAKE3 of device memory, computed on the device and chunk by chunk (docs/design/device-hash.md).

The hashes are those of the standard (32 bytes, no key), equal to what the CPU's library gives for the same bytes.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from blake3 import blake3
from cuda.bindings import driver as cu

from torpor.driver.copies import Stream
from torpor.driver.devices import Device, Driver
from torpor.driver.results import check
from torpor.errors import MissingPart, TorporError, UsageError

DIGEST = 32
"""Bytes of a hash."""
SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 10, 16 << 20

_TILE_LEAVES = 128
_TILE = _TILE_LEAVES * 1024
_ENTRY = 16
"""Bytes of a chunk's address and length, as the kernel reads them."""
_KERNELS = Path(__file__).with_name("ptx")
_ARCHITECTURES = (80, 75)

Range = tuple[int, int]
"""Device memory: address and length in bytes, any of either."""


@dataclass(frozen=True)
class ChunkHashes:
    """The hashes of `ranges` cut into chunks of `chunk` bytes, in order; a range's last chunk may be shorter.

    `hashes[n]` are the 32 bytes of chunk `n`, `firsts[r]` is the number of range `r`'s first chunk.
    """

    ranges: tuple[Range, ...]
    chunk: int
    hashes: list[bytes]
    firsts: tuple[int, ...]

    def of_range(self, number: int) -> list[bytes]:
        """The hashes of one range's chunks."""
        first = self.firsts[number]
        return self.hashes[first : first + _count(self.ranges[number][1], self.chunk)]

    def chunks(self) -> Iterator[tuple[int, int, bytes]]:
        """Address, length and hash of every chunk."""
        number = 0
        for address, length in self.ranges:
            for at in range(0, length, self.chunk):
                yield address + at, min(self.chunk, length - at), self.hashes[number]
                number += 1

    def zero(self) -> list[bool]:
        """Whether each chunk is all zero: whether its hash is that of as many zeros."""
        return [digest == zero_digest(length) for _address, length, digest in self.chunks()]


@lru_cache(maxsize=64)
def zero_digest(length: int) -> bytes:
    """The hash of `length` bytes of zero."""
    return bytes(blake3(bytes(length)).digest())


class DeviceHasher:
    """Hashes memory that one device can read. Threads may share it, each with a stream of its own; the calling thread
    has bound the device. Between uses it keeps the kernels and its buffers: a thousandth of what was hashed at a time.
    """

    def __init__(self, driver: Driver, device: Device, chunk: int = 1 << 20) -> None:
        """Load the kernels, which the driver compiles once per machine (half a second) and keeps in its cache.

        `chunk` is a power of two from 1 KiB to 16 MiB, else UsageError; MissingPart when the device is too old.
        """
        if not SMALLEST_CHUNK <= chunk <= LARGEST_CHUNK or chunk & (chunk - 1):
            raise UsageError(f"a chunk of {chunk} bytes: it must be a power of two from 1 KiB to 16 MiB")
        major, minor = (int(part) for part in device.arch.split("."))
        fitting = [number for number in _ARCHITECTURES if number <= 10 * major + minor]
        if not fitting:
            raise MissingPart(
                f"the memory of GPU {device.ordinal} ({device.name}, {device.arch}) cannot be hashed on the device",
                hint="it takes compute capability 7.5 or newer",
            )
        self.device = device
        self.chunk = chunk
        self._tile_bits = max(1, chunk // _TILE).bit_length() - 1
        self._lock = threading.Lock()
        self._idle: list[_Buffers] = []
        self._busy: set[_Buffers] = set()
        driver.bind(device.ordinal)
        text = (_KERNELS / f"blake3_sm{fitting[0]}.ptx").read_bytes() + b"\0"
        self._module: Any = check("cuModuleLoadData", cu.cuModuleLoadData(text))
        try:
            self._tiles = self._function("torpor_blake3_tiles")
            self._chunks = self._function("torpor_blake3_chunks")
            # Blocks that fit at once are bounded by the memory in which they stage; the cache beside it is not used.
            carve_out = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            check("cuFuncSetAttribute", cu.cuFuncSetAttribute(self._tiles, carve_out, 100))
        except BaseException:
            self.close()
            raise

    def start(self, ranges: Sequence[Range], stream: Stream) -> Hashing:
        """Queue the hashing of `ranges` on `stream`, after what is there already, and return at once.

        The memory stays mapped and is not written to until the result is there. NoSpace when the device or the host
        lacks the memory for the hashes.
        """
        ranges = tuple(ranges)
        if any(length < 1 for _address, length in ranges):
            raise UsageError("a range to hash must have at least one byte")
        counts = [_count(length, self.chunk) for _address, length in ranges]
        *firsts, count = accumulate(counts, initial=0)
        buffers = self._take(max(count, 1))
        try:
            if count:
                buffers.write(_entries(ranges, self.chunk))
                self._launch(buffers, count, stream)
            buffers.mark(stream)
        except BaseException:
            with suppress(TorporError):  # nothing of it is wanted any more
                stream.wait()
            self._give_back(buffers)
            raise
        return Hashing(self, buffers, ranges, tuple(firsts), count)

    def hash(self, ranges: Sequence[Range], stream: Stream) -> ChunkHashes:
        """The hashes of `ranges`, waited for."""
        return self.start(ranges, stream).result()

    def close(self) -> None:
        """Wait for what is under way, whose results are lost, and free everything."""
        with self._lock:
            buffers = [*self._idle, *self._busy]
            self._idle.clear()
            self._busy.clear()
        for one in buffers:
            one.wait()
            one.free()
        if self._module is not None:
            check("cuModuleUnload", cu.cuModuleUnload(self._module))
            self._module = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _function(self, name: str) -> Any:
        return check("cuModuleGetFunction", cu.cuModuleGetFunction(self._module, name.encode()))

    def _launch(self, buffers: _Buffers, count: int, stream: Stream) -> None:
        entries, digests, values = buffers.places(count)
        stream.to_device(entries, buffers.host, count * _ENTRY)
        kinds = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)
        given = ((entries, self._tile_bits, values, digests), kinds)
        shape = (1, 1, _TILE_LEAVES, 1, 1, 0, stream.handle)
        blocks = count << self._tile_bits
        check("cuLaunchKernel", cu.cuLaunchKernel(self._tiles, blocks, *shape, given, 0))
        if self._tile_bits:
            check("cuLaunchKernel", cu.cuLaunchKernel(self._chunks, count, *shape, given, 0))
        stream.to_host(buffers.host, digests, count * DIGEST)

    def _take(self, count: int) -> _Buffers:
        with self._lock:
            fitting = [one for one in self._idle if one.capacity >= count]
            if fitting:
                found = min(fitting, key=lambda one: one.capacity)
                self._idle.remove(found)
                self._busy.add(found)
                return found
            too_small = self._idle[:]
            self._idle.clear()
        for one in too_small:
            one.free()
        made = _Buffers(count, self._tile_bits)
        with self._lock:
            self._busy.add(made)
        return made

    def _give_back(self, buffers: _Buffers) -> None:
        with self._lock:
            self._busy.discard(buffers)
            self._idle.append(buffers)


class Hashing:
    """Hashes on their way."""

    def __init__(
        self, hasher: DeviceHasher, buffers: _Buffers, ranges: tuple[Range, ...], firsts: tuple[int, ...], count: int
    ) -> None:
        self._hasher = hasher
        self._buffers = buffers
        self._ranges = ranges
        self._firsts = firsts
        self._count = count
        self._result: ChunkHashes | None = None

    def done(self) -> bool:
        """Whether `result` would not wait; raises what went wrong."""
        return self._result is not None or self._buffers.done()

    def result(self) -> ChunkHashes:
        """Wait, without the GIL, and return the hashes; raises what went wrong on the device."""
        if self._result is None:
            self._buffers.wait()
            all_of_them = self._buffers.read(self._count * DIGEST)
            self._hasher._give_back(self._buffers)
            hashes = [all_of_them[at : at + DIGEST] for at in range(0, len(all_of_them), DIGEST)]
            self._result = ChunkHashes(self._ranges, self._hasher.chunk, hashes, self._firsts)
        return self._result


class _Buffers:
    """Memory for `capacity` chunks: their entries and hashes in pinned host memory, where hashes take the entries'
    place, and on the device entries, hashes, and the values of tiles."""

    def __init__(self, capacity: int, tile_bits: int) -> None:
        # Somewhat more than asked for, so that a little growth of a job finds room.
        self.capacity = -(-capacity // 1024) * 1024
        values = DIGEST << tile_bits
        flags = cu.CUevent_flags.CU_EVENT_BLOCKING_SYNC.value | cu.CUevent_flags.CU_EVENT_DISABLE_TIMING.value
        self._event = check("cuEventCreate", cu.cuEventCreate(flags))
        try:
            self.host = int(check("cuMemHostAlloc", cu.cuMemHostAlloc(self.capacity * DIGEST, 0)))
            try:
                self._device = int(check("cuMemAlloc", cu.cuMemAlloc(self.capacity * (_ENTRY + DIGEST + values))))
            except BaseException:
                cu.cuMemFreeHost(self.host)
                raise
        except BaseException:
            cu.cuEventDestroy(self._event)
            raise

    def places(self, count: int) -> tuple[int, int, int]:
        """Device addresses of entries, hashes and values."""
        return self._device, self._device + count * _ENTRY, self._device + count * (_ENTRY + DIGEST)

    def write(self, entries: array[int]) -> None:
        ctypes.memmove(self.host, entries.buffer_info()[0], len(entries) * entries.itemsize)

    def read(self, size: int) -> bytes:
        return ctypes.string_at(self.host, size)

    def mark(self, stream: Stream) -> None:
        check("cuEventRecord", cu.cuEventRecord(self._event, stream.handle))

    def done(self) -> bool:
        (status,) = cu.cuEventQuery(self._event)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check("cuEventQuery", (status,))
        return True

    def wait(self) -> None:
        check("cuEventSynchronize", cu.cuEventSynchronize(self._event))

    def free(self) -> None:
        check("cuMemFree", cu.cuMemFree(cu.CUdeviceptr(self._device)))
        check("cuMemFreeHost", cu.cuMemFreeHost(self.host))
        check("cuEventDestroy", cu.cuEventDestroy(self._event))


def _count(length: int, chunk: int) -> int:
    return -(-length // chunk)


def _entries(ranges: Sequence[Range], chunk: int) -> array[int]:
    """Address and length of every chunk, in turns."""
    entries = array("Q")
    for address, length in ranges:
        count = _count(length, chunk)
        part = array("Q", bytes(_ENTRY * count))
        part[0::2] = array("Q", range(address, address + length, chunk))
        part[1::2] = array("Q", [chunk]) * count
        part[-1] = length - (count - 1) * chunk
        entries.extend(part)
    return entries
