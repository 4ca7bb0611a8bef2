"""Test suites that other packages bring along have the same outcome, test by test, natively and at every level."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("installed_suite.py")
NUMBA = ("numba.cuda.tests.cudadrv", "numba.cuda.tests.cudapy")
SHARDS = min(8, os.cpu_count() or 1)
RUN = (sys.executable, "-m", "torpor", "run", "--")


def outcomes(folder: Path, prefix: Sequence[str], packages: Sequence[str], **env: str) -> dict[str, str]:
    """By test; all shards at once."""
    folder.mkdir()
    shards = []
    for number in range(SHARDS):
        program = (sys.executable, str(PROGRAM), str(folder / f"{number}"), str(number), str(SHARDS))
        command = [*prefix, *program, *packages]
        with (folder / f"{number}.log").open("wb") as log:
            shards.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **env}))
    for shard in shards:
        shard.wait()
    lines = [line for number in range(SHARDS) for line in (folder / f"{number}").read_text().splitlines()]
    return dict(json.loads(line) for line in lines)


@pytest.fixture(scope="module")
def natively(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Twice: what differs then is left to chance. They need numba-cuda and filecheck."""
    assert importlib.util.find_spec("numba_cuda") and importlib.util.find_spec("filecheck")
    return [outcomes(tmp_path_factory.mktemp("native") / f"{turn}", (), NUMBA) for turn in range(2)]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("level", ["answers", "full", "always-full"])
def test_numba(level: str, natively: list[dict[str, str]], tmp_path: Path) -> None:
    first, second = natively
    assert "passed" in first.values()
    found = outcomes(tmp_path / "found", RUN, NUMBA, TORPOR_VM=level)
    certain = {name: outcome for name, outcome in first.items() if second.get(name) == outcome}
    assert len(certain) > len(first) * 0.99
    assert {name: found.get(name) for name in certain} == certain
