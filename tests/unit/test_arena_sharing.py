"""CUDA IPC between processes under the interposer: what the driver would say, on memory in the arena."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import HELLO, INVALID_CONTEXT, INVALID_VALUE, MIB, NOT_SUPPORTED, Program, out

LAZY = 1


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Program]]:
    """Two processes of one job."""
    both = [Program(tmp_path), Program(tmp_path)]
    for one in both:
        one.start_up()
    yield both
    for one in both:
        one.end()


def handle_of(owner: Program, address: int) -> bytes:
    [raw] = owner.ok("cuIpcGetMemHandle", out(64), address)
    return raw


def opened(peer: Program, raw: bytes, flags: int = LAZY) -> tuple[int, int]:
    """The status and the address. A handle is passed by value, which ctypes does for a structure only."""
    peer.execute(
        "class Handle(ctypes.Structure):\n"
        "    _fields_ = [('raw', ctypes.c_char * 64)]\n"
        f"handle = Handle.from_buffer_copy(bytes.fromhex('{raw.hex()}'))\n"
        "address = ctypes.c_uint64()\n"
        f"status = cuda().cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, {flags})\n"
    )
    status, address = peer.value("[status, address.value]")
    return status, address


@pytest.mark.parametrize("size", [700, 5 * MIB])
def test_both_see_the_same_bytes(pair: list[Program], size: int) -> None:
    owner, peer = pair
    address = owner.allocate(size)
    owner.fill(address, size, 7)
    status, there = opened(peer, handle_of(owner, address))
    assert status == 0
    assert peer.read(there, size) == b"\7" * size
    peer.fill(there, size, 8)
    assert owner.read(address, size) == b"\10" * size
    base, length = peer.ok("cuMemGetAddressRange_v2", out(8), out(8), there + size // 2)
    assert (int.from_bytes(base, "little"), int.from_bytes(length, "little")) == (there, size)


def test_an_address_inside_gives_the_handle_of_the_allocation(pair: list[Program]) -> None:
    owner, peer = pair
    first, second = owner.allocate(1000), owner.allocate(1000)
    owner.fill(second, 1000, 3)
    assert handle_of(owner, second + 512) == handle_of(owner, second) != handle_of(owner, first)
    _status, there = opened(peer, handle_of(owner, second + 512))
    assert peer.read(there, 1000) == b"\3" * 1000


def test_opening_counts(pair: list[Program]) -> None:
    owner, peer = pair
    raw = handle_of(owner, owner.allocate(3 * MIB))
    neighbour = handle_of(owner, owner.allocate(100))
    (_, once), (_, twice) = opened(peer, raw), opened(peer, raw)
    assert once == twice
    _, other = opened(peer, neighbour)
    assert peer.cuMemFree_v2(once)[0] == INVALID_VALUE
    assert peer.cuIpcCloseMemHandle(once + 512)[0] == INVALID_VALUE
    peer.ok("cuIpcCloseMemHandle", once)
    peer.read(once, 10)
    peer.ok("cuIpcCloseMemHandle", once)
    assert peer.cuIpcCloseMemHandle(once)[0] == INVALID_VALUE
    assert peer.cuMemcpyDtoH_v2(out(10), once, 10)[0] != 0
    peer.ok("cuIpcCloseMemHandle", other)
    with peer.control() as control:
        assert control.json(HELLO)["blocks"]["count"] == 0


def test_handles_that_lead_nowhere(pair: list[Program]) -> None:
    owner, peer = pair
    address = owner.allocate(3 * MIB)
    raw = handle_of(owner, address)
    assert opened(owner, raw)[0] == INVALID_CONTEXT  # as the driver: not where it was made
    assert opened(peer, raw, flags=6)[0] == INVALID_VALUE
    damaged = bytearray(raw)
    damaged[16] ^= 1
    assert opened(peer, bytes(damaged))[0] == INVALID_VALUE
    assert owner.cuIpcGetMemHandle(out(64), address + (1 << 38))[0] == INVALID_VALUE
    _, there = opened(peer, raw)
    assert peer.cuIpcGetMemHandle(out(64), there)[0] == INVALID_VALUE
    peer.ok("cuIpcCloseMemHandle", there)
    owner.ok("cuMemFree_v2", address)
    assert opened(peer, raw)[0] == INVALID_VALUE
    again = owner.allocate(3 * MIB)
    assert again == address
    assert opened(peer, raw)[0] == INVALID_VALUE  # the handle was of the memory, not of its address
    last = handle_of(owner, again)
    os.kill(owner.process.pid, signal.SIGKILL)
    owner.process.wait()
    assert opened(peer, last)[0] == INVALID_VALUE


def test_memory_outlives_its_owners_free_where_it_is_open(pair: list[Program]) -> None:
    owner, peer = pair
    address = owner.allocate(3 * MIB)
    owner.fill(address, 3 * MIB, 9)
    _, there = opened(peer, handle_of(owner, address))
    owner.ok("cuMemFree_v2", address)
    assert peer.read(there, 3 * MIB) == b"\11" * 3 * MIB
    with peer.control() as control:
        control.cycle()
        control.cycle()
    assert peer.read(there, 3 * MIB) == b"\11" * 3 * MIB


def test_a_handle_after_a_cycle_opens_the_memory_that_came_back(pair: list[Program]) -> None:
    owner, peer = pair
    address = owner.allocate(3 * MIB)
    raw = handle_of(owner, address)
    with owner.control() as control:
        control.cycle()
    owner.fill(address, 3 * MIB, 4)
    _, there = opened(peer, raw)
    assert peer.read(there, 3 * MIB) == b"\4" * 3 * MIB
    assert handle_of(owner, address) == raw


def test_memory_goes_with_the_context_that_opened_it(pair: list[Program]) -> None:
    owner, peer = pair
    raw = handle_of(owner, owner.allocate(3 * MIB))
    context = peer.number("cuCtxCreate_v2", out(8), 0, 0)
    opened(peer, raw)
    peer.ok("cuCtxDestroy_v2", context)
    with peer.control() as control:
        assert control.json(HELLO)["blocks"]["count"] == 0


def test_a_descriptor_that_the_program_closed_is_reported_before_anything_is_touched(pair: list[Program]) -> None:
    owner, peer = pair
    owner.limit_descriptors(2048)
    opened(peer, handle_of(owner, owner.allocate(3 * MIB)))
    owner.execute("for number in open_files():\n    if number >= 1024: os.close(number)")
    with owner.control() as control:
        assert control.json(HELLO)["residual"]["sharing_lost"] == 1
    with peer.control() as control:
        assert control.json(HELLO)["residual"]["sharing_lost"] == 0


def test_a_peer_that_closed_all_descriptors_still_serves(pair: list[Program]) -> None:
    owner, peer = pair
    raw = handle_of(owner, owner.allocate(700))
    owner.execute(
        "for number, name in open_files().items():\n"
        "    if name.startswith('socket:') and number >= 400: os.close(number)"
    )
    eventually(lambda: opened(peer, raw)[0] == 0)


def test_outside_of_a_job_it_is_refused(tmp_path: Path) -> None:
    alone = Program(tmp_path, TORPOR_JOB_DIR="")
    try:
        alone.start_up()
        assert alone.cuIpcGetMemHandle(out(64), alone.allocate(700))[0] == NOT_SUPPORTED
        assert "outside of a job" in alone.end()
    finally:
        alone.end()
