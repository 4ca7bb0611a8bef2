"""Programs with deferred calls and answered questions print, to the bit, what they print natively."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import torpor
from tests.gpu.conftest import Reference, wait_for_line
from tests.gpu.test_same_results import COMPILED, COUNT, CUPY, GENERATE, JAX, TRAIN, TUNED, finish
from tests.vm.test_deferred_flows import hello

# count.py makes no call that can wait, and asks nothing twice.
PROGRAMS = [
    (TRAIN, "step 20 "), (JAX, "step 30 "), (CUPY, "step 30 "), (COUNT, "count 20"), (GENERATE, "round 2 "),
    (COMPILED, "step 30 "), (TUNED, "step 10 "),
]  # fmt: skip
IDS = ["torch", "jax", "cupy", "count", "generate", "compile", "triton"]


@pytest.mark.parametrize("level", ["always", "always-full"])
@pytest.mark.parametrize(("argv", "at"), PROGRAMS, ids=IDS)
def test_killed_and_restored(
    start: Callable[..., torpor.Job], reference: Reference, argv: list[str], at: str, level: str
) -> None:
    expected = reference(argv)
    job = start(argv, env={"TORPOR_VM": level})
    wait_for_line(job, at)
    assert argv == COUNT or sum(vm["deferred"] for vm in hello(job)) > 0
    finish(torpor.restore(job.checkpoint(tier="dram")), expected)


@pytest.mark.parametrize(("argv", "at"), PROGRAMS, ids=IDS)
def test_no_answer_is_wrong(start: Callable[..., torpor.Job], reference: Reference, argv: list[str], at: str) -> None:
    """The driver is asked each time, and what we would have said compared."""
    expected = reference(argv)
    job = start(argv, env={"TORPOR_VM": "check"})
    wait_for_line(job, at)
    found = hello(job)
    assert argv == COUNT or sum(vm["answered"] for vm in found) > 0
    assert sum(vm["wrong"] for vm in found) == 0
    finish(job, expected)
