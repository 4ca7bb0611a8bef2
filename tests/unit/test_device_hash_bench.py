"""The benchmarks of hashing work, with tiny sizes on the software GPU, and notice a wrong kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

TINY = ["--sim", "--mib", "0.5", "1", "--chunk-kib", "256", "--copy-mib", "1", "--piece-mib", "0.25", "--repeat", "2"]


def bench(*arguments: str, program: str = "device_hash.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "bench" / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_it_tells_every_rate(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = bench(*TINY, "--out", str(out))
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert [(row["mib"], row["chunk_kib"]) for row in found["hashing"]] == [(0.5, 256), (1, 256)]
    assert all(row["gpu_bytes_per_s"] > 0 and row["wall_bytes_per_s"] > 0 for row in found["hashing"])
    assert all(row["alone"] > 0 and row["beside_hashing"] > 0 and row["hashing"] > 0 for row in found["copies"])
    assert len(found["copies"]) == 1
    assert "| 0.5 | 256 |" in done.stdout


def test_a_wrong_kernel_has_no_rate(tmp_path: Path) -> None:
    right = REPOSITORY / "src" / "torpor" / "driver" / "ptx" / "blake3_sm80.ptx"
    # One of the two rotations that are no byte permutation: by 11 instead of by 12.
    wrong = right.read_text().replace(", 12;", ", 11;")
    assert wrong != right.read_text()
    (tmp_path / right.name).write_text(wrong)
    done = bench(*TINY, "--kernels", str(tmp_path))
    assert done.returncode != 0
    assert "is wrong" in done.stderr


def test_sifting_moves_what_was_changed(home: Path, tmp_path: Path) -> None:
    del home  # the pinned pool of the benchmark is in its memory
    out = tmp_path / "found.json"
    size = ["--sim", "--gib", "0.0040", "--pool-mib", "64", "--chunk-kib", "256", "--repeat", "1"]
    done = bench(*size, "--percent", "0", "25", "100", "--out", str(out), program="sift.py")
    assert done.returncode == 0, done.stderr
    moved = [(row["percent"], row["moved_mib"]) for row in json.loads(out.read_text())["rows"]]
    assert moved == [(0, 0), (25, 1), (100, 4)]
