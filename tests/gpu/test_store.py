"""Jobs on a real GPU into a store and out of it: the same results, and what did not change is not moved again."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torpor
from tests.gpu.conftest import Reference, command, output, wait_for_line

WEIGHTS = [sys.executable, str(Path(__file__).parents[1] / "flow" / "weights.py"), "256", "1"]
MIB = 1 << 20
TRAIN = command("train.py", "--steps", "80", "--delay", "0.02", "--hold-gib", "1")

Start = Callable[[list[str]], torpor.Job]


def test_a_job_goes_on_from_a_store(start: Start, reference: Reference, tmp_path: Path) -> None:
    expected = reference(TRAIN)
    with torpor.create_store(str(tmp_path / "store")) as store:
        job = start(TRAIN)
        wait_for_line(job, "step 20 ")
        first = store.checkpoint(job, leave_running=True)
        wait_for_line(job, "step 30 ")
        second = store.checkpoint(job)
        assert job.state == "asleep"
        # The GiB that it holds does not change; weights, their gradients and the process do.
        assert first.new > 1 << 20
        assert first.sifted is not None
        assert second.sifted is not None
        assert first.sifted["by"] == second.sifted["by"] == "gpu"
        assert second.sifted["moved"] <= second.image.head.gpu_bytes - (1 << 30)
        assert second.new < first.bytes - (1 << 30) + (64 << 20)
        assert store.verify().problems == []
        woken = torpor.restore(f"{second.image.head.name}@{store.url}")
        assert woken.wait(timeout=120), output(woken)[-2000:]
        assert output(woken) == expected


def test_what_did_not_change_stays_on_the_gpu(start: Start, tmp_path: Path) -> None:
    with torpor.create_store(str(tmp_path / "store")) as store:
        job = start(WEIGHTS)
        wait_for_line(job, "ready")
        moved = []
        for change in (False, False, True):
            if change:
                job.kill(signal.SIGUSR1)
                wait_for_line(job, "changed 1")
            sifted = store.checkpoint(job, leave_running=True).sifted
            assert sifted is not None
            assert sifted["by"] == "gpu", sifted["because"]
            moved.append(sifted["moved"])
        assert moved == [256 * MIB, 0, store.repository.chunk]
        job.suspend(tier="hbm")
        last = store.checkpoint(job)
        assert last.sifted is not None
        assert last.sifted["moved"] == 0
        woken = torpor.restore(f"{last.image.head.name}@{store.url}")
        woken.kill(signal.SIGUSR2)
        wait_for_line(woken, "sound 1")
        woken.kill(signal.SIGKILL)
        woken.wait(timeout=30)
        woken.remove()
