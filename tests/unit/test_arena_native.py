"""The arena's parts by themselves, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.native.arena.harness import libraries

ARENA = REPOSITORY / "native/interposer/arena"


def run_sanitized(folder: Path, test: str, sources: list[Path], *args: str) -> None:
    """Build `tests/native/arena/<test>.cpp` with `sources` and run it; it must end well and say nothing.

    All are one translation unit: most of the time goes into headers, which are read once so.
    """
    program, whole = folder / test, folder / "whole.cpp"
    parts = [*sources, REPOSITORY / f"tests/native/arena/{test}.cpp"]
    whole.write_text("".join(f'#include "{part}"\n' for part in parts))
    subprocess.run(
        [
            os.environ.get("CXX", "g++"),
            *("-std=c++20", "-O0", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"),
            *("-fno-sanitize-recover=all", "-pthread", "-o", str(program)),
            str(whole),
            "-ldl",
        ],
        check=True,
    )
    env = {**os.environ, "TORPOR_SIM_DIR": str(folder)}
    done = subprocess.run([str(program), *args], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ranges_hold_against_a_model(tmp_path: Path) -> None:
    run_sanitized(tmp_path, "ranges_test", [ARENA / "ranges.cpp"])


def test_arena_parks_hands_over_and_serves_threads(tmp_path: Path) -> None:
    bodies = [source for source in sorted(ARENA.glob("*.cpp")) if not source.name.startswith("overrides_")]
    bodies.append(REPOSITORY / "native/interposer/prim/fork_hold.cpp")
    run_sanitized(tmp_path, "arena_test", bodies, str(libraries()[1]))
