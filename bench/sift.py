"""Question: how long is a job's memory busy when only what changed has to move?

A row of device memory (random bytes, blocks of 256 MiB) is sifted (src/torpor/keeper/sift.py) against a set that knows
all chunks but a share that was changed in one byte each, into pinned memory; what arrives is dropped there, so no disk
or compression takes part. Native twin in the same run: every byte copied to the same pinned memory, without hashing.

Targets, on an H200 with 16 GiB: 3 % changed takes 150 ms at most; everything changed at most 1.1 times what copying
every byte takes. On the software GPU (--sim) the figures say nothing: they show that the benchmark works.

    python bench/sift.py [--gib 16] [--chunk-kib 256 1024] [--percent 0 1 3 100] [--repeat 5] [--out sift.json]
"""

from __future__ import annotations

import script

import argparse
import os
import random
import statistics
import threading
import time
from collections.abc import Container
from typing import Any

import machine
from driver_calls import checked, on_the_software_gpu

from torpor import paths
from torpor.bench import home
from torpor.driver import Driver, copies
from torpor.driver.copies import Stream
from torpor.image.manifest import SEGMENT
from torpor.keeper import placement, transfer
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import Piece, PlacedBlock
from torpor.keeper.pool import Pool
from torpor.keeper.sift import Hashers, Sieve, Sifter, unknown_to

MIB = 1 << 20
BLOCK = 256 * MIB
MOST_SECONDS, MOST_TIMES = 0.150, 1.1


class Everything:
    """A set that knows every hash: nothing moves."""

    def __contains__(self, digest: object) -> bool:
        return True


def nothing(*_given: object) -> None:
    """What arrives, and how much, is of no interest here."""


class Bench:
    """The first GPU with a row of random bytes, and a pool of pinned memory."""

    def __init__(self, size: int, pool_size: int) -> None:
        from cuda.bindings import driver as cu

        self.cu = cu
        self.driver = Driver()
        self.driver.bind(0)
        self.device = self.driver.devices[0]
        sizes = [min(BLOCK, size - at) for at in range(0, size, BLOCK)]
        placed = [PlacedBlock(300, (number + 1) << 40, one, 0) for number, one in enumerate(sizes)]
        self.rows = placement.rows((self.device.uuid, block) for block in placed)
        self.row = MappedRow.created(self.driver, self.device, sizes)
        filled = min(size, SEGMENT)
        checked(cu.cuMemcpyHtoD(self.row.base, os.urandom(filled), filled))
        while filled < size:
            part = min(filled, size - filled)
            checked(cu.cuMemcpyDtoD(self.row.base + filled, self.row.base, part))
            filled += part
        self.pool = Pool(paths.dram_dir() / ".pool" / f"bench-{os.getpid()}", self._pin, copies.unpin, pool_size)
        self.pool.warm(pool_size)

    def _pin(self, address: int, size: int) -> None:
        self.driver.bind(0)
        copies.pin(address, size)

    def change(self, chunk: int, share: float) -> None:
        """Put 16 random bytes into this share of the chunks, and into no other."""
        count = self.row.size // chunk
        for number in random.sample(range(count), round(count * share)):
            at = self.row.base + number * chunk + random.randrange(chunk - 16)
            checked(self.cu.cuMemcpyHtoD(at, os.urandom(16), 16))

    def sift(self, hashers: Hashers, known: Container[bytes]) -> tuple[float, Sieve, set[bytes]]:
        """Seconds, what was chosen, and all hashes."""
        script.check()
        sieve = Sieve(unknown_to(known))
        sifter = Sifter(self.driver, self.pool, hashers, sieve, nothing)
        begun = time.perf_counter()
        sifted = sifter.sift(self.rows, {self.device.uuid: self.row}, nothing)
        taken = time.perf_counter() - begun
        return taken, sieve, {digest for some in sifted.digests.values() for digest in some}

    def copy_all(self) -> float:
        """Seconds in which every byte is copied, segment by segment."""

        def copy(piece: Piece) -> transfer.Work:
            def one(stream: Stream) -> int:
                segment = self.pool.acquire(to_keep=False)
                try:
                    stream.to_host(segment.address, self.row.base + piece.at, piece.length)
                    stream.wait()
                finally:
                    self.pool.release(segment)
                return piece.length

            return one

        work = [(0, copy(piece)) for piece in placement.cut(self.rows)]
        return transfer.run(self.driver, work, nothing, threading.Event()).seconds

    def measure(self, chunk: int, percents: list[float], repeat: int) -> list[dict[str, Any]]:
        hashers = Hashers(self.driver, chunk)
        self.change(chunk, 1.0)  # no two chunks are the same
        self.copy_all()
        rows = []
        for percent in percents:
            runs, plain, moved = [], [], 0
            for _ in range(repeat):
                _seconds, _sieve, known = self.sift(hashers, Everything())
                self.change(chunk, percent / 100)
                taken, sieve, _all = self.sift(hashers, known if percent < 100 else set())
                runs.append(taken)
                moved = sieve.chosen
                plain.append(self.copy_all())
            seconds, copied = statistics.median(runs), statistics.median(plain)
            met = None
            if self.row.size >= 16 << 30:
                met = seconds <= MOST_SECONDS if percent <= 3 else seconds <= MOST_TIMES * copied
            of = {"mib": self.row.size / MIB, "chunk_kib": chunk >> 10, "percent": percent}
            rows.append(of | {"moved_mib": moved / MIB, "seconds": seconds, "copy_all_seconds": copied, "met": met})
        hashers.close()
        return rows


def main() -> None:
    parser = script.options(__doc__)
    parser.add_argument("--gib", type=script.number(), default=16)
    parser.add_argument("--chunk-kib", type=script.power_of_two, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--percent", type=script.number(), nargs="+", default=[0, 1, 3, 100])
    parser.add_argument("--repeat", type=script.whole(), default=5)
    parser.add_argument("--pool-mib", type=script.whole(), default=2048)
    parser.add_argument("--sim", action="store_true", help="on the software GPU")
    options = parser.parse_args()
    if options.sim:
        on_the_software_gpu()
    size = int(options.gib * 1024) * MIB
    largest = max(options.chunk_kib)
    if not largest << 10 <= min(size, 16 * MIB) or max(options.percent) > 100:
        parser.error(f"--chunk-kib {largest} is more than --gib or 16 MiB, or --percent more than 100")
    with home.own("sim" if options.sim else "gpu"):  # the pinned pool lies in its memory, wherever this is broken off
        measure(options, size)


def measure(options: argparse.Namespace, size: int) -> None:
    bench = Bench(size, options.pool_mib * MIB)
    rows = [row for kib in options.chunk_kib for row in bench.measure(kib << 10, options.percent, options.repeat)]
    bench.row.close()
    bench.pool.close()
    word = {True: "yes", False: "no", None: ""}
    print("| MiB | chunk KiB | changed % | moved MiB | seconds | copy of all, seconds | target met |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        times = f"{row['seconds']:.4f} | {row['copy_all_seconds']:.4f}"
        moved = f"{row['percent']:g} | {row['moved_mib']:g}"
        print(f"| {row['mib']:g} | {row['chunk_kib']} | {moved} | {times} | {word[row['met']]} |")
    script.keep(options.out, {"machine": machine.describe(), "device": bench.device.name, "rows": rows})


if __name__ == "__main__":
    script.run(main)
