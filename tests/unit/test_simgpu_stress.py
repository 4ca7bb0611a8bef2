"""Many threads on the software GPU while the process checkpoints itself; plain, and under the sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.native import sanitized
from tests.native.simgpu.program import environment, software_gpu

SOURCE = REPOSITORY / "tests/native/simgpu/stress.cpp"


def run(folder: Path, program: Path, library: Path, threads: int, rounds: int) -> None:
    env = {**environment(folder), "LD_LIBRARY_PATH": str(library.parent), "ASAN_OPTIONS": "detect_leaks=0"}
    # Without address randomisation: the thread sanitizer's shadow memory has fixed places.
    command = ["setarch", "-R", str(program), str(threads), str(rounds)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) > 0  # checkpoints that happened meanwhile


def test_threads_and_checkpoints(tmp_path: Path) -> None:
    program = tmp_path / "stress"
    compiler = (os.environ.get("CXX", "g++"), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread")
    include = f"-I{REPOSITORY / 'native'}"
    subprocess.run([*compiler, include, "-o", str(program), str(SOURCE), str(software_gpu())], check=True)
    run(tmp_path, program, software_gpu(), threads=6, rounds=60)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["thread", "address"])
def test_threads_and_checkpoints_under_a_sanitizer(tmp_path: Path, kind: str) -> None:
    library = sanitized.library(kind)
    program = sanitized.build(kind, "stress", [SOURCE], str(library))
    run(tmp_path, program, library, threads=6, rounds=40)
