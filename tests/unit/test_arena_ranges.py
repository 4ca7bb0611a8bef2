"""The arena's address allocator by itself, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import REPOSITORY


def test_ranges_hold_against_a_model(tmp_path: Path) -> None:
    program = tmp_path / "ranges_test"
    subprocess.run(
        [
            os.environ.get("CXX", "g++"),
            *("-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"),
            *("-fno-sanitize-recover=all", "-o", str(program)),
            str(REPOSITORY / "tests/native/arena/ranges_test.cpp"),
            str(REPOSITORY / "native/interposer/arena/ranges.cpp"),
        ],
        check=True,
    )
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
