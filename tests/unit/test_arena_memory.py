"""Allocations of a program under the interposer: what it gets must be what cuMemAlloc would have given it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.native.arena.harness import (
    INVALID_CONTEXT,
    INVALID_VALUE,
    MIB,
    OUT_OF_MEMORY,
    SUCCESS,
    Program,
    out,
    program_fixture,
)

program = program_fixture()
plain = program_fixture(TORPOR_ARENA="off")
small_gpu = program_fixture(TORPOR_SIM_MEMORY="1G")

ARENA_BASE = 0x600000000000


def blocks(running: Program) -> dict[str, int]:
    with running.control() as control:
        counts: dict[str, int] = control.json(1)["blocks"]
        return counts


def free_memory(running: Program) -> int:
    return int.from_bytes(running.ok("cuMemGetInfo_v2", out(8), out(8))[0], "little")


def test_allocations_do_not_overlap_and_keep_their_bytes(program: Program) -> None:
    program.start_up()
    chosen = random.Random(7)
    live: dict[int, tuple[int, int]] = {}  # address -> size, byte

    def check_and_free(address: int) -> None:
        size, byte = live.pop(address)
        edge = min(size, 64)
        assert program.read(address, edge) == bytes([byte]) * edge
        assert program.read(address + size - edge, edge) == bytes([byte]) * edge
        program.ok("cuMemFree_v2", address)

    for step in range(400):
        if live and chosen.random() < 0.45:
            check_and_free(chosen.choice(list(live)))
            continue
        size = chosen.randint(1, 100 * MIB)
        if step % 20:  # most are small
            size = max(1, int(100 * MIB ** chosen.random()))
        address = program.allocate(size)
        assert address % 512 == 0
        assert all(address + size <= other or other + live[other][0] <= address for other in live)
        live[address] = (size, step % 251 + 1)
        edge = min(size, 64)
        program.fill(address, edge, live[address][1])
        program.fill(address + size - edge, edge, live[address][1])
    for address in chosen.sample(list(live), len(live)):
        check_and_free(address)
    assert blocks(program)["count"] <= 1  # one empty slab may stay


def test_blocks_are_at_the_arenas_addresses(program: Program) -> None:
    program.start_up()
    assert ARENA_BASE <= program.allocate(3 * MIB) < ARENA_BASE + (1 << 40)


def test_small_allocations_share_slabs_and_large_ones_do_not(program: Program) -> None:
    program.start_up()
    small = [program.allocate(1000) for _ in range(2000)]
    assert blocks(program)["count"] == 1
    large = [program.allocate(MIB + 1) for _ in range(3)]
    assert blocks(program) == {"count": 4, "bytes": 8 * MIB, "largest": 2 * MIB, "imported": 0}
    more = [program.allocate(MIB) for _ in range(40)]
    assert blocks(program)["count"] < 4 + 10
    for address in small + large + more:
        program.ok("cuMemFree_v2", address)
    assert blocks(program)["count"] == 1


def test_wrong_frees(program: Program) -> None:
    program.start_up()
    for size in (700, 5 * MIB):
        address = program.allocate(size)
        assert program.cuMemFree_v2(address + 512)[0] == INVALID_VALUE
        program.ok("cuMemFree_v2", address)
        assert program.cuMemFree_v2(address)[0] == INVALID_VALUE
    assert program.cuMemFree_v2(ARENA_BASE + (1 << 39))[0] == INVALID_VALUE


def test_wrong_allocations_fail_as_without_the_arena(program: Program, plain: Program) -> None:
    cases: list[tuple[Any, ...]] = [
        ("cuMemAlloc_v2", out(8), 0),
        ("cuMemAlloc_v2", None, 100),
        ("cuMemAlloc_v2", out(8), 1 << 60),
        ("cuMemAlloc_v2", out(8), (1 << 64) - 1),
        ("cuMemAllocPitch_v2", out(8), out(8), 100, 0, 4),
        ("cuMemAllocPitch_v2", out(8), out(8), 100, 10, 5),
        ("cuMemAllocPitch_v2", out(8), None, 100, 10, 4),
        ("cuMemFree_v2", 12345),
    ]
    before = [(name, program.call(name, *args)[0], plain.call(name, *args)[0]) for name, *args in cases]
    assert [(name, real) for name, _ours, real in before] == [(name, ours) for name, ours, _real in before]
    program.start_up()
    plain.start_up()
    after = [(name, program.call(name, *args)[0], plain.call(name, *args)[0]) for name, *args in cases]
    assert [(name, real) for name, _ours, real in after] == [(name, ours) for name, ours, _real in after]
    program.ok("cuCtxSetCurrent", 0)
    assert program.cuMemAlloc_v2(out(8), 100)[0] == INVALID_CONTEXT


def test_rows_of_a_pitched_allocation(program: Program) -> None:
    program.start_up()
    address, pitch = (
        int.from_bytes(each, "little") for each in program.ok("cuMemAllocPitch_v2", out(8), out(8), 1000, 7, 4)
    )
    assert pitch == 1024
    base, size = (
        int.from_bytes(each, "little") for each in program.ok("cuMemGetAddressRange_v2", out(8), out(8), address + 3000)
    )
    assert (base, size) == (address, 7 * 1024)


def test_out_of_memory_is_the_drivers_and_passes(small_gpu: Program) -> None:
    small_gpu.start_up()
    step = free_memory(small_gpu) // 5 // (8 * MIB) * 8 * MIB
    taken = []
    while True:
        result, outputs = small_gpu.cuMemAlloc_v2(out(8), step)
        if result != SUCCESS:
            break
        taken.append(int.from_bytes(outputs[0], "little"))
    assert result == OUT_OF_MEMORY
    assert len(taken) == 5
    small_gpu.ok("cuMemFree_v2", taken.pop())
    small = small_gpu.allocate(100)
    small_gpu.ok("cuMemFree_v2", small)
    assert blocks(small_gpu)["count"] == 5  # with the empty slab
    taken.append(small_gpu.allocate(free_memory(small_gpu) + MIB))  # only fits once that is given up
    assert blocks(small_gpu)["count"] == 5
    for address in taken:
        small_gpu.ok("cuMemFree_v2", address)
    assert free_memory(small_gpu) >= 5 * step


def test_memory_goes_with_its_context(program: Program) -> None:
    program.start_up()
    kept = program.allocate(4 * MIB)
    context = program.number("cuCtxCreate_v2", out(8), 0, 0)
    lost = [program.allocate(size) for size in (100, 4 * MIB)]
    before = free_memory(program)
    program.ok("cuCtxDestroy_v2", context)
    program.ok("cuCtxSetCurrent", program.number("cuDevicePrimaryCtxRetain", out(8), 0))
    assert free_memory(program) - before >= 4 * MIB
    assert [program.cuMemFree_v2(address)[0] for address in lost] == [INVALID_VALUE, INVALID_VALUE]
    program.ok("cuMemFree_v2", kept)


def test_memory_goes_with_the_primary_context(program: Program) -> None:
    for ending in ("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"):
        program.start_up()
        address = program.allocate(4 * MIB)
        before = free_memory(program)
        program.ok(ending, 0)
        program.start_up()
        assert free_memory(program) - before >= 4 * MIB
        assert program.cuMemFree_v2(address)[0] == INVALID_VALUE


def test_an_inner_release_of_the_primary_context_keeps_the_memory(program: Program) -> None:
    program.start_up()
    program.start_up()
    address = program.allocate(4 * MIB)
    program.ok("cuDevicePrimaryCtxRelease_v2", 0)
    program.fill(address, 4 * MIB, 5)
    program.ok("cuMemFree_v2", address)


def test_a_free_from_another_context_finds_the_memory(program: Program) -> None:
    program.start_up()
    address = program.allocate(4 * MIB)
    program.ok("cuCtxCreate_v2", out(8), 0, 0)
    program.ok("cuMemFree_v2", address)


def test_a_forked_child_leaves_the_parents_memory_alone(program: Program) -> None:
    program.start_up()
    address = program.allocate(4 * MIB)
    program.fill(address, 64, 9)
    program.tell(
        exec=f"""
