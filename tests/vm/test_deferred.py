"""Deferred calls: the same statuses and the same memory as natively, whatever the order of calls and threads."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance import themes
from tests.conformance.comparison import differences
from tests.conformance.runner import run_theme
from tests.conformance.test_recorded import DIFFERENT, THEMES, recording
from tests.native.arena.harness import environment
from tests.native.compiled import compiled
from tests.vm.many import all_hold
from tests.vm.processes import execute, native_environment
from tests.vm.world import BUFFERS, STREAMS, WORDS

buffers, streams = st.integers(0, BUFFERS - 1), st.integers(0, STREAMS - 1)
words, small = st.integers(0, 2**32 - 1), st.integers(1, 255)
STEPS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "mix": (buffers, st.integers(1, 3), st.sampled_from([32, 64]), words, small, words),
    "wide": (buffers, small),
    "huge": (buffers, small),
    "shared": (buffers, st.sampled_from([1024, 60000])),
    "shared_limit": (st.sampled_from([1024, 60000, 1 << 20]),),
    "none": (streams,),
    "clusters": (streams, st.integers(0, 3)),
    "too_wide": (streams,),
    "no_grid": (streams,),
    "fill": (buffers, st.integers(0, 2000), small, words),
    "fill_bytes": (buffers, st.integers(0, 8000), st.integers(0, 192), small),
    "fill_nowhere": (streams,),
    "fill_askew": (buffers,),
    "bad_cluster": (streams,),
    "copy": (buffers, buffers, st.integers(1, 2048)),
    "graph": (buffers,),
    "elsewhere": (words.filter(lambda value: value < 2**32 - 3),),
    "renew_graph": (buffers,),
    "hand": (buffers, streams),
    "mark": (streams, streams, st.integers(1, 3)),
    "await_own": (streams, streams),
    "put": (buffers, st.integers(1, WORDS), words),
    "get": (buffers, st.integers(1, WORDS), st.booleans()),
    "renew_event": (streams,),
    "renew_stream": (streams,),
    "bad_stream": (streams,),
    "bad_graph": (buffers,),
    "bad_event": (streams,),
    "bad_function": (streams,),
    "renew_module": (),
    "renew_buffer": (buffers,),
    "ask": (streams,),
    "wait": (streams,),
    "read": (buffers,),
}
OFTEN = ("mix", "wide", "none", "fill", "copy", "graph", "hand", "put", "mark", "await_own")
"""What is deferred; the queue has to get long before something else empties it."""

thread = st.integers(0, 1)


def step(name: str) -> st.SearchStrategy[list[Any]]:
    return st.tuples(thread, st.just(name), *STEPS[name]).map(list)


steps = st.one_of(*(step(name) for name in (*STEPS, *OFTEN * 4)))
ending = st.lists(step("none"), max_size=3).map(lambda last: [*last, [0, "stray", 1]])
programs = st.tuples(
    st.lists(st.lists(steps, min_size=5, max_size=40), min_size=1, max_size=8), st.none() | ending
).map(
    lambda both: [
        *both[0],
        *([both[1]] if both[1] else []),
    ]  # whatever comes after the loss of the context comes too late
)


def run(given: Any, env: dict[str, str]) -> dict[str, Any]:
    done = execute("calls", given, env)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def natively(given: Any) -> Any:
    return _natively(json.dumps(given))


@cache
def _natively(given: str) -> Any:
    return run(json.loads(given), native_environment())["said"]


def compare(folder: Path, given: Any, setting: str = "always") -> dict[str, int]:
    """What was deferred while the results were those of a native run."""
    expected = natively(given)
    found = run(given, environment(folder, TORPOR_VM=setting))
    assert found["said"] == expected
    counts: dict[str, int] = found["vm"]
    return counts


def quickly(examples: int) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=slow)


@given(given=programs)
@quickly(8)
def test_random_programs(tmp_path: Path, given: Any) -> None:
    compare(tmp_path, given)


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("level", ["always", "always-full"])
def test_thousands_of_random_programs(tmp_path: Path, level: str) -> None:
    assert all_hold(lambda given: compare(tmp_path, given, level), programs, 700) > 2000


LOOP = [
    [0, "mix", 0, 2, 64, 3, 5, 1 << 40],
    [0, "wide", 0, 9],
    [0, "fill", 0, 5, 7, 3],
    [0, "graph", 1],
    [0, "copy", 1, 2, 64],
]


def test_a_loop_is_deferred_and_its_first_round_is_not(tmp_path: Path) -> None:
    counts = compare(tmp_path, [[*LOOP * 40, [0, "read", 0]]])
    assert counts["deferred"] == 39 * len(LOOP) + 2  # the first fill and copy need no more than a fill before has shown
    assert counts["straight"] >= len(LOOP) - 1
    assert counts["submitting_ns"] > 0


BAD = (
    *(["too_wide", 1], ["no_grid", 1], ["shared", 0, 60000], ["fill_nowhere", 1]),
    *(
        ["fill_askew", 0],
        ["bad_cluster", 1],
        ["bad_stream", 1],
        ["bad_graph", 1],
        ["bad_event", 1],
        ["bad_function", 1],
    ),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[0])
def test_a_bad_call_is_refused_at_once_after_good_ones(tmp_path: Path, bad: list[Any]) -> None:
    good = [[0, "none", 1], [0, "shared", 0, 1024], [0, "fill", 0, 1, 9, 9]]
    compare(tmp_path, [[*good * 3, [0, *bad], *good]])


def test_nothing_is_deferred_unless_asked_for(tmp_path: Path) -> None:
    assert set(compare(tmp_path, [LOOP * 5], "off").values()) == {0}
    assert set(compare(tmp_path, [LOOP * 5], "").values()) == {0}


@pytest.mark.parametrize("level", ["answers", "defer", "full"])
def test_nothing_is_deferred_on_one_processor(tmp_path: Path, level: str) -> None:
    usable = os.sched_getaffinity(0)
    expected = natively([LOOP * 40])
    os.sched_setaffinity(0, {min(usable)})
    try:
        found = run([LOOP * 40], environment(tmp_path, TORPOR_VM=level))
    finally:
        os.sched_setaffinity(0, usable)
    assert found["said"] == expected
    assert found["vm"]["deferred"] == 0


def test_it_is_compared_with_not_deferring() -> None:
    subprocess.run([compiled("tests/native/interposer/comparison_test.cpp")], check=True)


def test_who_sleeps_until_there_is_room_depends_on_no_later_step() -> None:
    subprocess.run([compiled("tests/native/interposer/sleepers_test.cpp")], check=True, timeout=100)


def test_what_is_set_already_is_dropped(tmp_path: Path) -> None:
    asked = [[0, "shared_limit", 60000], [0, "shared", 1, 60000]]
    assert compare(tmp_path, [asked * 6])["dropped"] == 5
    other = [[0, "shared_limit", 1024], [0, "shared", 1, 60000]]  # the second is refused again
    assert compare(tmp_path, [[*asked, *other] * 3])["dropped"] == 0


def test_a_grid_counts_for_a_kernel_with_clusters(tmp_path: Path) -> None:
    turns = [[0, "clusters", 1, grid] for grid in (1, 2, 3) * 10]
    counts = compare(tmp_path, [turns])
    assert counts["deferred"] == 27
    assert compare(tmp_path, [[[0, "none", 1]] * 30])["straight"] == counts["straight"] - 2


def test_two_threads_keep_their_order(tmp_path: Path) -> None:
    alternating = [[turn % 2, "mix", 0, 1, 32, 3, turn % 200, turn] for turn in range(300)]
    counts = compare(tmp_path, [[*alternating, [1, "read", 0]]])
    assert counts["deferred"] >= 298


def test_two_contexts_keep_their_work(tmp_path: Path) -> None:
    turns = [[0, "elsewhere", 7], [0, "mix", 0, 1, 32, 3, 4, 5], [1, "elsewhere", 9], [1, "fill", 1, 0, 9, 9]]
    assert compare(tmp_path, [turns * 10])["deferred"] >= 60


def test_a_lost_context_is_told_as_natively(tmp_path: Path) -> None:
    compare(tmp_path, [LOOP, [*([0, "none", 1] for _ in range(4)), [0, "stray", 1]]])


BY_THE_ARENA = {
    "contexts/handles_between_processes": ("Refused: cuIpcGetMemHandle",),  # a job has what it takes
    "memory_calls/copies": ("past the end",),  # a block is larger than what was asked for
    "memory_calls/fills": ("too long",),
    "memory_calls/two_dimensions": ("{'Height': 9}", "{'srcY': 6}"),
    "memory_calls/device_pointer_attributes": ("IS_GPU_DIRECT_RDMA_CAPABLE",),
}


ARITHMETIC = {
    *("approximate", "bits", "control", "conversions", "float32", "float64", "fused", "halves", "integer", "nans"),
    *("instructions", "special", "video", "warps"),
}
"""What kernels compute, however they were launched."""


@pytest.mark.parametrize("level", ["always", pytest.param("always-full", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "theme", [pytest.param(one, marks=[pytest.mark.full] if one in ARITHMETIC else []) for one in THEMES]
)
def test_what_an_h200_gave_natively(theme: str, level: str, tmp_path: Path) -> None:
    """The conformance set with everything deferred that can be: bytes, statuses, lost contexts."""
    env = environment(tmp_path, TORPOR_VM=level)
    del env["TORPOR_JOB_DIR"]  # many processes
    forms = {case.name: case.form for case in themes.of_theme(theme)}
    wrong = {}
    for name, outcome in run_theme(theme, env).items():
        expected = recording(theme)[name]
        known = (*DIFFERENT.get(f"{theme}/{name}", ()), *BY_THE_ARENA.get(f"{theme}/{name}", ()))
        lines = [line for line in differences(forms[name], expected, outcome) if not line.startswith(known or ("\0",))]
        if lines:
            wrong[name] = lines
    assert not wrong, wrong
