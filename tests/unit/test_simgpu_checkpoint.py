"""The driver's checkpoint calls, between two processes on the software GPU."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.simgpu.program import (
    GIB,
    ILLEGAL_STATE,
    INVALID_VALUE,
    MIB,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    POSIX_FD,
    SUCCESS,
    Mapping,
    Program,
    Start,
    access,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

RUNNING, LOCKED, CHECKPOINTED = range(3)
HINT = 0x600000000000
UUIDS = [bytes.fromhex(f"5452505253494d0080000000000000{ordinal:02x}") for ordinal in range(4)]


class Keeper:
    """Makes the calls on another process, by its pid as this machine's root namespace sees it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        program.start_up()

    def state(self, pid: int) -> int:
        return self.program.number("cuCheckpointProcessGetState", pid, out(4))

    def step(self, name: str, pid: int, arguments: object = None) -> int:
        return self.program.status(f"cuCheckpointProcess{name}", pid, arguments)

    def take_down(self, pid: int) -> None:
        assert self.step("Lock", pid) == SUCCESS
        assert self.step("Checkpoint", pid) == SUCCESS

    def bring_back(self, pid: int, arguments: object = None) -> None:
        assert self.step("Restore", pid, arguments) == SUCCESS
        assert self.step("Unlock", pid) == SUCCESS


@pytest.fixture
def keeper(start: Start) -> Keeper:
    return Keeper(start())


def timeout(milliseconds: int) -> dict[str, str]:
    """A CUcheckpointLockArgs."""
    return given(struct.pack("<II", milliseconds, 0) + bytes(56))


def gpu_map(program: Program, *pairs: tuple[bytes, bytes]) -> dict[str, str]:
    """A CUcheckpointRestoreArgs whose pairs lie in the program's memory."""
    place = program.place(b"".join(old + new for old, new in pairs))
    return given(struct.pack("<QI", place, len(pairs)) + bytes(52 - 8) + bytes(8))