import ctypes
child = os.fork()
if child == 0:
    library = ctypes.CDLL("libcuda.so.1")
    os._exit(library.cuMemFree_v2(ctypes.c_uint64({address})) == 0)
status = os.waitpid(child, 0)[1]
"""
    )
    assert program.value("status") == 0
    assert program.read(address, 64) == b"\t" * 64
    program.ok("cuMemFree_v2", address)


def test_without_the_arena_everything_is_the_drivers(plain: Program) -> None:
    plain.start_up()
    address = plain.allocate(4 * MIB)
    assert not ARENA_BASE <= address < ARENA_BASE + (1 << 40)
    with plain.control() as control:
        hello = control.json(1)
    assert hello["arena"] is False
    assert hello["blocks"]["count"] == 0
    plain.ok("cuMemFree_v2", address)


def test_peers_reach_present_and_later_blocks(tmp_path: Path) -> None:
    running = Program(tmp_path, TORPOR_SIM_DEVICES="2")
    try:
        running.ok("cuInit", 0)
        contexts = [running.number("cuDevicePrimaryCtxRetain", out(8), device) for device in (0, 1)]

        def reaches(address: int, device: int) -> bool:
            location = {"bytes": (1).to_bytes(4, "little").hex() + device.to_bytes(4, "little").hex()}
            return running.number("cuMemGetAccess", out(8), location, address) == 3

        running.ok("cuCtxSetCurrent", contexts[1])
        early = running.allocate(4 * MIB)
        assert reaches(early, 1)
        assert not reaches(early, 0)
        running.ok("cuCtxSetCurrent", contexts[0])
        running.ok("cuCtxEnablePeerAccess", contexts[1], 0)
        assert reaches(early, 0)
        running.ok("cuCtxSetCurrent", contexts[1])
        late = running.allocate(4 * MIB)
        assert reaches(late, 0)
        with running.control() as control:
            control.cycle()
        assert reaches(late, 0)
        running.ok("cuCtxSetCurrent", contexts[0])
        mine = running.allocate(4 * MIB)
        assert not reaches(mine, 1)
        running.ok("cuCtxDisablePeerAccess", contexts[1])
        assert not reaches(early, 0)
        assert not reaches(late, 0)
        assert reaches(late, 1)
    finally:
        running.end()
