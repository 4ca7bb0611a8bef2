"""`torpor checkpoint --pid` on a real GPU: a program started without Torpor goes on where it stood, to the bit."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import torpor
from tests.gpu.conftest import Reference, command
from torpor import api

TRAIN = command("train.py", "--steps", "80", "--delay", "0.02")
COUNT = command("count.py", "--to", "60", "--delay", "0.05")


@pytest.mark.parametrize(("argv", "at"), [(COUNT, "count 20"), (TRAIN, "step 20 ")], ids=["count", "torch"])
def test_a_process_that_torpor_did_not_start(reference: Reference, tmp_path: Path, argv: list[str], at: str) -> None:
    expected = reference(argv)
    out = tmp_path / "out"
    with out.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while not any(line.startswith(at) for line in out.read_text().splitlines()):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        image = api.checkpoint_process(process.pid, name="taken")
        assert process.wait(10) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
    assert image.manifest.gpu_bytes == 0
    assert [one.interposed for one in image.manifest.processes] == [False]
    try:
        woken = torpor.restore(image)
        again = woken.checkpoint(tier="dram")
        last = torpor.restore(again)
        assert last.wait(timeout=120)
        assert last.exit_code == 0
        assert out.read_text() == expected
        last.remove()
        again.remove()
    finally:
        image.remove()
