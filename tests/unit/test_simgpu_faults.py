"""Faults on demand: TORPOR_SIM_FAULT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.simgpu.program import INVALID_VALUE, MIB, OUT_OF_MEMORY, SUCCESS, Start, out, programs_fixture

start = programs_fixture()


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
    program = start(TORPOR_SIM_FAULT="cuArrayCreate=fail:218")
    program.start_up()
    assert program.status("cuArrayCreate_v2", out(8), out(8)) == 218
    assert program.status("cuArrayCreate_v2", out(8), out(8)) == 801


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
    assert program.process.wait(30) == -9


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
    "text", ["cuMemAlloc", "cuMemAlloc@0=kill", "cuMemAlloc@x=kill", "cuMemAlloc=fail:0", "a=hang:", "a=explode"]
)
def test_a_fault_that_cannot_be_understood_ends_the_process(start: Start, text: str) -> None:
    program = start(TORPOR_SIM_FAULT=f"cuInit@9=kill;{text}")
    program.begin("cuInit", 0)
    assert program.process.wait(30) == 127
    assert text in program.end()
