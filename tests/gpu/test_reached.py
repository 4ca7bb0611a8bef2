"""However a program reaches the driver of a real GPU, it is recorded and comes back, or is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor
from tests.gpu.conftest import output, wait_for_line
from torpor import paths
from torpor.errors import Refused

SOURCE = Path(__file__).parents[1] / "cases" / "reached" / "ways.c"
WAYS = {"linked": 0, "path": 1, "deepbind": 2, "namespace": 3, "both": 4}

RUNTIME = """
import os, sys, time
from cuda.bindings import runtime as rt

def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) == 2 else None

address = check(rt.cudaMalloc(4096))
check(rt.cudaMemset(address, 7, 4096))
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
data = bytearray(4096)
check(rt.cudaMemcpy(data, address, 4096, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost))
print(data == bytes([7]) * 4096, flush=True)
"""


def built(way: str, folder: Path) -> list[str]:
    ours = paths.interposer()
    assert ours is not None
    link = [str(ours)] if way == "linked" else []
    command = [os.environ.get("CC", "gcc"), "-std=gnu11", "-w", "-o", str(folder / "ways"), f"-DWAY={WAYS[way]}"]
    subprocess.run([*command, str(SOURCE), *link, "-ldl"], check=True)
    return ["env", f"DRIVER={paths.real_libcuda()}", str(folder / "ways"), str(folder / "go")]


def last_line(job: torpor.Job) -> str:
    end = time.monotonic() + 60
    while job.exit_code is None and time.monotonic() < end:
        time.sleep(0.02)
    return output(job).splitlines()[-1]


def test_a_second_copy_of_the_driver_is_refused_as_natively(
    start: Callable[[list[str]], torpor.Job], tmp_path: Path
) -> None:
    """The driver starts once per process: it binds a socket named after that."""
    argv = built("both", tmp_path)
    native = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert native.stdout.splitlines() == ["status 304"]
    job = start(argv)
    assert job.wait(60)
    assert output(job).splitlines() == ["status 304"]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "both"])
def test_a_way(start: Callable[[list[str]], torpor.Job], tmp_path: Path, way: str) -> None:
    job = start(built(way, tmp_path))
    wait_for_line(job, "ready")
    if way == "namespace":
        with pytest.raises(Refused, match="not fully intercepted"):
            job.checkpoint()
    else:
        image = job.checkpoint(tier="dram")
        assert sum(block.size for one in image.manifest.processes for block in one.blocks) > 0
        job = torpor.restore(image)
    (tmp_path / "go").touch()
    assert last_line(job) == "77"


def test_a_statically_linked_runtime(start: Callable[[list[str]], torpor.Job], tmp_path: Path) -> None:
    job = start([sys.executable, "-c", RUNTIME, str(tmp_path / "go")])
    wait_for_line(job, "ready")
    image = job.checkpoint(tier="dram")
    assert sum(block.size for one in image.manifest.processes for block in one.blocks) > 0
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert last_line(woken) == "True"
