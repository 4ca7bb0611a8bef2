"""The error tree: its drawing, its codes, its way over a socket, and the guide that lists the exit codes."""

from __future__ import annotations

import json
import re

import pytest

from tests.conftest import REPOSITORY
from torpor import errors
from torpor.errors import StepFailed, TorporError, every_error


def drawn() -> dict[str, int]:
    """Class → exit code as the module's docstring draws them."""
    lines = re.findall(r"^[ │├└─]*(\w+)\s+(\d+)\s", errors.__doc__ or "", re.MULTILINE)
    return {name: int(code) for name, code in lines}


def own_errors() -> list[type[TorporError]]:
    return [cls for cls in every_error() if cls.__module__ == "torpor.errors"]


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {cls.__name__: cls.code for cls in own_errors()}


def test_kinds_are_unique() -> None:
    kinds = [cls.kind for cls in own_errors()]
    assert len(set(kinds)) == len(kinds)


def test_no_code_is_one_that_a_job_ends_with_by_a_shell() -> None:
    assert {cls.code for cls in own_errors()}.isdisjoint({0, errors.AWAY, *range(126, 256)})


@pytest.mark.parametrize("cls", [cls for cls in own_errors() if cls is not StepFailed])
def test_an_error_comes_out_of_json_as_it_went_in(cls: type[TorporError]) -> None:
    error = cls("it broke", hint="mend it", details={"bytes": 3})
    back = TorporError.from_dict(json.loads(json.dumps(error.to_dict())))
    assert type(back) is cls
    assert (back.message, back.hint, back.details) == ("it broke", "mend it", {"bytes": 3})
    assert str(back) == "it broke"


def test_a_failed_step_keeps_step_process_and_reason() -> None:
    error = StepFailed(step="criu dump", process=300, reason="no memory")
    back = TorporError.from_dict(json.loads(json.dumps(error.to_dict())))
    assert isinstance(back, StepFailed)
    assert (back.step, back.process, back.reason) == ("criu dump", 300, "no memory")
    assert back.message == "criu dump failed (process 300): no memory"


def test_a_special_case_crosses_as_its_parent() -> None:
    class Special(errors.NotFound):
        pass

    assert type(TorporError.from_dict(Special("gone").to_dict())) is errors.NotFound


def test_an_unknown_kind_is_still_an_error() -> None:
    back = TorporError.from_dict({"kind": "from-the-future", "message": "new trouble"})
    assert type(back) is TorporError
    assert back.message == "new trouble"


def test_the_guide_lists_every_exit_code() -> None:
    guide = (REPOSITORY / "docs/guide/exit-codes.md").read_text()
    listed = {(int(code), kind) for code, kind in re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", guide, re.MULTILINE)}
    assert listed == {(cls.code, cls.kind) for cls in own_errors()}
    plain = {int(code) for code in re.findall(r"^\| (\d+) \|", guide, re.MULTILINE)}
    assert {0, errors.AWAY, errors.COMMAND_NOT_EXECUTABLE, errors.COMMAND_NOT_FOUND} <= plain
