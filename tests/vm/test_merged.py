"""Work that repeats is launched as graphs: bytes and statuses of a native run, whatever becomes of the graphs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native.arena.harness import environment
from tests.native.compiled import compiled
from tests.vm.many import all_hold
from tests.vm.test_deferred import buffers, natively, quickly, run, step, steps, thread, words
from tests.vm.world import BUFFERS

kinds = st.tuples(st.integers(0, 9), buffers, st.integers(1, 2)).map(list)
MOST = 200  # calls that fit into the queue besides the one that keeps the driver


def repeated(kind: list[list[int]], times: int, seed: int, apart: bool, who: int) -> list[Any]:
    return [who, "rounds", kind, max(2, min(times, MOST // (len(kind) + 1))), seed, apart]


sequences = st.lists(kinds, min_size=1, max_size=12)
rounds = st.builds(repeated, sequences, st.integers(2, 30), words, st.sampled_from([False, False, True]), thread)


def at_once(kind: list[list[list[int]]], times: int, seed: int, who: int) -> list[Any]:
    mine = [[[number, buffer, shape] for number, _, shape in each] for buffer, each in enumerate(kind)]
    return [who, "together", mine, max(2, min(times, MOST // sum(map(len, mine)))), seed]


threads = st.builds(
    at_once,
    st.lists(st.lists(kinds, min_size=1, max_size=6), min_size=2, max_size=BUFFERS),
    st.integers(2, 30),
    words,
    thread,
)
between = st.one_of(
    steps, *[step(name) for name in ("renew_module", "renew_stream", "shared_limit", "renew_graph", "hand", "hand")]
)
parts = st.tuples(st.lists(between, max_size=5), st.one_of(rounds, rounds, threads)).map(
    lambda both: [*both[0], both[1]]
)
programs = st.lists(
    st.lists(parts, min_size=1, max_size=5).map(lambda program: [each for part in program for each in part]),
    min_size=1,
    max_size=4,
)


def slow(folder: Path, setting: str, *faults: str) -> dict[str, str]:
    """A driver that can be kept from taking work, and fails as the faults say."""
    held = folder / "held"
    fault = ";".join([f"cuMemsetD16Async@1+=hang:{held}", *faults])
    held.touch()
    return environment(folder, TORPOR_VM=setting, TORPOR_TEST_HELD=str(held), TORPOR_SIM_FAULT=fault)


def compare(folder: Path, given_: Any, setting: str = "always-full", *faults: str) -> dict[str, int]:
    found = run(given_, slow(folder, setting, *faults))
    assert found["said"] == natively(given_)
    counts: dict[str, int] = found["vm"]
    return counts


@given(given_=programs)
@quickly(5)
def test_random_rounds(tmp_path: Path, given_: Any) -> None:
    compare(tmp_path, given_)


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_thousands_of_random_rounds(tmp_path: Path) -> None:
    assert all_hold(lambda given_: compare(tmp_path, given_), programs, 1000) > 2000


CHAIN = [[0, 1, 1], [1, 1, 1], [2, 1, 1], [0, 1, 2], [1, 1, 1], [0, 1, 1], [2, 1, 1], [0, 1, 2], [1, 1, 1], [0, 1, 1]]
"""Ten launches on one stream."""
ROUNDS = [[0, "hand", 1, 1], [0, "rounds", CHAIN, 20, 7, False], [0, "read", 1]]


MOVES = [[0, 1, 1], [3, 1, 1], [4, 0, 1], [4, 1, 2], [0, 2, 1], [5, 1, 1], [6, 2, 2], [8, 0, 1], [4, 2, 1], [1, 0, 1]]
"""What fills and copies takes or gives to what comes before and after it."""


def moving(kind: list[list[int]], rounds: int = 20) -> list[Any]:
    return [0, "rounds", kind, rounds, 7, False]


@pytest.mark.parametrize("stream", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_chain_of_ten_is_merged(tmp_path: Path, stream: int) -> None:
    counts = compare(tmp_path, [[[0, "hand", 1, stream], *ROUNDS[1:]] * 3])
    assert counts["merged"] > 200
    assert counts["merged"] >= counts["merged_graphs"] * 4
    assert counts["fallbacks"] == 0


def test_a_chain_is_merged_without_haste(tmp_path: Path) -> None:
    """As a program gets it, not a test: the graph is made when it has been worth it eight times.

    With fewer calls than a judgement takes, after which all might go straight where the machine is busy.
    """
    counts = compare(tmp_path, [ROUNDS * 2], "full")
    assert 0 < counts["merged"] < 2 * 20 * len(CHAIN) - 80


@pytest.mark.parametrize(
    "kind", [MOVES, [[4, 0, 1]] * 3, [[5, 1, 1]] * 3, [[6, 1, 1]], [[3, 1, 1], [8, 0, 2]]], ids=str
)
def test_fills_and_copies_are_merged(tmp_path: Path, kind: list[list[int]]) -> None:
    """Also where each reads what the one before it has written, and where no copy is as long as the one before it."""
    counts = compare(tmp_path, [[moving(kind), moving(kind), [0, "read", 0]]])
    assert counts["merged"] >= 20 * len(kind)
    assert counts["merged"] >= counts["merged_graphs"] * 4
    assert counts["fallbacks"] == 0


def test_a_copy_onto_itself_is_not_merged(tmp_path: Path) -> None:
    assert compare(tmp_path, [[moving([[7, 0, 1]]), moving([[7, 0, 1]])]])["merged"] == 0


def test_a_launch_with_attributes_is_not_merged(tmp_path: Path) -> None:
    """A kernel in a graph has attributes of its own."""
    counts = compare(tmp_path, [[moving([[9, 0, 1]]), moving([[9, 0, 1], [2, 0, 1]])]])
    assert counts["deferred"] > 50
    assert counts["merged"] == 0


@pytest.mark.parametrize("renewed", [False, True])
def test_a_copy_of_other_memory_is_told_to_the_driver(tmp_path: Path, renewed: bool) -> None:
    """A graph may know more of memory than its address."""
    renew = [[0, "renew_memory", 0]] if renewed else []
    copies = [[4, 0, 1]]
    program = [moving(copies), *renew, moving(copies)]
    counts = compare(tmp_path, [program], "always-full", "cuGraphExecMemcpyNodeSetParams@1+=fail:1")
    assert counts["merged"] > 0
    assert (counts["fallbacks"] > 0) == renewed


def test_a_graph_is_compared_with_what_its_calls_usually_take() -> None:
    subprocess.run([compiled("tests/native/interposer/bargain_test.cpp")], check=True)


def test_nothing_is_merged_unless_asked_for(tmp_path: Path) -> None:
    assert compare(tmp_path, [ROUNDS], "always")["merged"] == 0


OFTEN_REFUSED = ("cuGraphAddKernelNode@2+=fail:1", "cuGraphExecKernelNodeSetParams@3=fail:1", "cuGraphLaunch@4=fail:1")
REFUSED = (
    "cuGraphCreate@1+=fail:2",
    "cuGraphInstantiateWithFlags@4+=fail:801",
    "cuGraphExecKernelNodeSetParams@1+=fail:1",
    "cuThreadExchangeStreamCaptureMode@1+=fail:1",
)
MOVES_REFUSED = ("cuGraphAddMemsetNode@1+=fail:1", "cuGraphExecMemcpyNodeSetParams@3=fail:1")
MOVES_OFTEN_REFUSED = ("cuGraphAddMemcpyNode@2=fail:1", "cuGraphExecMemsetNodeSetParams@2=fail:1")
REFUSALS = [*OFTEN_REFUSED, *(pytest.param(fault, marks=pytest.mark.full) for fault in REFUSED)]


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_refused_graph_loses_and_doubles_nothing(tmp_path: Path, fault: str) -> None:
    counts = compare(tmp_path, [[ROUNDS[0], *ROUNDS[1:] * 3]], "always-full", fault)
    assert counts["fallbacks"] > 0


@pytest.mark.parametrize(
    "fault", [*MOVES_REFUSED, *(pytest.param(fault, marks=pytest.mark.full) for fault in MOVES_OFTEN_REFUSED)]
)
def test_refused_fills_and_copies_are_neither_lost_nor_doubled(tmp_path: Path, fault: str) -> None:
    counts = compare(tmp_path, [[moving(MOVES), moving(MOVES)]], "always-full", fault)
    assert counts["fallbacks"] > 0


def test_a_changed_module_is_a_new_chain(tmp_path: Path) -> None:
    program = [ROUNDS[0], *[*ROUNDS[1:], [0, "renew_module"]] * 4]
    assert compare(tmp_path, [program])["merged"] > 0


@pytest.mark.parametrize("hands", [[], [[0, "hand", 0, 1], [0, "hand", 1, 2]]], ids=["one stream", "two streams"])
def test_threads_merge_side_by_side(tmp_path: Path, hands: list[Any]) -> None:
    """What each made comes in its order, whatever was made between."""
    mine = [[[number, buffer, 1] for number in (0, 3, 4, 1)] for buffer in (0, 1)]
    counts = compare(tmp_path, [[*hands, *[[0, "together", mine, 20, 3]] * 3, [0, "read", 0], [0, "read", 1]]])
    assert counts["deferred"] > 400


@pytest.mark.full
def test_streams_do_not_share_a_graph(tmp_path: Path) -> None:
    """Launches of one graph come one after the other, and the streams would wait for each other."""
    mixed = [[index % 2, index % BUFFERS, 1] for index in range(9)]
    program: list[Any] = [[0, "hand", 1, 1], [0, "hand", 2, 2]]
    program += [[0, "rounds", mixed, 15, 5, False], [0, "rounds", mixed, 15, 6, True]]
    compare(tmp_path, [program * 2])
    one_after_the_other = [[0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 2, 1], [1, 2, 1]]
    counts = compare(tmp_path, [[*program[:2], [0, "rounds", one_after_the_other, 20, 5, False]]])
    assert counts["merged"] > 0


@pytest.mark.full
def test_a_lost_context_is_told_as_natively(tmp_path: Path) -> None:
    compare(tmp_path, [[*ROUNDS, [0, "stray", 1]]])
