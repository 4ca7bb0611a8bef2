"""Many threads at work while the job is frozen and its blocks are moved, again and again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import FREEZE, HELLO, THAW, Control, environment, libraries
from tests.native.compiled import compiled

THREADS = 32
CYCLES = 50


@pytest.fixture
def stress(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The stress program, running under the interposer on the software GPU."""
    binary = compiled("tests/native/arena/stress.cpp", libraries()[0])
    running = subprocess.Popen(
        [str(binary), str(THREADS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    yield running
    running.kill()
    running.communicate()


def rounds(running: subprocess.Popen[bytes]) -> int:
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b"?")
    running.stdin.flush()
    return int(running.stdout.readline())


def advanced(running: subprocess.Popen[bytes], before: int) -> bool:
    return rounds(running) > before


def test_bytes_survive_while_threads_work(stress: subprocess.Popen[bytes], tmp_path: Path) -> None:
    socket = tmp_path / "ctl" / str(stress.pid)
    eventually(socket.exists)
    moved = 0
    for cycle in range(CYCLES):
        before = rounds(stress)
        with Control(socket) as control:
            moved += len(control.cycle())
            if cycle % 10 == 9:  # and a keeper that gives up half-way
                control.freeze()
                control.export_and_close()
        eventually(partial(advanced, stress, before))
    with Control(socket) as control:
        assert control.json(HELLO)["state"] == "running"
    assert moved > CYCLES
    output, errors = stress.communicate()
    assert (stress.returncode, errors) == (0, b"")
    assert int(output.splitlines()[-1]) > CYCLES


def test_the_gate_stops_and_lets_go_of_all_threads(stress: subprocess.Popen[bytes], tmp_path: Path) -> None:
    socket = tmp_path / "ctl" / str(stress.pid)
    eventually(socket.exists)
    with Control(socket) as control:
        eventually(lambda: rounds(stress) > 0)
        control.freeze()
        frozen = rounds(stress)
        for _ in range(20):
            control.json(HELLO)
        # A thread may have been between its last driver call and its count, at most one round each.
        assert rounds(stress) <= frozen + THREADS
        assert control.request(FREEZE, b"\0" * 4)[0] == -2
        control.json(THAW)
        eventually(lambda: rounds(stress) > frozen + THREADS)
    _output, errors = stress.communicate()
    assert (stress.returncode, errors) == (0, b"")
