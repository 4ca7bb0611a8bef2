"""Programs of tests, each compiled once for the whole run."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.conftest import REPOSITORY

FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


@cache
def compiled(source: str, *words: str | Path) -> Path:
    """The program of this C++ source (from the repository's root); `words` are further ones for the compiler."""
    program = _folder() / Path(source).stem
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, *FLAGS, "-o", program, REPOSITORY / source, *words], check=True)
    return program


def _folder() -> Path:
    """A new folder, which goes when the run ends."""
    folder = Path(tempfile.mkdtemp(prefix="torpor-compiled-"))
    atexit.register(shutil.rmtree, folder)
    return folder
