"""Question: how fast does a GPU hash its own memory, and what does that cost the copies beside it?

Hashes device memory (random bytes) of several sizes in chunks of several sizes; then copies device memory to pinned
host memory in 64 MiB pieces, alone and while hashing runs on another stream without a pause. Hashes of the first and
the last chunk are compared with the CPU's. Native twins in the same run: a copy inside device memory (bytes read per
second), and the CPU's library in one thread.

"gpu" is by the GPU's clock, from the upload of the list to the download of the hashes; "wall" is what the caller waits,
with the list made and the hashes handed over in Python. Medians.

Targets, on an H200: 0.8 TB/s by the GPU's clock from 1 GiB on, with any chunk of 256 KiB to 4 MiB; copies beside
hashing at 95 % of their rate alone. On the software GPU (--sim) the figures say nothing: they show that the benchmark
works.

    python bench/device_hash.py [--mib 64 1024 16384] [--chunk-kib 256 1024 4096] [--repeat 7] [--out device-hash.json]
"""

from __future__ import annotations

import script

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
from blake3 import blake3
from driver_calls import checked, on_the_software_gpu

from torpor.driver import Driver, hashing
from torpor.driver.copies import Stream
from torpor.driver.hashing import DeviceHasher

MIB = 1 << 20
PIECE = 64 * MIB
RATE, SHARE = 0.8e12, 0.95


