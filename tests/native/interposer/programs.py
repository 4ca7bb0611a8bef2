"""Builds the fake driver and the interposer's test programs, and runs them under the built interposer."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from torpor import paths

SOURCES = Path(__file__).parent
NATIVE = REPOSITORY / "native" / "interposer"
GATE = [NATIVE / name for name in ("gate/gate.cpp", "prim/barrier.cpp", "prim/log.cpp")]
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]


def compiled(output: Path, *arguments: str | Path) -> Path:
    """Compile with the C++ compiler that built the interposer; fails the test with the compiler's words."""
    command = [os.environ.get("CXX", "g++"), *FLAGS, *map(str, arguments), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@dataclass(frozen=True)
class Programs:
    """Where things are: `driver` is the fake libcuda.so.1, alone in its folder."""

    folder: Path
    driver: Path
    interposer: Path

    def build(self, name: str, *more: str | Path) -> Path:
        output = self.folder / name
        return output if output.exists() else compiled(output, SOURCES / f"{name}.cpp", *more)

    def linked(self, name: str) -> Path:
        """Linked to libcuda.so.1 as `-lcuda` does it; the interposer has every symbol that the linker asks for."""
        return self.build(name, self.interposer, "-ldl", "-Wl,-z,lazy")

    def environment(self, **extra: str) -> dict[str, str]:
        keep = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "TMPDIR")}
        return keep | {"LD_PRELOAD": str(self.interposer), "TORPOR_REAL_LIBCUDA": str(self.driver)} | extra

    def run(self, *command: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            env=self.environment() if environment is None else environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )


@cache
def built() -> Programs:
    """Built once for the whole test run; the folder goes when the run ends."""
    folder = Path(tempfile.mkdtemp(prefix="torpor-interposer-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "fake").mkdir()
    driver = compiled(
        folder / "fake" / "libcuda.so.1",
        SOURCES / "fake_driver.cpp",
        "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic",
    )  # fmt: skip
    interposer = paths.interposer()
    assert interposer is not None, "the interposer is not built: run scripts/setup"
    return Programs(folder, driver, interposer)


def _built() -> Programs:
    return built()


def programs_fixture() -> Any:
    """A fixture for a test module: `programs = programs_fixture()`."""
    return pytest.fixture(_built, scope="session")
