"""Work that is made again and again, and waits in the queue as a whole before the driver takes any of it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance import gpu

if TYPE_CHECKING:
    from tests.vm.world import World

SLOTS, SLOT = 256, 64
"""In pinned memory, behind the places; and their bytes."""
HALF = 4096
"""Where the second half of a buffer begins."""


class Held:
    """A driver that takes no work from `hold` to `release`, where TORPOR_TEST_HELD names the file of such a fault."""

    def __init__(self) -> None:
        name = os.environ.get("TORPOR_TEST_HELD")
        self._file = Path(name) if name else None
        self._late: threading.Timer | None = None

    def hold(self, memory: int) -> None:
        if self._file is None:
            return
        gpu.call("cuMemsetD8Async", memory, 0, 8, 0)  # such a call is right
        self._file.unlink()
        self._late = threading.Timer(20, self._file.touch)  # a call that waits for the queue would wait for ever
        self._late.start()
        gpu.call("cuMemsetD16Async", memory, 0, 8, 0)

    def release(self) -> None:
        if self._file is None or self._late is None:
            return
        self._late.cancel()
        if self._file.exists():
            raise AssertionError("a call had to wait")
        self._file.touch()


class Slots:
    """Pinned memory that nothing uses any more, until there is none left."""

    def __init__(self, world: World) -> None:
        self.start = world.slots
        ctypes.memset(self.start, 0, SLOTS * SLOT)

    def part(self, number: int, parts: int) -> Iterator[int]:
        each = SLOTS // parts * SLOT
        return iter(range(self.start + number * each, self.start + (number + 1) * each, SLOT))

    def digest(self) -> str:
        return hashlib.blake2b(ctypes.string_at(self.start, SLOTS * SLOT), digest_size=8).hexdigest()


def one(world: World, kind: list[int], value: int, turn: int, free: Iterator[int], alone: bool) -> str:
    """A call of that kind, buffer and shape; `alone` touches no other buffer."""
    number, buffer, shape = kind
    stream, memory = world.streams[world.owner[buffer]], world.buffers[buffer]
    match number:
        case 0:
            return world.mix(buffer, shape, 32 * shape, value | 1, turn % 200, value << 20)
        case 1:
            return world.wide(buffer, value % 256)
        case 2:
            return world.none(world.owner[buffer])
        case 3:
            return world.fill(buffer, value % 100, 3, value)
        case 4:
            words = 40 * shape + value % 9
            if not alone:
                return world.copy((buffer + 1) % len(world.buffers), buffer, words)
            return gpu.status("cuMemcpyDtoDAsync", memory + HALF, memory, words * 4, stream)
        case 5:
            ctypes.memset(slot := next(free), value % 251, SLOT)
            return gpu.status("cuMemcpyHtoDAsync", memory + value % 100, slot, SLOT - value % 64, stream)
        case 6:
            return gpu.status("cuMemcpyDtoHAsync", next(free), memory + value % 100, SLOT // shape, stream)
        case 7:  # onto itself, by a little
            return gpu.status("cuMemcpyDtoDAsync", memory + 4 * shape, memory, 64, stream)
        case 9:
            return world.cooperative(world.owner[buffer])
    if shape == 2:
        return gpu.status("cuMemsetD16Async", memory + value % 100 * 2, value % 65521, 5, stream)
    return world.fill_bytes(buffer, value % 100, 7, value % 255)


def turn_of(
    world: World, kinds: list[list[int]], seed: int, turn: int, free: Iterator[int], alone: bool = False
) -> list[str]:
    return [
        one(world, kind, (seed + turn * 977 * (index % 3)) % 2**32, turn, free, alone)
        for index, kind in enumerate(kinds)
    ]


def again(world: World, kinds: list[list[int]], times: int, seed: int, apart: bool) -> list[str]:
    gpu.call("cuCtxSynchronize")
    slots = Slots(world)
    free = slots.part(0, 1)

    def turn(number: int) -> list[str]:
        marked = [gpu.status("cuEventRecord", world.events[1], world.streams[1])] if apart else []
        return [*turn_of(world, kinds, seed, number, free), *marked]

    first = turn(0)
    world.held.hold(world.scratch)
    said = [each for number in range(1, times) for each in turn(number)]
    world.held.release()
    gpu.call("cuCtxSynchronize")
    return [*first, *sorted(set(said)), slots.digest()]


def together(world: World, kinds: list[list[list[int]]], times: int, seed: int) -> list[str]:
    gpu.call("cuCtxSynchronize")
    slots, context = Slots(world), gpu.call("cuCtxGetCurrent")
    free = [slots.part(number, len(kinds)) for number in range(len(kinds))]
    said = [turn_of(world, mine, seed, 0, free[number], True) for number, mine in enumerate(kinds)]
    begin = threading.Barrier(len(kinds))

    def work(number: int) -> None:
        gpu.call("cuCtxSetCurrent", context)
        begin.wait()
        for turn in range(1, times):
            said[number] += turn_of(world, kinds[number], seed, turn, free[number], True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(kinds))]
    world.held.hold(world.scratch)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.held.release()
    gpu.call("cuCtxSynchronize")
    return [*(each for mine in said for each in mine), slots.digest()]
