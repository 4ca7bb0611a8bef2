"""Programs whose memory comes from other allocators than cuMemAlloc, or is most of the card: to the bit the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda.bindings import driver

import torpor
from tests.gpu.conftest import Reference, command, output, wait_for_line

Start = Callable[[list[str]], torpor.Job]
HERE = Path(__file__).parent


def card_memory() -> int:
    """Bytes of the first GPU."""
    status, total = driver.cuInit(0)[0], driver.cuDeviceTotalMem(0)[1]
    assert status == driver.CUresult.CUDA_SUCCESS
    return int(total)


def with_env(argv: list[str], **env: str) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in env.items()), *argv]


TRAIN = command("train.py", "--steps", "80", "--delay", "0.02", "--hold-gib", "4")
EXPANDABLE = with_env(TRAIN, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
ASYNC = with_env(TRAIN, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
MOST_OF_THE_CARD = with_env(
    command("jax_descent.py", "--steps", "120", "--delay", "0.02"), XLA_PYTHON_CLIENT_PREALLOCATE="true"
)
CUPY_ASYNC = [sys.executable, str(HERE / "cupy_async.py"), "--steps", "120", "--delay", "0.02"]


def of_flow(name: str) -> list[str]:
    return [sys.executable, str(HERE.parent / "flow" / name), "--steps", "80", "--delay", "0.02"]


MAPPINGS = of_flow("own_mappings.py")
SHARING = of_flow("sharing.py")
POOLS = of_flow("pools.py")
PINNED = [sys.executable, "-W", "ignore", *of_flow("pinned.py")[1:]]
MANAGED = with_env(of_flow("managed.py"), TORPOR_MANAGED="host")


@pytest.mark.parametrize("tier", ["dram", "disk"])
@pytest.mark.parametrize(
    ("argv", "own_bytes"),
    [
        (EXPANDABLE, 4 << 30),
        (ASYNC, 0),
        (CUPY_ASYNC, 0),
        (MAPPINGS, 11 * (2 << 20)),
        (SHARING, 12 << 20),
        (POOLS, 0),
        (MANAGED, 0),
        (PINNED, 0),
    ],
    ids=["torch-expandable", "torch-async", "cupy-async", "own-mappings", "sharing", "pools", "managed-host", "pinned"],
)
def test_killed_and_restored_twice(
    start: Start, reference: Reference, argv: list[str], own_bytes: int, tier: str
) -> None:
    expected = reference(argv)
    job = start(argv)
    for at in ("step 10 ", "step 40 "):
        wait_for_line(job, at)
        image = job.checkpoint(tier=tier)
        assert image.manifest.gpu_bytes >= own_bytes
        job = torpor.restore(image)
        image.remove()
    assert job.wait(timeout=180), output(job)[-2000:]
    assert job.exit_code == 0, output(job)[-2000:]
    assert output(job) == expected


def test_a_block_larger_than_what_is_free_is_saved_many_times(start: Start) -> None:
    job = start(MOST_OF_THE_CARD)
    for number in range(1, 6):
        wait_for_line(job, f"step {number * 10} ")
        moved = job.suspend(tier="hbm")
        assert moved.bytes > card_memory() // 2
        job.resume()
    assert job.wait(timeout=180), output(job)[-2000:]
    assert job.exit_code == 0, output(job)[-2000:]
