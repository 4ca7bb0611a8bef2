"""Questions that the job answers itself: always what the driver would say."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.hooks import HOOKS
from api.load import functions
from api.questions import CHANGES, GROUPS, LOOKUPS, QUESTIONS, SETTERS, changes_of
from tests.native.arena.harness import HELLO, THAW, Program, environment, out
from tests.vm.processes import execute, native_environment

numbers, sizes = st.integers(0, 4), st.sampled_from([1024, 4096, 50000, 60000])
STEPS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "create": (),
    "destroy": (),
    "current": (numbers,),
    "push": (numbers,),
    "pop": (),
    "limit": (sizes,),
    "function_attribute": (sizes,),
    "kernel_attribute": (sizes,),
    "reload": (),
    "retain": (),
    "flags": (st.integers(0, 2),),
    "renew_stream": (st.integers(0, 1),),
    "reset": (),
    "begin_capture": (st.integers(0, 2),),
    "end_capture": (),
    "child": (),
    "sleep": (),
    "many": (),
}
FIXED = [
    *([0, "create"], [0, "pop"], [0, "push", 1], [1, "current", 2], [0, "limit", 4096], [1, "limit", 1024]),
    *([0, "function_attribute", 60000], [0, "kernel_attribute", 50000], [1, "destroy"], [0, "current", 1]),
    *([0, "reload"], [0, "retain"], [0, "flags", 1], [0, "renew_stream", 0], [1, "current", 0], [0, "sleep"]),
    *([0, "create"], [0, "destroy"], [0, "create"], [0, "child"], [1, "current", 1], [0, "reset"], [1, "current", 1]),
    *([0, "begin_capture", 2], [1, "end_capture"], [1, "begin_capture", 1], [0, "renew_stream", 1], [0, "current", 1]),
    *([1, "sleep"], [0, "current", 1], [1, "function_attribute", 1024], [0, "destroy"], [1, "pop"]),
    *([1, "current", 1], [1, "function_attribute", 1024], [1, "current", 0], [1, "function_attribute", 1024]),
    *(
        [0, "current", 1],
        [0, "create"],
        [0, "push", 0],
        [0, "push", 1],
        [0, "current", 0],
        [0, "current", 0],
        [0, "many"],
    ),
]


def run(steps: Any, env: dict[str, str]) -> dict[str, Any]:
    done = execute("asking", steps, env, "-W", "ignore::DeprecationWarning")  # a fork beside threads
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def natively(steps: Any) -> Any:
    return _natively(json.dumps(steps))


@cache
def _natively(steps: str) -> Any:
    return run(json.loads(steps), native_environment())["said"]


@pytest.mark.parametrize("setting", ["answers", "check", "always", "off"])
def test_after_every_change(tmp_path: Path, setting: str) -> None:
    found = run(FIXED, environment(tmp_path, TORPOR_VM=setting))
    assert found["said"] == natively(FIXED)
    assert found["vm"]["wrong"] == 0
    asked = len(found["said"]) * 3 * len(QUESTIONS)
    assert (found["vm"]["answered"] > asked / 5) == (setting != "off")


def test_every_change_is_in_the_walk() -> None:
    """A group without a step that changes it would be one that nobody tested."""
    assert {step[1] for step in FIXED} == set(STEPS)
    assert {group for groups, _ in CHANGES for group in groups} == set(GROUPS)


step = st.one_of(*(st.tuples(st.integers(0, 1), st.just(name), *more).map(list) for name, more in STEPS.items()))


@given(steps=st.lists(step, max_size=30))
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_changes(tmp_path: Path, steps: list[Any]) -> None:
    assert run(steps, environment(tmp_path, TORPOR_VM="answers"))["said"] == natively(steps)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(steps=st.lists(step, max_size=60))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_random_changes(tmp_path: Path, steps: list[Any]) -> None:
    assert run(steps, environment(tmp_path, TORPOR_VM="answers"))["said"] == natively(steps)


def test_while_a_job_is_frozen_the_driver_answers(tmp_path: Path) -> None:
    program = Program(tmp_path, environment, TORPOR_VM="answers")
    program.start_up()
    with program.control() as control:

        def answered() -> int:
            """Of some hundred questions; they are counted 64 at a time."""
            before = control.json(HELLO)["vm"]["answered"]
            for _ in range(256):
                program.ok("cuDeviceGetCount", out(4))
            return int(control.json(HELLO)["vm"]["answered"] - before)

        assert answered() > 0
        control.freeze()
        assert answered() == 0
        control.json(THAW)
        assert answered() > 0
    program.end()


def test_flags_of_the_primary_context_are_asked_for_when_its_flags_were_set(tmp_path: Path) -> None:
    """Whether the one changes the other is for the driver to say."""
    initialised, asking = 3, ("cuDevicePrimaryCtxGetState", 0, out(4), out(4))
    program = Program(tmp_path, environment, TORPOR_VM="answers", TORPOR_SIM_FAULT=f"{asking[0]}@2=fail:{initialised}")
    program.start_up()
    for _ in range(3):
        program.ok(*asking)
    program.ok("cuCtxSetFlags", 2)
    assert program.call(*asking)[0] == initialised
    program.end()


def test_questions_are_what_the_generator_can_answer() -> None:
    known = {function.name: function.params for function in functions()}
    for symbol, groups in QUESTIONS.items():
        params = known[symbol]
        assert params is not None
        assert symbol not in HOOKS  # such a body decides by itself
        assert set(groups) <= set(GROUPS)
        assert "context" in groups  # what a sleep changes
        assert not changes_of(symbol)
        assert sum("*" in param for param in params) in (1, 2)
        assert not any(
            re.search(r"\*\*|\[|const (?!char)", param.replace("const char **", "char *")) for param in params
        )
    for symbol, groups in LOOKUPS.items():
        assert symbol in HOOKS
        assert "context" in groups
        assert not changes_of(symbol)
    for symbol, groups in SETTERS.items():
        assert changes_of(symbol) == ("function",)
        assert {"function", *QUESTIONS[re.sub("Set.*", "GetAttribute", symbol)]} <= set(groups) <= set(GROUPS)
    for _, pattern in CHANGES:
        assert any(re.fullmatch(pattern, symbol) for symbol in known), pattern
