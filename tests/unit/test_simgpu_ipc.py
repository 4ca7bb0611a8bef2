"""Memory between processes on the software GPU: cuIpc*; events are in test_shared_events.py."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.native.simgpu.kernels import PTX
from tests.native.simgpu.program import (
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    NOT_SUPPORTED,
    SUCCESS,
    Mapping,
    Program,
    Start,
    by_value,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

LAZY_PEER_ACCESS = 1
DISABLE_TIMING, INTERPROCESS = 2, 4
IS_LEGACY_IPC_CAPABLE = 10


def handle_of(program: Program, address: int) -> dict[str, Any]:
    return by_value(program.ok("cuIpcGetMemHandle", out(64), address)[0])


def opened(program: Program, handle: dict[str, Any]) -> int:
    return program.number("cuIpcOpenMemHandle_v2", out(8), handle, LAZY_PEER_ACCESS)


def pair(start: Start, **env: str) -> tuple[Program, Program]:
    owner, other = start(**env), start(**env)
    owner.start_up()
    other.start_up()
    return owner, other


@pytest.mark.parametrize("size", [100, 4096, 3 * MIB + 5])
def test_both_processes_see_the_same_bytes(start: Start, size: int) -> None:
    owner, other = pair(start)
    address = owner.allocate(size)
    before = bytes(range(100))
    owner.write(address, before)
    there = opened(other, handle_of(owner, address))
    assert other.read(there, 100) == before
    other.write(there + size - 4, b"back")
    assert owner.read(address + size - 4, 4) == b"back"
    owner.write(address, b"again")
    assert other.read(there, 5) == b"again"
    assert other.ok("cuMemGetAddressRange_v2", out(8), out(8), there + 7) == [
        there.to_bytes(8, "little"),
        size.to_bytes(8, "little"),
    ]


def test_kernels_work_on_memory_of_another_process(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(4096)
    there = opened(other, handle_of(owner, address))
    module = other.number("cuModuleLoadData", out(8), given(PTX.encode() + b"\0"))
    function = other.number("cuModuleGetFunction", out(8), module, given(b"store\0"))
    to, value = other.place(struct.pack("<Q", there)), other.place(struct.pack("<I", 4711))
    parameters = given(struct.pack("<QQ", to, value))
    other.ok("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, None)
    other.ok("cuCtxSynchronize")
    assert owner.read(address, 4) == struct.pack("<I", 4711)


def test_a_handle_stays_the_same_and_names_the_whole_allocation(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(MIB)
    assert handle_of(owner, address) == handle_of(owner, address + 1000)
    handle = handle_of(owner, address)
    there = opened(other, handle)
    assert opened(other, handle) == there
    other.ok("cuIpcCloseMemHandle", there)
    assert other.read(there, 1) == b"\0"
    other.ok("cuIpcCloseMemHandle", there)
    assert other.status("cuMemcpyDtoH_v2", out(1), there, 1) == INVALID_VALUE
    assert other.status("cuIpcCloseMemHandle", there) == INVALID_VALUE


def test_what_cannot_be_shared_or_opened(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(MIB)
    handle = handle_of(owner, address)
    assert owner.status("cuIpcOpenMemHandle_v2", out(8), handle, LAZY_PEER_ACCESS) == INVALID_CONTEXT
    assert other.status("cuIpcOpenMemHandle_v2", out(8), handle, 2) == INVALID_VALUE
    assert other.status("cuIpcOpenMemHandle_v2", None, handle, LAZY_PEER_ACCESS) == INVALID_VALUE
    assert other.status("cuIpcOpenMemHandle_v2", out(8), by_value(bytes(64)), LAZY_PEER_ACCESS) == INVALID_VALUE
    assert owner.status("cuIpcGetMemHandle", None, address) == INVALID_VALUE
    assert owner.status("cuIpcGetMemHandle", out(64), 4096) == INVALID_VALUE
    assert owner.status("cuIpcGetMemHandle", out(64), Mapping(owner, 2 * MIB).address) == INVALID_VALUE
    pooled = owner.number("cuMemAllocAsync", out(8), MIB, 0)
    assert owner.status("cuIpcGetMemHandle", out(64), pooled) == INVALID_VALUE
    pinned = owner.number("cuMemHostAlloc", out(8), 4096, 0)
    assert owner.status("cuIpcGetMemHandle", out(64), pinned) == INVALID_VALUE
    there = opened(other, handle)
    assert other.status("cuIpcGetMemHandle", out(64), there) == INVALID_VALUE
    assert other.status("cuMemFree_v2", there) == INVALID_VALUE
    assert other.status("cuIpcCloseMemHandle", there + 1) == INVALID_VALUE
    assert other.ok("cuPointerGetAttribute", out(1), IS_LEGACY_IPC_CAPABLE, there) == [b"\0"]
    assert owner.ok("cuPointerGetAttribute", out(1), IS_LEGACY_IPC_CAPABLE, address) == [b"\1"]


def test_memory_that_is_gone_cannot_be_opened(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(MIB)
    handle = handle_of(owner, address)
    owner.ok("cuMemFree_v2", address)
    assert other.status("cuIpcOpenMemHandle_v2", out(8), handle, LAZY_PEER_ACCESS) == INVALID_HANDLE


def test_opened_memory_counts_once_and_outlives_its_owner(start: Start) -> None:
    owner, other = pair(start)
    whole = other.free_memory()
    address = owner.allocate(8 * MIB)
    owner.write(address, b"kept")
    there = opened(other, handle_of(owner, address))
    assert owner.free_memory() == other.free_memory() == whole - 8 * MIB
    owner.kill()
    assert other.read(there, 4) == b"kept"
    assert other.free_memory() == whole - 8 * MIB
    other.ok("cuIpcCloseMemHandle", there)
    assert other.free_memory() == whole


def test_memory_can_be_exported_when_the_device_is_full(start: Start) -> None:
    owner, other = pair(start, TORPOR_SIM_MEMORY="64M")
    address = owner.allocate(62 * MIB)
    there = opened(other, handle_of(owner, address))
    other.write(there + 62 * MIB - 1, b"x")
    owner.ok("cuMemFree_v2", address)
    other.ok("cuIpcCloseMemHandle", there)
    assert owner.free_memory() == 64 * MIB


def test_export_waits_for_work_and_keeps_what_it_wrote(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(MIB)
    flag = owner.number("cuMemHostAlloc", out(8), 4096, 0)
    stream = owner.number("cuStreamCreate", out(8), 1)
    owner.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)
    owner.ok("cuMemsetD8Async", address, 7, MIB, stream)
    owner.begin("cuIpcGetMemHandle", out(64), address)
    owner.poke(flag, struct.pack("<I", 1))
    status, outputs = owner.receive()
    assert status == SUCCESS
    there = opened(other, by_value(bytes.fromhex(outputs[0])))
    assert other.read(there, MIB) == b"\7" * MIB


def test_memory_of_a_device_that_is_not_current(start: Start) -> None:
    owner, other = pair(start, TORPOR_SIM_DEVICES="2")
    second = other.number("cuDevicePrimaryCtxRetain", out(8), 1)
    address = owner.allocate(4096)
    owner.write(address, b"first device")
    other.ok("cuCtxSetCurrent", second)
    there = opened(other, handle_of(owner, address))
    assert other.read(there, 12) == b"first device"
    assert other.ok("cuPointerGetAttribute", out(4), 9, there) == [bytes(4)]  # the ordinal: where it lives


def test_a_checkpointed_owner_keeps_its_bytes_and_ends_the_sharing(start: Start) -> None:
    owner, other = pair(start)
    address = owner.allocate(3 * MIB)
    there = opened(other, handle_of(owner, address))
    other.write(there, b"before")
    for step in ("Lock", "Checkpoint"):
        other.ok(f"cuCheckpointProcess{step}", owner.pid, None)
    names = owner.python("descriptors()").values()
    assert not any("torpor-simgpu-block" in name for name in names)
    for step in ("Restore", "Unlock"):
        other.ok(f"cuCheckpointProcess{step}", owner.pid, None)
    assert owner.read(address, 6) == b"before"
    owner.write(address, b"after!")
    assert other.read(there, 6) == b"before"
    assert other.read(opened(other, handle_of(owner, address)), 6) == b"after!"


def test_opened_memory_cannot_be_restored(start: Start) -> None:
    owner, other = pair(start)
    opened(other, handle_of(owner, owner.allocate(MIB)))
    for step in ("Lock", "Checkpoint"):
        owner.ok(f"cuCheckpointProcess{step}", other.pid, None)
    assert owner.status("cuCheckpointProcessRestore", other.pid, None) == NOT_SUPPORTED
