"""A program that was put to sleep and woken prints, to the bit, what it prints when left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import torpor
from tests.gpu.conftest import Reference, command, output, wait_for_line

TRAIN = command("train.py", "--steps", "80", "--delay", "0.02", "--hold-gib", "1")
JAX = command("jax_descent.py", "--steps", "120", "--delay", "0.02")
CUPY = command("cupy_walk.py", "--steps", "120", "--delay", "0.02")
COUNT = command("count.py", "--to", "60", "--delay", "0.05")
GENERATE = command("generate.py", "--rounds", "6")
COMPILED = command("compiled.py", "--steps", "120", "--delay", "0.02")
TUNED = command("tuned.py", "--steps", "60", "--delay", "0.05")

Start = Callable[[list[str]], torpor.Job]


def finish(job: torpor.Job, expected: str) -> None:
    assert job.wait(timeout=120), output(job)[-2000:]
    assert job.exit_code == 0, output(job)[-2000:]
    assert output(job) == expected


@pytest.mark.parametrize(
    "argv",
    [TRAIN, JAX, CUPY, COUNT, GENERATE, COMPILED, TUNED],
    ids=["torch", "jax", "cupy", "count", "generate", "compile", "triton"],
)
def test_undisturbed(start: Start, reference: Reference, argv: list[str]) -> None:
    expected = reference(argv)  # before: what a compiler chose by timing, the next one finds in its cache
    finish(start(argv), expected)


@pytest.mark.parametrize(
    ("argv", "at", "tier"),
    [
        (TRAIN, "step 20 ", "dram"),
        (TRAIN, "step 20 ", "disk"),
        (JAX, "step 30 ", "dram"),
        (CUPY, "step 30 ", "dram"),
        (COUNT, "count 20", "disk"),
        (GENERATE, "round 2 ", "dram"),
        (COMPILED, "step 30 ", "dram"),
        (TUNED, "step 10 ", "dram"),
    ],
    ids=["torch", "torch-disk", "jax", "cupy", "count", "generate", "compile", "triton"],
)
def test_killed_and_restored(start: Start, reference: Reference, argv: list[str], at: str, tier: str) -> None:
    expected = reference(argv)
    job = start(argv)
    wait_for_line(job, at)
    image = job.checkpoint(tier=tier)
    assert job.state == "asleep"
    finish(torpor.restore(image), expected)


@pytest.mark.parametrize("tier", ["hbm", "dram"])
def test_suspended_and_resumed(start: Start, reference: Reference, tier: str) -> None:
    expected = reference(TRAIN)
    job = start(TRAIN)
    for at in ("step 10 ", "step 30 "):
        wait_for_line(job, at)
        job.suspend(tier=tier)
        assert job.state == "suspended"
        job.resume()
    finish(job, expected)


@pytest.mark.parametrize("tier", ["disk", "dram"])
@pytest.mark.parametrize("rests", ["hbm", "dram"])
def test_suspended_and_saved(start: Start, reference: Reference, rests: str, tier: str) -> None:
    """Into an image beside which it stays suspended, and into one in which it sleeps: all three lives end alike."""
    expected = reference(TRAIN)
    job = start(TRAIN)
    wait_for_line(job, "step 20 ")
    job.suspend(tier=rests)
    beside = job.checkpoint(tier=tier, leave_running=True)
    assert job.state == "suspended"
    job.resume()
    wait_for_line(job, "step 40 ")
    job.suspend(tier=rests)
    image = job.checkpoint(tier=tier)
    assert job.state == "asleep"
    finish(torpor.restore(image), expected)
    finish(torpor.restore(beside, name="beside"), expected)


def test_two_checkpoints_while_running(start: Start, reference: Reference) -> None:
    expected = reference(TRAIN)
    job = start(TRAIN)
    wait_for_line(job, "step 10 ")
    job.checkpoint(leave_running=True, tier="dram")
    wait_for_line(job, "step 30 ")
    second = job.checkpoint(leave_running=True, tier="dram")
    finish(job, expected)
    finish(torpor.restore(second), expected)


def test_one_image_restored_twice(start: Start, reference: Reference) -> None:
    expected = reference(TRAIN)
    job = start(TRAIN)
    wait_for_line(job, "step 20 ")
    image = job.checkpoint(tier="dram")
    for name in ("first-waking", "second-waking"):
        finish(torpor.restore(image, name=name), expected)


def test_checkpoint_of_a_restored_job(start: Start, reference: Reference) -> None:
    expected = reference(TRAIN)
    job = start(TRAIN)
    wait_for_line(job, "step 10 ")
    woken = torpor.restore(job.checkpoint(tier="dram"))
    wait_for_line(woken, "step 40 ")
    finish(torpor.restore(woken.checkpoint(tier="dram")), expected)


def test_copies_beside_each_other(start: Start, reference: Reference) -> None:
    expected = reference(TRAIN)
    job = start(TRAIN)
    wait_for_line(job, "step 20 ")
    image = job.checkpoint(tier="dram", leave_running=True)
    copies = [torpor.restore(image, name=name) for name in ("one-copy", "other-copy")]
    for each in (job, *copies):
        finish(each, expected)
