"""One life of a job that is put to sleep and woken, timed: by Torpor, or by the driver's checkpoint calls and CRIU
alone.

The latter is the same code with `arena=False`: then every byte of GPU memory is the driver's to move.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec

from torpor import api
from torpor.errors import TorporError
from torpor.records import DEFAULT_VM, LIVE_STATES, Vm

START_SECONDS = 300.0
"""How long a job may take until its first steps."""


class Steps:
    """Collects one verb's steps: seconds and bytes by name."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def __call__(self, event: api.Progress) -> None:
        if event.event == "end":
            self.found[event.phase] = {"seconds": round(event.seconds, 4), "bytes": event.bytes}


class Cycle(msgspec.Struct, kw_only=True):
    """Seconds of each verb, and until the woken job's next step; bytes of the image; steps of both verbs.

    `pause`: the verb that leaves the job running; `stall`: how long the job did nothing meanwhile."""

    checkpoint: float
    restore: float
    next_step: float
    gpu_bytes: int
    cpu_bytes: int
    checkpoint_steps: dict[str, dict[str, float]]
    restore_steps: dict[str, dict[str, float]]
    pause: float | None = None
    stall: float | None = None


def steps_of(job: api.Job) -> list[tuple[int, int]]:
    """(number, nanoseconds) of the lines "step NUMBER [NANOSECONDS]" or "count NUMBER" that the job has printed."""
    lines = b"".join(job.logs()).decode(errors="replace").split("\n")[:-1]  # the last one is not finished
    words = [line.split() for line in lines if line.startswith(("step ", "count "))]
    return [(int(found[1]), int(found[2]) if len(found) > 2 and found[2].isdigit() else 0) for found in words]


def last_step(job: api.Job) -> int:
    """The number of the job's last step, 0 before the first."""
    return max((number for number, _ in steps_of(job)), default=0)


def wait_past(job: api.Job, step: int, timeout: float = START_SECONDS) -> None:
    """Wait until the job has done more than `step` steps. TorporError with the end of its output where it does not."""
    end = time.monotonic() + timeout
    while last_step(job) <= step:
        if job.exit_code is not None or time.monotonic() > end:
            said = b"".join(job.logs()).decode(errors="replace")[-3000:]
            raise TorporError(f"{job.name} did not get past step {step}", hint=said)
        time.sleep(0.01)


def longest_gap(times: Sequence[int], since: int) -> float:
    """Seconds of the longest time between two of these (nanoseconds), of which the later is after `since`."""
    gaps = [later - earlier for earlier, later in pairwise(times) if later > since]
    return max(gaps, default=0) / 1e9


def live(command: Sequence[str], *, arena: bool, stall: bool = False, vm: Vm = DEFAULT_VM) -> Cycle:
    """Start, checkpoint (kills), restore, one more step, end. With `stall` first a checkpoint that leaves it running,
    for which the command's lines must tell nanoseconds. Nothing is left of it, however it ends."""
    leftovers: list[api.Image | api.Job] = []
    try:
        job = api.run(command, arena=arena, vm=vm)
        leftovers.append(job)
        wait_past(job, 3)
        pause = _pause(job) if stall else None
        saving, waking = Steps(), Steps()
        start = time.perf_counter()
        image = job.checkpoint(tier="dram", deadline=60, progress=saving)
        checkpoint = time.perf_counter() - start
        leftovers.insert(0, image)
        at = last_step(job)
        start = time.perf_counter()
        woken = api.restore(image, name=f"{job.name}-woken", progress=waking)
        restore = time.perf_counter() - start
        leftovers.append(woken)
        wait_past(woken, at)
        next_step = time.perf_counter() - start
        summary: dict[str, Any] = image.summary()
        return Cycle(
            checkpoint=checkpoint,
            restore=restore,
            next_step=next_step,
            gpu_bytes=int(summary["gpu_bytes"]),
            cpu_bytes=int(summary["cpu_bytes"]),
            checkpoint_steps=saving.found,
            restore_steps=waking.found,
            pause=pause[0] if pause else None,
            stall=pause[1] if pause else None,
        )
    finally:
        for leftover in leftovers:
            with suppress(TorporError):  # what went wrong before is to be told
                if isinstance(leftover, api.Job) and leftover.state in LIVE_STATES:
                    leftover.kill(9)
                    leftover.wait(60)
                leftover.remove()


def _pause(job: api.Job) -> tuple[float, float]:
    """Seconds of a checkpoint that leaves the job running, and how long it stood still."""
    before, since = last_step(job), time.monotonic_ns()
    start = time.perf_counter()
    image = job.checkpoint(leave_running=True, tier="dram", deadline=60)
    took = time.perf_counter() - start
    wait_past(job, max(before, last_step(job)))
    image.remove()
    return took, longest_gap([at for _, at in steps_of(job)], since)
