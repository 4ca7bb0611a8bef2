"""Many threads on the software GPU while the process checkpoints itself; plain, and under the sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.native.simgpu.program import environment, software_gpu

COMPILER = (os.environ.get("CXX", "g++"), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread")
NATIVE = REPOSITORY / "native"


def build_program(folder: Path, library: Path, *flags: str) -> Path:
    program = folder / "stress"
    source = REPOSITORY / "tests/native/simgpu/stress.cpp"
    subprocess.run([*COMPILER, *flags, f"-I{NATIVE}", "-o", str(program), str(source), str(library)], check=True)
    return program


def build_library(folder: Path, *flags: str) -> Path:
    """The software GPU anew, with these flags."""
    library = folder / "libcuda.so.1"
    sources = [str(source) for source in sorted((NATIVE / "simgpu").rglob("*.cpp"))]
    subprocess.run(
        [
            *(*COMPILER, *flags, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1"),
            *(f"-I{NATIVE}", f"-I{NATIVE / 'simgpu'}", "-o", str(library), *sources),
        ],
        check=True,
    )
    return library


def run(folder: Path, program: Path, library: Path, threads: int, rounds: int) -> None:
    env = {**environment(folder), "LD_LIBRARY_PATH": str(library.parent), "ASAN_OPTIONS": "detect_leaks=0"}
    # Without address randomisation: the thread sanitizer's shadow memory has fixed places.
    command = ["setarch", "-R", str(program), str(threads), str(rounds)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) > 0  # checkpoints that happened meanwhile


def test_threads_and_checkpoints(tmp_path: Path) -> None:
    run(tmp_path, build_program(tmp_path, software_gpu()), software_gpu(), threads=8, rounds=100)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_and_checkpoints_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    flags = ("-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    library = build_library(tmp_path, *flags)
    run(tmp_path, build_program(tmp_path, library, *flags), library, threads=6, rounds=40)
