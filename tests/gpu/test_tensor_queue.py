"""Tensors that go through queues between processes: memory and events by IPC handle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor
from tests.gpu.conftest import Reference, output, wait_for_line

Start = Callable[[list[str]], torpor.Job]

PROGRAM = [sys.executable, str(Path(__file__).with_name("tensor_queue.py"))]


@pytest.mark.parametrize("way", ["undisturbed", "restore", "suspend"])
def test_both_processes_go_on(start: Start, reference: Reference, way: str) -> None:
    expected = reference(PROGRAM)
    job = start(PROGRAM if way == "undisturbed" else [*PROGRAM, "--delay", "0.05"])
    for line in ("round 5 ", "round 15 ") if way != "undisturbed" else ():
        wait_for_line(job, line)
        if way == "restore":
            job = torpor.restore(job.checkpoint(tier="dram"))
        else:
            job.suspend(tier="dram")
            job.resume()
    assert job.wait(timeout=120), output(job)[-2000:]
    assert output(job) == expected
    assert job.exit_code == 0
