"""A program whose output depends on every byte of device memory that it holds and on every step that it took.

Blocks of several sizes on every device are filled, copied into each other and changed from the host, by a fixed
pseudo-random walk; each step prints a digest. Two runs print the same, or one of them lost or mixed up something. With
`--workers` the walk is also done in that many child processes at the same time. None takes a step before all have their
blocks, so a line of any of them says that all are at work.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import pace
from cuda.bindings import driver

SIZES = (4 << 20, 512, 6 << 20, 70 << 10, 3 << 20, 4096)


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class DeviceWalk:
    """One device's blocks, a stream, and the choices of the walk on it."""

    def __init__(self, ordinal: int, seed: int) -> None:
        device = check(driver.cuDeviceGet(ordinal))
        self.context = check(driver.cuDevicePrimaryCtxRetain(device))
        check(driver.cuCtxSetCurrent(self.context))
        self.random = random.Random(f"{seed}/{ordinal}")
        self.stream = check(driver.cuStreamCreate(1))
        self.blocks = [(int(check(driver.cuMemAlloc(size))), size) for size in SIZES]
        for address, size in self.blocks:
            self.write(address, self.random.randbytes(size))

    def write(self, address: int, data: bytes) -> None:
        check(driver.cuMemcpyHtoDAsync(address, data, len(data), self.stream))
        check(driver.cuStreamSynchronize(self.stream))

    def read(self, address: int, size: int) -> bytes:
        data = bytearray(size)
        check(driver.cuMemcpyDtoHAsync(data, address, size, self.stream))
        check(driver.cuStreamSynchronize(self.stream))
        return bytes(data)

    def step(self) -> bytes:
        """Mix the blocks a little; the digest of what was touched."""
        check(driver.cuCtxSetCurrent(self.context))
        (source, source_size), (target, target_size) = self.random.sample(self.blocks, 2)
        length = self.random.randrange(1, min(source_size, target_size) + 1)
        check(driver.cuMemcpyDtoDAsync(target + target_size - length, source, length, self.stream))
        check(driver.cuMemsetD8Async(source, self.random.randrange(256), self.random.randrange(1, 64), self.stream))
        self.write(target, self.random.randbytes(32))
        return hashlib.blake2b(self.read(target, target_size), digest_size=8).digest()

    def whole(self) -> bytes:
        """The digest of all blocks."""
        check(driver.cuCtxSetCurrent(self.context))
        digest = hashlib.blake2b(digest_size=16)
        for address, size in self.blocks:
            digest.update(self.read(address, size))
        return digest.digest()


def say(line: str) -> None:
    """One write per line, so that the lines of several processes do not mix."""
    os.write(1, f"{line}\n".encode())


def await_end(pipe: int) -> None:
    """Until nobody can write into it any more."""
    assert os.read(pipe, 1) == b""
    os.close(pipe)


def main() -> None:
    parser = pace.parser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--name", default="root")
    parser.add_argument("--meet", type=int, nargs=2, help="pipes: one to close when ready, one to wait for")
    arguments = parser.parse_args()
    shared = ["--steps", str(arguments.steps), "--delay", str(arguments.delay)]
    if arguments.until is not None:
        shared += ["--until", arguments.until]
    all_ready, ready = os.pipe()
    begin, all_begin = os.pipe()
    shared += ["--meet", str(ready), str(begin)]
    workers = [
        subprocess.Popen([sys.executable, __file__, *shared, "--name", f"worker{number}"], pass_fds=(ready, begin))
        for number in range(arguments.workers)
    ]
    os.close(ready)
    os.close(begin)
    check(driver.cuInit(0))
    seed = sum(arguments.name.encode())
    walks = [DeviceWalk(ordinal, seed) for ordinal in range(check(driver.cuDeviceGetCount()))]
    if arguments.meet is not None:
        os.close(arguments.meet[0])
        await_end(arguments.meet[1])
    await_end(all_ready)
    os.close(all_begin)
    for number in pace.steps(arguments):
        digests = " ".join(walk.step().hex() for walk in walks)
        say(f"{arguments.name} {number} {digests}")
    for worker in workers:
        if worker.wait() != 0:
            raise RuntimeError(f"{worker.args} ended with {worker.returncode}")
    say(f"{arguments.name} end {' '.join(walk.whole().hex() for walk in walks)}")


main()
