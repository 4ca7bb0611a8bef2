"""Random programs: what the software GPU's executor computes is what the same trees give in numpy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance import gpu
from tests.conformance.random_programs.batches import HEADER
from tests.conformance.random_programs.generator import Generator, inputs
from tests.conformance.random_programs.trees import THREADS, Program
from tests.native.ptx.bridge import Buffer, Module


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Every choice of the generator is one that hypothesis can make smaller."""
    return Generator(lambda below: draw(st.integers(0, below - 1))).program()


@settings(max_examples=15, deadline=None)
@given(program=programs(), seed=st.integers(0, 1000))
def test_programs_compute_what_their_trees_say(program: Program, seed: int) -> None:
    words = inputs(f"drawn {seed}")
    module = Module(gpu.ptx(HEADER + program.cpp("k")).rstrip(b"\0").decode())
    result = Buffer(bytes(8 * THREADS))
    assert module.run("k", result, Buffer(words), block=THREADS).fault == "none"
    assert result.read("Q") == list(memoryview(program.evaluate(words)).cast("Q"))
