"""Runs a piece of Python in a process whose driver is the software GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from torpor import paths


def run_on_sim(code: str, *arguments: str, **env: str) -> str:
    """What the code printed; the test fails with its traceback when it ends badly."""
    library = paths.software_gpu()
    assert library is not None
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent), **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
