"""Fault points: what the list says, when they strike, and that nothing happens without one."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from torpor.errors import Cancelled, StepFailed, UsageError
from torpor.keeper import fault
from torpor.keeper.fault import Fault, Faults, parse
from torpor.keeper.report import Report


def test_a_list_is_read_as_it_is_written() -> None:
    assert parse("release=kill; criu dump:end@2+=fail:28;commit=fail;thaw@3=hang:/tmp/gate") == [
        Fault("release", 1, on=False, kill=True),
        Fault("criu dump:end", 2, on=True, errno=28),
        Fault("commit", 1, on=False, errno=errno.EIO),
        Fault("thaw", 3, on=False, gate=Path("/tmp/gate")),
    ]
    assert parse("") == []


@pytest.mark.parametrize("text", ["commit", "commit=", "commit=explode", "commit@0=kill", "commit@x=fail", "=kill"])
def test_a_list_that_says_nothing_clear_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TORPOR_FAULT"):
        parse(text)


def test_a_fault_strikes_at_its_pass_only() -> None:
    faults = Faults(parse("copy@2=fail:28;commit@2+=fail:30"))
    faults.reach("copy")
    with pytest.raises(OSError, match="No space"):
        faults.reach("copy")
    faults.reach("copy")
    faults.reach("commit")
    for _ in range(2):
        with pytest.raises(OSError, match="Read-only"):
            faults.reach("commit")


def test_a_gate_is_waited_for(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waiting = threading.Thread(target=Faults(parse(f"thaw=hang:{gate}")).reach, args=("thaw",))
    waiting.start()
    while not Path(f"{gate}.reached").exists():
        waiting.join(0.01)
    assert waiting.is_alive()
    gate.touch()
    waiting.join(100)
    assert not waiting.is_alive()


def test_a_phase_is_two_points_and_names_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_FAULT", "export=fail;export:end@1=fail:5")
    fault.arm()
    try:
        report, entered = Report(), []
        for _ in range(2):
            with pytest.raises(StepFailed, match="export failed") as caught, report.phase("export"):
                entered.append(True)
            assert caught.value.step == "export"
        assert len(entered) == 1  # the first failed before its body, the second after it
    finally:
        fault.arm()  # the variable was taken: there are none now
    with report.phase("export"):
        pass


def test_a_flow_is_cancelled_at_its_next_phase_or_bytes_but_not_past_no_return() -> None:
    report = Report()
    with pytest.raises(Cancelled) as caught, report.phase("copy", 100) as phase:
        phase.move(10)
        report.cancel()
        phase.move(10)
    assert caught.value.details["step"] == "copy"
    with pytest.raises(Cancelled), report.phase("commit"):
        raise AssertionError("a cancelled flow begins nothing more")
    with pytest.raises(Cancelled):
        report.no_return()
    late = Report()
    late.no_return()
    late.cancel()
    with late.phase("thaw"):
        pass
