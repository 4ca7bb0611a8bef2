"""How busy a GPU is, as read from the management library, or not known where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "tests" / "native" / "nvml" / "fake_nvml.c"
ASK = """
import json, time
from torpor.driver.utilisation import Utilisation
begun = time.monotonic()
it = Utilisation(["GPU-here", "GPU-elsewhere"])
begun_after = time.monotonic()
found = [it.busy() for _ in range(5)]
time.sleep(0.05)
before = time.monotonic()
found.append(it.busy())
print(json.dumps([it.source, found, before - begun_after, time.monotonic() - begun]))
"""


def ask(folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("flags", "share", "word"), [(["-DCOUNTERS"], 0.75, "counters"), ([], 0.5, "coarse")])
def test_busy_seconds(tmp_path: Path, flags: list[str], share: float, word: str) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", library, SOURCE], check=True)
    source, found, least, most = ask(tmp_path)
    assert word in source
    assert all(set(one) == {"GPU-here"} for one in found)
    busy = sum(one["GPU-here"] for one in found)
    assert least * share <= busy <= most * share


def test_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    source, found, *_ = ask(tmp_path)
    assert source == ""
    assert found == [{}] * 6
