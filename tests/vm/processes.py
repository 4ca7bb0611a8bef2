"""Runs the programs of this folder in processes of their own, natively or as the tests say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.conftest import REPOSITORY
from torpor import paths


def execute(module: str, given: Any, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run `tests.vm.<module>` with `given` as JSON on its standard input; `options` are Python's."""
    return subprocess.run(
        [sys.executable, *options, "-m", f"tests.vm.{module}"],
        input=json.dumps(given),
        env=env,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def native_environment() -> dict[str, str]:
    """The software GPU without Torpor."""
    library = paths.software_gpu()
    assert library is not None
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
