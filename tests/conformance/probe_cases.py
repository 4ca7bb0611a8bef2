"""The instructions of tests/native/ptx/probe.py on edge values, as one theme."""

from __future__ import annotations

from functools import partial

from tests.conformance import gpu
from tests.conformance.case import Case, Data, Form, Outcome
from tests.native.ptx.probe import INSTRUCTIONS, THREADS, inputs, text

FORM = Form("u64")


def _run(instruction: str) -> Outcome:
    gpu.start()
    function = gpu.function(gpu.call("cuModuleLoadData", text(instruction).encode() + b"\0"), "k")
    source, target = gpu.Memory(inputs(instruction)), gpu.Memory(bytes(8 * THREADS))
    gpu.launch(function, target, source, block=THREADS)
    data = target.read()
    for memory in (source, target):
        memory.free()
    return Data(FORM, data)


def cases() -> list[Case]:
    return [Case("instructions", instruction, partial(_run, instruction), form=FORM) for instruction in INSTRUCTIONS]
