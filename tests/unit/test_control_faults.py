"""Freezes and handovers that go wrong: the program runs on, nothing is lost, and the reply says what it was."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import (
    EXPORT,
    FREEZE,
    MIB,
    OUT_OF_MEMORY,
    RELEASE,
    RETURN,
    THAW,
    Control,
    Program,
    close_all,
    out,
    state,
    unchanged,
)

DEADLINE = -3


def late(control: Control) -> dict[str, Any] | None:
    """What a freeze says whose deadline passes; None, and all runs on, when it comes before there is what delays it."""
    status, body, _none = control.request(FREEZE, struct.pack("<I", 50))
    if status == 0:
        control.json(THAW)
        return None
    assert status == DEADLINE, body
    answer: dict[str, Any] = json.loads(body)
    return answer if answer["inside"] or answer["busy"] else None


def test_a_thread_inside_is_named_when_the_deadline_passes(tmp_path: Path) -> None:
    goes_on = tmp_path / "go"
    running = Program(tmp_path, TORPOR_SIM_FAULT=f"cuMemsetD8@1=hang:{goes_on}")
    try:
        context = running.start_up()
        address = running.allocate(4 * MIB)
        thread = running.begin("cuMemsetD8_v2", address, 3, 64, first=[("cuCtxSetCurrent", context)])
        with running.control() as control:
            inside = eventually(lambda: late(control))["inside"]
            assert [each["call"] for each in inside] == ["cuMemsetD8_v2"]
            assert state(control) == "running"
            other = running.allocate(4 * MIB)  # the gate is open again
            goes_on.touch()
            finished = running.finish(thread)
            assert (finished["done"], finished["tid"]) == (True, inside[0]["tid"])
            control.cycle()
        assert running.read(address, 64) == b"\3" * 64
        running.ok("cuMemFree_v2", other)
    finally:
        goes_on.touch()
        running.end()


def test_a_busy_device_is_named_when_the_deadline_passes(tmp_path: Path) -> None:
    goes_on = tmp_path / "go"
    running = Program(tmp_path, TORPOR_SIM_FAULT=f"cuCtxSynchronize@1=hang:{goes_on}")
    try:
        running.start_up()
        address = running.allocate(4 * MIB)
        with running.control() as control:
            for _ in range(2):  # the second waits for the wait that the first left behind
                answer = control.freeze(50, status=DEADLINE)
                assert (answer["inside"], answer["busy"]) == ([], [0])
                assert state(control) == "running"
                running.fill(address, 64, 5)
            goes_on.touch()
            control.cycle()
        assert running.read(address, 64) == b"\5" * 64
    finally:
        goes_on.touch()
        running.end()


def test_an_error_on_the_device_is_reported_and_the_gate_reopens(tmp_path: Path) -> None:
    running = Program(tmp_path, TORPOR_SIM_FAULT="cuCtxSynchronize@1=fail:700")
    try:
        running.start_up()
        address = running.allocate(4 * MIB)
        with running.control() as control:
            answer = control.freeze(status=700)
            assert "CUDA_ERROR_ILLEGAL_ADDRESS" in answer["message"]
            assert state(control) == "running"
            running.fill(address, 64, 5)
            control.cycle()
    finally:
        running.end()


def test_no_memory_for_the_copy_of_a_returned_block(tmp_path: Path) -> None:
    running = Program(tmp_path, TORPOR_SIM_MEMORY="1G")
    try:
        running.start_up()
        running.limit_descriptors(600)  # so few that none is kept
        size = running.number("cuMemGetInfo_v2", out(8), out(8)) // (2 * MIB) // 5 * 3 * 2 * MIB
        address = running.allocate(size)
        for end in (address, address + size - 64):
            running.fill(end, 64, 6)
        with running.control() as control:
            control.cycle()
            control.freeze()
            answer = control.json(EXPORT, struct.pack("<II", 0, 64), status=OUT_OF_MEMORY)
            assert answer["needed"] == size
            assert str(size) in answer["message"]
            assert state(control) == "frozen"
            control.json(THAW)
        for end in (address, address + size - 64):
            assert running.read(end, 64) == b"\6" * 64
        running.ok("cuMemFree_v2", address)
    finally:
        running.end()


@pytest.mark.parametrize(
    "call",
    [
        *("cuMemExportToShareableHandle@2", "cuMemUnmap@2", "cuMemImportFromShareableHandle@2", "cuMemMap@6"),
        # In the second cycle, while a returned block is copied: making, mapping both, copying, swapping.
        *("cuMemCreate@6", "cuMemMap@9", "cuMemMap@10", "cuMemSetAccess@9", "cuMemcpyDtoD@2"),
        *("cuMemUnmap@7", "cuMemMap@11"),
    ],
)
def test_a_driver_call_that_fails_in_the_middle_loses_nothing(tmp_path: Path, call: str) -> None:
    running = Program(tmp_path, TORPOR_SIM_FAULT=f"{call}=fail:999")
    try:
        live = {}
        failures = 0
        running.start_up()
        running.limit_descriptors(600)
        for number in range(4):
            address = running.allocate(4 * MIB)
            running.fill(address, 4 * MIB, number + 1)
            live[address] = (4 * MIB, number + 1)

        def until_done(control: Control, op: int, payload: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
            nonlocal failures
            for _ in range(2):
                status, body, got = control.request(op, payload, fds)
                if status == 0:
                    return body, got
                assert status == 999
                assert got == []
                failures += 1
            raise AssertionError(body)

        for _ in range(2):
            with running.control() as control:
                control.freeze()
                body, exported = until_done(control, EXPORT, struct.pack("<II", 0, 64), [])
                records = [body[8 + i * 32 : 40 + i * 32] for i in range(4)]
                until_done(control, RELEASE, b"", [])
                for record, fd in zip(records, exported, strict=True):
                    until_done(control, RETURN, struct.pack("<I", 1) + record, [fd])
                close_all(exported)
                control.json(THAW)
            assert unchanged(running, live)
        assert failures == 1
        before = running.value("len(open_files())")
        with running.control() as control:
            control.cycle()
        eventually(lambda: running.value("len(open_files())") == before)
    finally:
        running.end()