class Bench:
    """The first GPU with `size` random bytes at `base`, and `pinned`, two pieces of pinned host memory."""

    def __init__(self, size: int, piece: int) -> None:
        from cuda.bindings import driver as cu

        self.cu, self.size, self.piece = cu, size, piece
        self.driver = Driver()
        self.driver.bind(0)
        self.device = self.driver.devices[0]
        if self.driver.free_memory(0) < size + (1 << 28):
            raise SystemExit(f"{size / MIB:.0f} MiB do not fit on the GPU now: give less with --mib")
        self.base = int(checked(cu.cuMemAlloc(size)))
        self.pinned = [int(checked(cu.cuMemHostAlloc(piece, 0))) for _ in range(2)]
        random = os.urandom(min(size, PIECE))
        checked(cu.cuMemcpyHtoD(self.base, random, len(random)))
        filled = len(random)
        while filled < size:
            part = min(filled, size - filled)
            checked(cu.cuMemcpyDtoD(self.base + filled, self.base, part))
            filled += part
        self.events = [checked(cu.cuEventCreate(0)) for _ in range(2)]
        checked(cu.cuCtxSynchronize())

    def timed(self, stream: Stream, action: Callable[[], Any]) -> tuple[float, float]:
        """Seconds by the GPU's clock and by the wall of one action on the stream."""
        script.check()
        begun = time.perf_counter()
        checked(self.cu.cuEventRecord(self.events[0], stream.handle))
        pending = action()
        checked(self.cu.cuEventRecord(self.events[1], stream.handle))
        if pending is not None:
            pending.result()
        stream.wait()
        wall = time.perf_counter() - begun
        return float(checked(self.cu.cuEventElapsedTime(*self.events))) / 1e3, wall

    def compare(self, hashes: hashing.ChunkHashes) -> None:
        """Ends the program when the first or the last chunk's hash is not the CPU's."""
        for address, length, digest in (next(hashes.chunks()), list(hashes.chunks())[-1]):
            data = bytearray(length)
            checked(self.cu.cuMemcpyDtoH(data, address, length))
            if blake3(data).digest() != digest:
                raise SystemExit(f"the hash of {length} bytes at {address:#x} is wrong")

    def hash_rate(self, size: int, chunk: int, repeat: int, stream: Stream) -> dict[str, Any]:
        """Bytes per second of hashing the first `size` bytes."""
        with DeviceHasher(self.driver, self.device, chunk) as hasher:
            self.compare(hasher.hash([(self.base, size)], stream))
            runs = [self.timed(stream, lambda: hasher.start([(self.base, size)], stream)) for _ in range(repeat)]
        gpu, wall = (statistics.median(run[which] for run in runs) for which in (0, 1))
        met = size / gpu >= RATE if size >= 1024 * MIB else None
        return {"mib": size / MIB, "chunk_kib": chunk >> 10, "gpu_bytes_per_s": size / gpu,
                "wall_bytes_per_s": size / wall, "met": met}  # fmt: skip

    def inside_rate(self, repeat: int, stream: Stream) -> float:
        """Bytes read per second by a copy of one half of the memory to the other."""
        half = self.size // 2

        def copy() -> None:
            checked(self.cu.cuMemcpyDtoDAsync(self.base + half, self.base, half, stream.handle))

        self.timed(stream, copy)
        return half / statistics.median(self.timed(stream, copy)[0] for _ in range(repeat))

    def copies(self, size: int, stream: Stream) -> float:
        """Bytes per second to the host, through both pieces of pinned memory in turn."""
        begun = time.perf_counter()
        for number in range(max(1, size // self.piece)):
            at = number * self.piece % max(1, self.size - self.piece + 1)
            stream.to_host(self.pinned[number % 2], self.base + at, self.piece)
        stream.wait()
        return max(1, size // self.piece) * self.piece / (time.perf_counter() - begun)

    def beside(self, size: int, chunk: int, repeat: int) -> dict[str, Any]:
        """Rates of copies alone, of copies while hashing goes on, and of that hashing."""
        with Stream() as copying, Stream() as stream, DeviceHasher(self.driver, self.device, chunk) as hasher:
            self.copies(size, copying)
            hasher.hash([(self.base, self.size)], stream)
            alone, along, hashed = [], [], []
            for _ in range(repeat):
                alone.append(self.copies(size, copying))
                along_one, hashed_one = self._at_once(size, copying, hasher, stream)
                along.append(along_one)
                hashed.append(hashed_one)
        rates = {"alone": statistics.median(alone), "beside_hashing": statistics.median(along)}
        return {"copied_mib": size / MIB, "chunk_kib": chunk >> 10, **rates, "hashing": statistics.median(hashed),
                "met": rates["beside_hashing"] >= SHARE * rates["alone"]}  # fmt: skip

    def _at_once(self, size: int, copying: Stream, hasher: DeviceHasher, stream: Stream) -> tuple[float, float]:
        """Queues the copies, then keeps two rounds of hashing queued until the copies are done."""
        begun = time.perf_counter()
        pieces = max(1, size // self.piece)
        pending = [hasher.start([(self.base, self.size)], stream)]
        for number in range(pieces):
            at = number * self.piece % max(1, self.size - self.piece + 1)
            copying.to_host(self.pinned[number % 2], self.base + at, self.piece)
        rounds = 0
        copied = 0.0
        while not copied:
            pending.append(hasher.start([(self.base, self.size)], stream))
            pending.pop(0).result()
            rounds += 1
            if self.cu.cuStreamQuery(copying.handle)[0] != self.cu.CUresult.CUDA_ERROR_NOT_READY:
                copying.wait()
                copied = time.perf_counter() - begun
        pending.pop().result()
        return pieces * self.piece / copied, (rounds + 1) * self.size / (time.perf_counter() - begun)


def cpu_rate() -> float:
    data = os.urandom(16 * MIB)
    begun = time.perf_counter()
    blake3(data).digest()
    return len(data) / (time.perf_counter() - begun)


def limits(bench: Bench) -> dict[str, float]:
    """Multiprocessors and highest clock (Hz), from which the estimate in docs/design/device-hash.md follows."""
    attribute = bench.cu.CUdevice_attribute
    count = checked(bench.cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0))
    clock = checked(bench.cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0))
    return {"multiprocessors": int(count), "clock_hz": int(clock) * 1000}


def show(found: dict[str, Any]) -> None:
    word = {True: "yes", False: "no", None: ""}
    print("| MiB | chunk KiB | GPU TB/s | wall TB/s | target met |")
    print("| --- | --- | --- | --- | --- |")
    for row in found["hashing"]:
        rates = f"{row['gpu_bytes_per_s'] / 1e12:.3f} | {row['wall_bytes_per_s'] / 1e12:.3f}"
        print(f"| {row['mib']:g} | {row['chunk_kib']} | {rates} | {word[row['met']]} |")
    twins = found["twins"]
    print(f"\ncopy inside device memory: {twins['inside'] / 1e12:.3f} TB/s")
    print(f"the CPU's library, one thread: {twins['cpu'] / 1e9:.2f} GB/s\n")
    print("| copied MiB | chunk KiB | alone GB/s | beside hashing GB/s | hashing meanwhile TB/s | target met |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in found["copies"]:
        rates = f"{row['alone'] / 1e9:.2f} | {row['beside_hashing'] / 1e9:.2f} | {row['hashing'] / 1e12:.3f}"
        print(f"| {row['copied_mib']:g} | {row['chunk_kib']} | {rates} | {word[row['met']]} |")


def main() -> None:
    parser = script.options(__doc__)
    parser.add_argument("--mib", type=script.number(1 / 256), nargs="+", default=[64, 256, 1024, 4096, 16384])
    parser.add_argument("--chunk-kib", type=script.power_of_two, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--copy-mib", type=script.number(1 / 256), default=8192)
    parser.add_argument("--piece-mib", type=script.number(1 / 256), default=PIECE / MIB, help="of one copy")
    parser.add_argument("--repeat", type=script.whole(), default=7)
    parser.add_argument("--kernels", type=Path, help="another folder with blake3_sm80.ptx and blake3_sm75.ptx")
    parser.add_argument("--sim", action="store_true", help="on the software GPU")
    options = parser.parse_args()
    if options.sim:
        on_the_software_gpu()
    if options.kernels:
        hashing._KERNELS = options.kernels
    sizes = [int(size * MIB) for size in options.mib]
    bench = Bench(max(sizes), int(options.piece_mib * MIB))
    with Stream() as stream:
        rows = [bench.hash_rate(size, kib << 10, options.repeat, stream) for kib in options.chunk_kib for size in sizes]
        inside = bench.inside_rate(options.repeat, stream)
    copies = [bench.beside(int(options.copy_mib * MIB), kib << 10, options.repeat) for kib in options.chunk_kib]
    found = {"machine": machine.describe(), "device": bench.device.name, **limits(bench), "hashing": rows,
             "twins": {"inside": inside, "cpu": cpu_rate()}, "copies": copies}  # fmt: skip
    show(found)
    script.keep(options.out, found)


if __name__ == "__main__":
    script.run(main)
