"""`torpor ps` answers within 0.2 s: what it loads, and what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Cli

HEAVY = ("rich", "psutil", "cuda", "blake3", "asyncio", "torpor.image.manifest")

PROBE = """
import sys
from torpor.cli import main
status = main(["ps"])
print([name for name in sys.argv[1:] if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""


def test_ps_loads_nothing_heavy(home: Path) -> None:
    del home
    done = subprocess.run([sys.executable, "-c", PROBE, *HEAVY], capture_output=True, check=True)
    assert done.stderr == b"[]\n"


def test_the_probe_would_see_a_heavy_module() -> None:
    done = subprocess.run([sys.executable, "-c", "import rich\n" + PROBE, *HEAVY], capture_output=True, check=True)
    assert done.stderr == b"['rich']\n"


@pytest.mark.parametrize("count", [0, 20])
def test_ps_answers_in_time(home: Path, count: int) -> None:
    del home
    from torpor import records

    for _ in range(count):
        name = records.claim(None, ["job"])
        asleep = records.JobState.ASLEEP
        records.save(records.JobRecord(name=name, command=["job"], cwd="/", backend="sim", state=asleep))
    took = []
    for _ in range(7):
        begun = time.monotonic()
        subprocess.run([*Cli.command, "ps"], capture_output=True, check=True, env=dict(os.environ))
        took.append(time.monotonic() - begun)
    assert min(took) < 0.2, took
