"""On a real GPU: what a program sees of its memory under the interposer is what it sees without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import MIB, Program, gpu_environment, native_environment, out, unchanged

pytestmark = pytest.mark.gpu

ATTRIBUTES = {
    "memory type": 2,
    "host pointer": 4,
    "sync memops": 6,
    "managed": 8,
    "ordinal": 9,
    "ipc": 10,
    "range size": 12,
    "mapped": 13,
    "handle types": 14,
    "rdma": 15,
    "access": 16,
    "pool": 17,
    "mapping size": 18,
    "decompress": 21,
}
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Program]]:
    """The same program without and with the interposer, both started up."""
    running = [Program(tmp_path, native_environment), Program(tmp_path, gpu_environment)]
    for each in running:
        each.start_up()
    yield running
    for each in running:
        each.end()


def same(both: list[Program], look: Callable[[Program], Any]) -> Any:
    native, interposed = (look(each) for each in both)
    assert interposed == native
    return native


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


@pytest.mark.parametrize("size", [1, 700, MIB, MIB + 1, 5 * MIB])
def test_attributes(both: list[Program], size: int) -> None:
    def look(running: Program) -> dict[str, Any]:
        running.allocate(100)
        address = running.allocate(size)
        seen: dict[str, Any] = {}
        for name, which in ATTRIBUTES.items():
            result, outputs = running.cuPointerGetAttribute({"out": 8}, which, address + size - 1)
            seen[name] = (result, outputs[0].hex())
        base, length = running.ok("cuMemGetAddressRange_v2", out(8), out(8), address + size - 1)
        seen["range"] = (number(base) - address, number(length))
        return seen

    same(both, look)


@pytest.mark.parametrize(("width", "element"), [(1, 4), (512, 4), (513, 8), (100_000, 16), (10, 5)])
def test_pitch(both: list[Program], width: int, element: int) -> None:
    def look(running: Program) -> tuple[int, int]:
        result, outputs = running.cuMemAllocPitch_v2(out(8), out(8), width, 10, element)
        return result, number(outputs[1])

    same(both, look)


def test_errors(both: list[Program]) -> None:
    def look(running: Program) -> list[int]:
        address = running.allocate(5 * MIB)
        seen = [
            running.cuMemAlloc_v2(out(8), 0)[0],
            running.cuMemAlloc_v2(out(8), 1 << 60)[0],
            running.cuMemAlloc_v2(out(8), (1 << 64) - 1)[0],
            running.cuMemFree_v2(0)[0],
            running.cuMemFree_v2(address + 512)[0],
            running.cuMemFree_v2(address)[0],
            running.cuMemFree_v2(address)[0],
            running.cuMemRetainAllocationHandle(out(8), running.allocate(5 * MIB))[0],
        ]
        address = running.allocate(5 * MIB)
        running.ok("cuCtxSetCurrent", 0)
        return [*seen, running.cuMemAlloc_v2(out(8), 100)[0], running.cuMemFree_v2(address)[0]]

    same(both, look)


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("call", ["allocate", "free"])
def test_calls_during_a_capture(both: list[Program], mode: int, call: str) -> None:
    def look(running: Program) -> list[int]:
        stream = running.number("cuStreamCreate", out(8), 1)
        address = running.allocate(5 * MIB)
        running.ok("cuStreamBeginCapture_v2", stream, mode)
        if call == "allocate":
            during = running.cuMemAlloc_v2(out(8), 5 * MIB)[0]
        else:
            during = running.cuMemFree_v2(address)[0]
        ended = running.cuStreamEndCapture(stream, out(8))[0]
        return [during, ended, running.cuMemAlloc_v2(out(8), 5 * MIB)[0]]

    same(both, look)


def test_whole_cycles(tmp_path: Path) -> None:
    running = Program(tmp_path, gpu_environment)
    try:
        running.start_up()
        live = {}
        for index, size in enumerate([1, 700, 100_000, MIB, MIB + 1, 40 * MIB]):
            address = running.allocate(size)
            running.fill(address, size, index + 1)
            live[address] = (size, index + 1)
        for _ in range(3):
            with running.control() as control:
                assert len(control.cycle()) == 3
            assert unchanged(running, live)
    finally:
        running.end()