def test_every_step_has_its_state(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    assert keeper.state(job.pid) == RUNNING
    allowed = {RUNNING: "Lock", LOCKED: "Checkpoint", CHECKPOINTED: "Restore"}
    for state, step in allowed.items():
        assert keeper.state(job.pid) == state
        refused = {"Lock", "Checkpoint", "Restore", "Unlock"} - {step} - ({"Unlock"} if state == LOCKED else set())
        for other in sorted(refused):
            assert keeper.step(other, job.pid) == ILLEGAL_STATE, (state, other)
            assert keeper.state(job.pid) == state
        assert keeper.step(step, job.pid) == SUCCESS
    assert keeper.state(job.pid) == LOCKED
    assert keeper.step("Unlock", job.pid) == SUCCESS
    assert keeper.state(job.pid) == RUNNING
    job.allocate(MIB)


def test_contents_addresses_and_handles_survive(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    mapped, linear = Mapping(job, 8 * MIB, HINT), job.allocate(3 * MIB)
    loose = job.number("cuMemCreate", out(8), 2 * MIB, given(struct.pack("<iiiiQQ", 1, 1, 1, 0, 0, 0)), 0)
    second_view = job.number("cuMemAddressReserve", out(8), 8 * MIB, 0, 0, 0)
    job.ok("cuMemMap", second_view, 8 * MIB, 0, mapped.handle, 0)
    job.ok("cuMemSetAccess", second_view, 8 * MIB, access(0), 1)
    stream = job.number("cuStreamCreate", out(8), 0)
    data = os.urandom(5000)
    for address in (mapped.address + 3 * MIB, linear + MIB):
        job.write(address, data)
    for _ in range(2):  # and again
        keeper.take_down(job.pid)
        assert keeper.program.free_memory() == 16 * GIB
        keeper.bring_back(job.pid)
        assert job.read(mapped.address + 3 * MIB, 5000) == data
        assert job.read(second_view + 3 * MIB, 5000) == data
        assert job.read(linear + MIB, 5000) == data
        assert job.read(linear, 10) == bytes(10)
    job.write(second_view + 2 * MIB, b"one block still")
    assert job.read(mapped.address + 2 * MIB, 15) == b"one block still"
    assert keeper.program.free_memory() == 16 * GIB - (8 + 4 + 2) * MIB
    job.ok("cuStreamSynchronize", stream)
    job.ok("cuMemMap", job.number("cuMemAddressReserve", out(8), 2 * MIB, 0, 0, 0), 2 * MIB, 0, loose, 0)
    mapped.export()


def test_a_checkpointed_process_is_an_ordinary_one(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    mapped = Mapping(job, 64 * MIB)
    job.ok("cuMemsetD8_v2", mapped.address, 1, 32 * MIB)
    keeper.take_down(job.pid)
    files = {str(entry.readlink()) for entry in Path(f"/proc/{job.pid}/fd").iterdir()}
    assert {f for f in files if "simgpu" in f} == {"/memfd:torpor-simgpu-mailbox (deleted)"}
    maps = Path(f"/proc/{job.pid}/maps").read_text()
    assert "torpor-simgpu-block" not in maps
    assert "/dev/shm" not in maps
    # What was on the device is in its own memory now: the written half, not the untouched one.
    resident = int(Path(f"/proc/{job.pid}/statm").read_text().split()[1]) * 4096
    assert 32 * MIB < resident < 64 * MIB
    keeper.bring_back(job.pid)


def test_calls_wait_while_locked_and_questions_do_not(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    assert keeper.step("Lock", job.pid) == SUCCESS
    assert job.number("cuDeviceGetCount", out(4)) == 1
    assert job.number("cuCtxGetDevice", out(4)) == 0
    job.begin("cuMemAlloc_v2", out(8), MIB)
    eventually(lambda: in_futex(job.pid))
    assert keeper.step("Checkpoint", job.pid) == SUCCESS
    assert keeper.step("Restore", job.pid) == SUCCESS
    assert keeper.program.free_memory() == 16 * GIB
    assert keeper.step("Unlock", job.pid) == SUCCESS
    assert job.finish() == SUCCESS
    assert keeper.program.free_memory() == 16 * GIB - 2 * MIB


def in_futex(pid: int) -> bool:
    return "futex" in Path(f"/proc/{pid}/wchan").read_text() or Path(f"/proc/{pid}/syscall").read_text().startswith(
        "202 "
    )


def test_locking_waits_for_the_streams_and_gives_up_in_time(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    stream = job.number("cuStreamCreate", out(8), 1)
    flag = job.number("cuMemHostAlloc", out(8), 4, 0)
    job.ok("cuStreamWaitValue32_v2", stream, flag, 1, 1)
    assert keeper.step("Lock", job.pid, timeout(50)) == NOT_READY
    assert keeper.state(job.pid) == RUNNING
    address = job.allocate(16)  # calls go on
    job.ok("cuMemsetD8Async", address, 1, 16, stream)
    keeper.program.begin("cuCheckpointProcessLock", job.pid, None)
    job.poke(flag, b"\1\0\0\0")
    assert keeper.program.finish() == SUCCESS
    assert job.status("cuStreamQuery", stream) == SUCCESS
    assert keeper.step("Unlock", job.pid) == SUCCESS
    assert job.read(address, 16) == b"\1" * 16


def test_managed_memory_is_refused_and_the_process_works_on(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    address = job.number("cuMemAllocManaged", out(8), MIB, 1)
    assert keeper.step("Lock", job.pid) == SUCCESS
    assert keeper.step("Checkpoint", job.pid) == NOT_SUPPORTED
    assert keeper.step("Restore", job.pid) == ILLEGAL_STATE
    assert keeper.step("Unlock", job.pid) == SUCCESS
    job.write(address, b"works")
    job.ok("cuMemFree_v2", address)
    keeper.take_down(job.pid)
    keeper.bring_back(job.pid)


def test_imported_memory_cannot_be_brought_back(start: Start, keeper: Keeper) -> None:
    job, maker = start(), start()
    job.start_up()
    maker.start_up()
    fd = job.python(f"adopt({maker.pid}, {Mapping(maker, 2 * MIB).export()})")
    handle = job.number("cuMemImportFromShareableHandle", out(8), fd, POSIX_FD)
    base = job.number("cuMemAddressReserve", out(8), 2 * MIB, 0, 0, 0)
    job.ok("cuMemMap", base, 2 * MIB, 0, handle, 0)
    keeper.take_down(job.pid)
    assert keeper.step("Restore", job.pid) == NOT_SUPPORTED
    assert keeper.step("Restore", job.pid) == NOT_SUPPORTED
    assert keeper.step("Unlock", job.pid) == ILLEGAL_STATE


def test_without_room_the_restore_can_be_tried_again(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    mapped, linear = Mapping(job, GIB), job.allocate(GIB)
    job.write(mapped.address, b"kept")
    keeper.take_down(job.pid)
    taken = keeper.program.allocate(15 * GIB)
    assert keeper.step("Restore", job.pid) == OUT_OF_MEMORY
    assert keeper.state(job.pid) == CHECKPOINTED
    assert keeper.program.free_memory() == GIB
    keeper.program.ok("cuMemFree_v2", taken)
    keeper.bring_back(job.pid)
    assert job.read(mapped.address, 4) == b"kept"
    job.write(linear, b"works")


def test_another_gpu_by_uuid(start: Start) -> None:
    """The machine after a restore is the one that the asking process sees."""
    job = start()
    job.start_up()
    other = start(TORPOR_SIM_DEVICES="3", TORPOR_SIM_MEMORY="16G,8G,1G", TORPOR_SIM_ARCH="9.0,9.0,8.0")
    keeper = Keeper(other)
    job.allocate(GIB)
    keeper.take_down(job.pid)
    unknown = bytes(15) + b"\x77"
    for pairs in (
        [(UUIDS[0], unknown)],
        [(UUIDS[3], UUIDS[1])],  # not one of the job's
        [(unknown, UUIDS[0])],
    ):
        assert keeper.step("Restore", job.pid, gpu_map(other, *pairs)) == INVALID_VALUE
    assert keeper.step("Restore", job.pid, gpu_map(other, (UUIDS[0], UUIDS[2]))) == NOT_SUPPORTED  # architecture
    keeper.bring_back(job.pid, gpu_map(other, (UUIDS[0], UUIDS[1])))
    assert job.ok("cuDeviceGetUuid_v2", out(16), 0)[0] == UUIDS[1]
    assert job.number("cuDeviceTotalMem_v2", out(8), 0) == 8 * GIB
    assert job.free_memory() == 7 * GIB


def test_devices_can_change_places(start: Start) -> None:
    two = {"TORPOR_SIM_DEVICES": "2"}
    job, keeper = start(**two), Keeper(start(**two))
    job.start_up(1)
    job.allocate(GIB)
    keeper.take_down(job.pid)
    both_to_one = gpu_map(keeper.program, (UUIDS[0], UUIDS[1]))
    assert keeper.step("Restore", job.pid, both_to_one) == INVALID_VALUE
    keeper.bring_back(job.pid, gpu_map(keeper.program, (UUIDS[0], UUIDS[1]), (UUIDS[1], UUIDS[0])))
    assert job.ok("cuDeviceGetUuid_v2", out(16), 1)[0] == UUIDS[0]
    assert keeper.program.free_memory() == 15 * GIB  # of device 0


def test_processes_without_a_driver(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    child = job.python("(lambda pid: pid if pid else (os.read(0, 1), os._exit(0)))(os.fork())")
    plain = start()
    assert plain.python("1") == 1
    nowhere = {2**22 + 5: INVALID_VALUE, -1: INVALID_VALUE}
    for pid, expected in {**nowhere, plain.pid: NOT_INITIALIZED, child: NOT_INITIALIZED}.items():
        assert keeper.step("Lock", pid) == expected
        assert keeper.program.status("cuCheckpointProcessGetState", pid, out(4)) == expected
    assert keeper.state(job.pid) == RUNNING
    job.kill()
    assert keeper.step("Lock", job.pid) == INVALID_VALUE


def test_reserved_arguments_must_be_zero(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    assert keeper.step("Lock", job.pid, given(bytes(8) + b"\1" + bytes(55))) == INVALID_VALUE
    assert keeper.step("Lock", job.pid, given(bytes(64))) == SUCCESS
    assert keeper.step("Checkpoint", job.pid, given(b"\1" + bytes(63))) == INVALID_VALUE
    assert keeper.step("Unlock", job.pid, given(bytes(64))) == SUCCESS


def test_a_keeper_that_dies_in_a_step_does_not_block_the_next(start: Start, keeper: Keeper) -> None:
    job, first = start(), Keeper(start())
    job.start_up()
    stream = job.number("cuStreamCreate", out(8), 1)
    flag = job.number("cuMemHostAlloc", out(8), 4, 0)
    job.ok("cuStreamWaitValue32_v2", stream, flag, 1, 1)
    first.program.begin("cuCheckpointProcessLock", job.pid, None)
    eventually(lambda: in_futex(first.program.pid))
    first.program.kill()
    job.poke(flag, b"\1\0\0\0")
    eventually(lambda: keeper.state(job.pid) == LOCKED)
    assert keeper.step("Unlock", job.pid) == SUCCESS


def test_a_process_that_dies_in_a_step_is_noticed(start: Start, keeper: Keeper, tmp_path: Path) -> None:
    job = start(TORPOR_SIM_FAULT=f"target:checkpoint=hang:{tmp_path}/never")
    job.start_up()
    assert keeper.step("Lock", job.pid) == SUCCESS
    keeper.program.begin("cuCheckpointProcessCheckpoint", job.pid, None)
    eventually(lambda: in_futex(keeper.program.pid))
    job.kill()
    assert keeper.program.finish() != SUCCESS


def test_the_serving_thread_is_named(start: Start, keeper: Keeper) -> None:
    job = start()
    job.start_up()
    thread = keeper.program.number("cuCheckpointProcessGetRestoreThreadId", job.pid, out(4))
    assert Path(f"/proc/{job.pid}/task/{thread}/comm").read_text() == "torpor-sim\n"


def test_in_a_pid_namespace(tmp_path: Path, keeper: Keeper) -> None:
    """The caller's pid for the process is not the process' own."""
    job = Program(tmp_path, inside=("unshare", "--pid", "--fork", "--kill-child"))
    try:
        job.start_up()
        own = job.python("os.getpid()")
        (outer,) = (int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split())
        assert own == 1
        assert keeper.state(outer) == RUNNING
        address = job.allocate(MIB)
        job.write(address, b"inside")
        keeper.take_down(outer)
        keeper.bring_back(outer)
        assert job.read(address, 6) == b"inside"
    finally:
        job.end()
