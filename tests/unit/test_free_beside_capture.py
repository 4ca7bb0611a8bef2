"""cuMemFree waits for all work of its context; a capture that begins meanwhile in another thread would not bear it."""

from __future__ import annotations

from pathlib import Path

from tests.native.arena.harness import MIB, SUCCESS, Program, environment, out

RELAXED = 2


def begun(folder: Path, **env: str) -> Program:
    program = Program(folder, environment, **env)
    program.context = program.start_up()  # type: ignore[attr-defined]
    return program


def elsewhere(program: Program, name: str, *args: object) -> int:
    return program.begin(name, *args, first=[("cuCtxSetCurrent", program.context)])  # type: ignore[attr-defined]


def test_a_capture_that_begins_waits_for_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program = begun(tmp_path, TORPOR_SIM_FAULT=f"cuCtxSynchronize@1=hang:{gate}")
    memory, other = program.allocate(MIB), program.allocate(MIB)
    stream = program.number("cuStreamCreate", out(8), 1)
    freeing = elsewhere(program, "cuMemFree_v2", memory)
    assert not program.finish(freeing, 0.3)["done"]  # time to get there; whoever comes first, both succeed
    beginning = elsewhere(program, "cuStreamBeginCapture_v2", stream, RELAXED)
    program.finish(beginning, 0.1)
    later = elsewhere(program, "cuMemFree_v2", program.number("cuMemAlloc_v2", out(8), MIB))
    gate.touch()
    assert program.finish(freeing)["result"] == SUCCESS
    assert program.finish(beginning)["result"] == SUCCESS
    assert program.finish(later)["result"] == SUCCESS
    program.ok("cuMemsetD8Async", other, 7, MIB, stream)
    graph = program.number("cuStreamEndCapture", stream, out(8))
    ready = program.number("cuGraphInstantiateWithFlags", out(8), graph, 0)
    program.ok("cuGraphLaunch", ready, stream)
    program.ok("cuStreamSynchronize", stream)
    assert program.read(other, MIB) == b"\7" * MIB
    program.end()
