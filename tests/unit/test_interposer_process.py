"""Children of every kind, the gate, and programs that never use CUDA."""

from __future__ import annotations

import ast

import pytest

from tests.native.interposer.programs import GATE, Programs, programs_fixture

programs = programs_fixture()

LOOK = (
    "import os\n"
    "print(sorted({line.split(maxsplit=5)[5].strip() for line in open('/proc/self/maps') if '.so' in line}))\n"
    "print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')))\n"
)


def test_children(programs: Programs) -> None:
    done = programs.run(programs.linked("children"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("case", ["hammer", "deadline", "slots", "waiting", "overflow", "forked", "handler"])
def test_gate(programs: Programs, case: str) -> None:
    done = programs.run(programs.build("gate_test", *GATE), case)
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_without_cuda_do_not_notice(programs: Programs) -> None:
    """Same libraries but for the interposer, one thread, same descriptors: the real driver is not even opened."""
    with_us = programs.run("python3", "-S", "-c", LOOK)
    plain = programs.environment()
    del plain["LD_PRELOAD"]
    without = programs.run("python3", "-S", "-c", LOOK, environment=plain)
    assert with_us.returncode == without.returncode == 0
    libraries, counts = with_us.stdout.splitlines()
    native_libraries, native_counts = without.stdout.splitlines()
    assert counts == native_counts
    assert set(ast.literal_eval(libraries)) - set(ast.literal_eval(native_libraries)) == {
        str(programs.interposer.resolve())
    }
