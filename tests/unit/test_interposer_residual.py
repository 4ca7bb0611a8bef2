"""What the interposer reports of a process: live resources that cannot be saved, unknown symbols, who is inside."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.interposer.programs import Programs, programs_fixture
from torpor.errors import FreezeTimeout
from torpor.keeper.control import ControlClient, Hello

programs = programs_fixture()


class Resident:
    """A running `resident` and the keeper's view of it."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        (folder / "ctl").mkdir()
        self.process = subprocess.Popen(
            [programs.linked("resident")],
            env=programs.environment(TORPOR_JOB_DIR=str(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.control_dir = folder / "ctl"
        self.answered()

    def answered(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def do(self, *commands: str) -> None:
        assert self.process.stdin is not None
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            self.answered()

    def control(self) -> ControlClient:
        return ControlClient(self.control_dir, self.process.pid)

    def hello(self) -> Hello:
        with self.control() as control:
            return control.hello()

    def residual(self) -> dict[str, int]:
        """The kinds of which something is alive."""
        return {kind: count for kind, count in self.hello().residual.items() if count}


@pytest.fixture
def resident(programs: Programs, tmp_path: Path) -> Iterator[Resident]:
    running = Resident(programs, tmp_path)
    yield running
    running.process.communicate(timeout=100)
    assert running.process.returncode == 0


@pytest.mark.parametrize(
    ("kind", "make", "count", "end"),
    [
        ("managed", ["managed"], 1, ["managed gone"]),
        ("external", ["external"], 1, ["external gone"]),
        ("ipc_imported", ["ipc"], 2, ["ipc gone"]),
        ("vmm_imported", ["imported"], 1, ["imported released"]),
        ("vmm_imported", ["imported", "imported mapped"], 3, ["imported released", "imported unmapped"]),
        ("multicast", ["multicast"], 1, ["multicast gone"]),
    ],
)
def test_counted_while_alive(resident: Resident, kind: str, make: list[str], count: int, end: list[str]) -> None:
    assert resident.residual() == {}
    resident.do(*make)
    assert resident.residual() == {kind: count}
    resident.do(*end)
    assert resident.residual() == {}


def test_a_mapping_outlives_its_handle(resident: Resident) -> None:
    resident.do("imported", "imported mapped", "imported released")
    assert resident.residual() == {"vmm_imported": 2}
    resident.do("imported unmapped")
    assert resident.residual() == {}


def test_own_mappings_do_not_count(resident: Resident) -> None:
    resident.do("imported", "own mapped")
    assert resident.residual() == {"vmm_imported": 1}


def test_failed_calls_change_nothing(resident: Resident) -> None:
    resident.do("fail", "managed", "external", "imported", "multicast", "capture")
    assert (resident.residual(), resident.hello().capturing) == ({}, 0)
    resident.do("succeed", "external", "fail", "external gone")
    assert resident.residual() == {"external": 1}


def test_captures(resident: Resident) -> None:
    assert resident.hello().capturing == 0
    resident.do("capture", "own capture")
    assert resident.hello().capturing == 2
    resident.do("capture ends", "own capture ends")
    assert resident.hello().capturing == 0


def test_a_failed_end_of_capture(resident: Resident) -> None:
    """An invalidated capture is over although its end reports an error; one refused to this thread goes on."""
    resident.do("capture", "fail", "unfinished", "capture ends")
    assert resident.hello().capturing == 1
    resident.do("finished", "capture ends")
    assert resident.hello().capturing == 0


def test_a_destroyed_stream_captures_no_more(resident: Resident) -> None:
    resident.do("capture", "stream gone")
    assert resident.hello().capturing == 0


def test_unknown_symbols_are_named_once(resident: Resident) -> None:
    assert resident.hello().unknown_symbols == []
    resident.do("unknown")
    assert resident.hello().unknown_symbols == ["cuFarFuture", "cuBrandNewExport"]


def test_a_call_that_does_not_return_is_named(resident: Resident) -> None:
    resident.do("load")
    with resident.control() as control:
        with pytest.raises(FreezeTimeout, match="cuModuleLoadData"):
            control.freeze(0.2)
        assert control.hello().state == "running"
    resident.do("go on")
    with resident.control() as control:
        control.freeze(10.0)
        assert control.hello().state == "frozen"
        control.thaw()


def test_a_freeze_ends_when_those_who_wait_have_left_the_driver(resident: Resident) -> None:
    resident.do("wait")
    with resident.control() as control:
        with pytest.raises(FreezeTimeout, match="cuStreamSynchronize"):
            control.freeze(0.1)
        with ThreadPoolExecutor(1) as pool:
            freeze = pool.submit(control.freeze, 30.0)
            resident.do("go on")
            freeze.result()
        control.thaw()
