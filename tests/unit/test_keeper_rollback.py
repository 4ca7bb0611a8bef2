"""What is undone when a step fails, in which order, and what the error then says."""

from __future__ import annotations

import errno
import threading

import pytest

from torpor.driver.results import failure
from torpor.errors import FreezeTimeout, NoRights, NoSpace, StepFailed, TorporError
from torpor.keeper.rollback import Rollback, each, step


def test_the_last_step_is_undone_first() -> None:
    undone: list[str] = []
    with pytest.raises(StepFailed), Rollback() as undo:
        undo.push("first", lambda: undone.append("first"))
        undo.push("second", lambda: undone.append("second"))
        raise StepFailed(step="third", reason="of a test")
    assert undone == ["second", "first"]


def test_nothing_is_undone_after_the_point_of_no_return() -> None:
    undone: list[str] = []
    with pytest.raises(StepFailed), Rollback() as undo:
        undo.push("first", lambda: undone.append("first"))
        undo.done()
        raise StepFailed(step="later", reason="of a test")
    assert undone == []


def test_a_failing_undo_does_not_stop_the_others_and_is_told() -> None:
    undone: list[str] = []

    def fails() -> None:
        raise TorporError("no way back")

    with pytest.raises(StepFailed) as caught, Rollback() as undo:
        undo.push("first", lambda: undone.append("first"))
        undo.push("second", fails)
        raise StepFailed(step="third", reason="of a test")
    assert undone == ["first"]
    assert "second: no way back" in caught.value.message
    assert "second: no way back" in str(caught.value)
    assert caught.value.details["rollback_failed"] == ["second: no way back"]


def test_a_drivers_error_becomes_a_failed_step_with_its_process() -> None:
    with pytest.raises(StepFailed) as caught, step("driver checkpoint", 300):
        raise failure("cuCheckpointProcessCheckpoint", 801)
    assert caught.value.step == "driver checkpoint"
    assert caught.value.process == 300
    assert "CUDA_ERROR_NOT_SUPPORTED" in caught.value.reason


def test_kinds_that_ask_for_an_action_stay_what_they_are() -> None:
    with pytest.raises(NoSpace) as no_space, step("copy"):
        raise failure("cuMemCreate", 2)
    assert no_space.value.details["step"] == "copy"
    with pytest.raises(FreezeTimeout), step("freeze"):
        raise FreezeTimeout("still busy")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, NoSpace), (errno.EACCES, NoRights), (errno.EIO, StepFailed)]
)
def test_a_systems_error_becomes_ours(number: int, kind: type[TorporError]) -> None:
    with pytest.raises(kind) as caught, step("commit"):
        raise OSError(number, "of a test")
    assert caught.value.details["step"] == "commit"


def test_each_runs_all_at_once_and_lets_all_end() -> None:
    together = threading.Barrier(3, timeout=100)
    ended: list[int] = []

    def one(number: int) -> int:
        together.wait()
        if number == 1:
            raise TorporError("the second")
        ended.append(number)
        return number

    with pytest.raises(TorporError, match="the second"):
        each([0, 1, 2], one)
    assert sorted(ended) == [0, 2]
