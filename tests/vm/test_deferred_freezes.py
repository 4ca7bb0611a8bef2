"""A freeze while the driver takes no more work, and while threads add to the queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, MIB, SUCCESS, Program, environment, state

DEADLINE = -3


@pytest.fixture
def held(tmp_path: Path) -> Path:
    return tmp_path / "held"


@pytest.fixture
def program(tmp_path: Path, held: Path) -> Iterator[Program]:
    """Its driver takes no more work from the first cuMemsetD16Async on, until there is `held`."""
    fault = f"cuMemsetD16Async@1=hang:{held}"
    running = Program(tmp_path, environment, TORPOR_VM="always", TORPOR_SIM_FAULT=fault)
    yield running
    held.touch()
    running.end()


def deferred(control: Any) -> int:
    return int(control.json(HELLO)["vm"]["deferred"])


def test_a_freeze_waits_for_the_queue_until_its_deadline_and_no_longer(program: Program, held: Path) -> None:
    program.start_up()
    address = program.allocate(MIB)
    program.ok("cuMemsetD8Async", address, 1, 64, 0)
    with program.control() as control:
        program.ok("cuMemsetD16Async", address, 2, 8, 0)
        for value in range(100):
            program.ok("cuMemsetD8Async", address + 64, value, 64, 0)
        assert deferred(control) == 101
        answer = control.freeze(200, status=DEADLINE)
        assert "deferred calls" in answer["message"]
        assert state(control) == "running"
        program.ok("cuMemsetD8Async", address + 64, 200, 64, 0)  # the gate is open again
        held.touch()
        records = control.cycle()
        assert records
        assert program.read(address, 65) == b"\2\0" * 8 + b"\1" * 48 + b"\xc8"
        assert program.call("cuCtxSynchronize")[0] == SUCCESS


def test_a_program_that_fills_the_queue_waits_for_room(program: Program, held: Path) -> None:
    calls = 700
    program.start_up()
    address = program.allocate(MIB)
    program.ok("cuMemsetD8Async", address, 1, 64, 0)
    late = f"threading.Timer(0.3, lambda: open({str(held)!r}, 'w')).start()"
    program.execute(f"import threading; {late}")
    program.ok("cuMemsetD16Async", address, 2, 8, 0)
    for number in range(calls):
        program.ok("cuMemsetD8Async", address + 64 + number, number % 251, 1, 0)
    assert program.read(address + 64, calls) == bytes(number % 251 for number in range(calls))
    with program.control() as control:
        vm = control.json(HELLO)["vm"]
        assert vm["deferred"] == calls + 1
        assert vm["deepest"] <= 256


def test_a_thread_that_waits_for_the_queue_comes_through_a_late_freeze(program: Program, held: Path) -> None:
    context = program.start_up()
    address = program.allocate(MIB)
    program.ok("cuMemsetD8Async", address, 1, 64, 0)
    with program.control() as control:
        program.ok("cuMemsetD16Async", address, 2, 8, 0)
        fill = program.begin("cuMemsetD8_v2", address + 64, 7, 64, first=[("cuCtxSetCurrent", context)])
        answer = control.freeze(200, status=DEADLINE)
        assert state(control) == "running"
        assert answer["message"]
        held.touch()
        assert program.finish(fill)["result"] == SUCCESS
        control.cycle()
        assert program.read(address, 65) == b"\2\0" * 8 + b"\1" * 48 + b"\7"
