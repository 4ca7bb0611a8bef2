"""Faults on demand: TORPOR_SIM_FAULT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.simgpu.kernels import function, launch, load, u64
from tests.native.simgpu.program import INVALID_VALUE, MIB, OUT_OF_MEMORY, SUCCESS, Start, out, programs_fixture

start = programs_fixture()

UNKNOWN, DEVICE_UNAVAILABLE = 999, 46


def test_the_nth_call_fails(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMemAlloc@2=fail:2")
    program.start_up()
    statuses = [program.status("cuMemAlloc_v2", out(8), MIB) for _ in range(4)]
    assert statuses == [SUCCESS, OUT_OF_MEMORY, SUCCESS, SUCCESS]


def test_from_the_nth_call_on(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMemcpyHtoD_v2@2+=fail:719;cuMemFree=fail:1")
    program.start_up()
    address = program.allocate(MIB)
    assert [program.status("cuMemcpyHtoD_v2", address, out(4), 4) for _ in range(3)] == [SUCCESS, 719, 719]
    assert program.status("cuMemFree_v2", address) == INVALID_VALUE
    assert program.status("cuMemFree_v2", address) == SUCCESS


def test_a_base_name_means_every_version_and_an_exact_name_itself(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMemcpyDtoH@1+=fail:700;cuMemcpyHtoD_v2_ptds=fail:700")
    program.start_up()
    address = program.allocate(MIB)
    assert program.status("cuMemcpyDtoH_v2", out(1), address, 1) == 700
    assert program.status("cuMemcpyDtoH_v2_ptds", out(1), address, 1) == 700
    assert program.status("cuMemcpyDtoHAsync_v2", out(1), address, 1, 0) == SUCCESS
    assert program.status("cuMemcpyHtoD_v2", address, out(1), 1) == SUCCESS
    assert program.status("cuMemcpyHtoD_v2_ptds", address, out(1), 1) == 700


def test_missing_calls_have_fault_points_too(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMipmappedArrayCreate=fail:218")
    program.start_up()
    assert program.status("cuMipmappedArrayCreate", out(8), out(8)) == 218
    assert program.status("cuMipmappedArrayCreate", out(8), out(8)) == 801


def test_a_call_hangs_until_the_file_is_there(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    program = start(TORPOR_SIM_FAULT=f"cuMemAlloc=hang:{gate}")
    program.start_up()
    program.begin("cuMemAlloc_v2", out(8), MIB)
    assert program.process.poll() is None
    gate.touch()
    assert program.finish() == SUCCESS


def test_a_call_kills_the_process(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMemAlloc@3=kill")
    program.start_up()
    program.allocate(MIB)
    program.allocate(MIB)
    program.begin("cuMemAlloc_v2", out(8), MIB)
    assert program.process.wait(100) == -9


def test_a_device_falls_off_the_bus(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuMemGetInfo@2=lost:1", TORPOR_SIM_DEVICES="2")
    first = program.start_up()
    address = program.allocate(MIB)
    second = program.start_up(device=1)
    flag = program.number("cuMemHostAlloc", out(8), 4096, 0)
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)  # nobody will ever write it
    program.ok("cuMemGetInfo_v2", out(8), out(8))
    assert program.status("cuMemGetInfo_v2", out(8), out(8)) == UNKNOWN
    assert program.status("cuStreamSynchronize", stream) == UNKNOWN
    assert program.status("cuMemAlloc_v2", out(8), MIB) == UNKNOWN
    assert program.status("cuCtxSynchronize") == UNKNOWN
    program.ok("cuCtxSetCurrent", first)
    program.write(address, b"works on")
    assert program.read(address, 8) == b"works on"
    program.ok("cuDevicePrimaryCtxReset_v2", 1)
    assert program.status("cuDevicePrimaryCtxRetain", out(8), 1) == DEVICE_UNAVAILABLE
    assert program.status("cuCtxCreate_v2", out(8), 0, 1) == DEVICE_UNAVAILABLE
    assert second != first


def test_a_running_kernel_ends_with_its_device(start: Start) -> None:
    program = start(TORPOR_SIM_FAULT="cuStreamQuery=lost:0")
    program.start_up()
    module = load(program)
    flag = program.number("cuMemHostAlloc", out(8), 4096, 0)
    stream = program.number("cuStreamCreate", out(8), 1)
    assert launch(program, function(program, module, "wait_for"), u64(flag), stream=stream) == SUCCESS
    assert program.status("cuStreamQuery", stream) == UNKNOWN
    assert program.status("cuStreamSynchronize", stream) == UNKNOWN


@pytest.mark.parametrize("step", ["lock", "checkpoint", "restore", "unlock"])
def test_steps_of_a_checkpoint_fail_in_the_process_itself(start: Start, step: str) -> None:
    job, keeper = start(TORPOR_SIM_FAULT=f"target:{step}=fail:999"), start()
    job.start_up()
    keeper.start_up()
    address = job.allocate(MIB)
    for each in ("Lock", "Checkpoint", "Restore", "Unlock"):
        name = f"cuCheckpointProcess{each}"
        if each.lower() == step:
            assert keeper.status(name, job.pid, None) == 999
        assert keeper.status(name, job.pid, None) == SUCCESS
    assert job.read(address, 1) == b"\0"


@pytest.mark.parametrize(
    "text",
    ["cuMemAlloc", "cuMemAlloc@0=kill", "cuMemAlloc@x=kill", "cuMemAlloc=fail:0", "a=hang:", "a=explode", "a=lost:99"],
)
def test_a_fault_that_cannot_be_understood_ends_the_process(start: Start, text: str) -> None:
    program = start(TORPOR_SIM_FAULT=f"cuInit@9=kill;{text}")
    program.begin("cuInit", 0)
    assert program.process.wait(100) == 127
    assert text in program.end()
