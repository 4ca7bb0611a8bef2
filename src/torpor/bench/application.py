"""Question: what do checkpoints cost that a training job writes itself, and what those that Torpor takes from outside?

The same job (`programs/self_saving.py`) saves itself by `torch.save`, by `torch.distributed.checkpoint`, and by the
latter while it trains on; and Torpor saves it, to the disk, to memory and from there to the disk while it trains on,
and to memory alone. All but the last wait until the same disk has the bytes. Then the job is killed and started again
from what was saved. It must have the losses that it would have had. What only a first checkpoint needs is done before:
process groups are made, and Torpor's keeper has its pinned memory.

- time frozen: by how much the steps around the checkpoint took longer than as many others;
- complete after: seconds until the checkpoint can be used;
- training again after: from the start of the new process (or the verb) until a whole step is done; files are in the
  page cache;
- work lost at equal cost: half of an interval at which checkpoints freeze the job for 1 % of the time;
- time lost a day: with a failure every 8 hours, at the interval that loses least (`torpor plan`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from shutil import disk_usage, rmtree

from torpor import api, plan
from torpor.bench import models, turns
from torpor.bench.lives import Lives
from torpor.bench.models import Gpt
from torpor.bench.parts import Part
from torpor.bench.results import Figure, Measurement, spread
from torpor.bench.settings import NATIVE, Settings
from torpor.errors import TorporError

USUAL, QUICK = ("120m", "1b"), ("120m",)
METHODS = {
    "torch.save": "torch.save",
    "torch.distributed": "dcp",
    "torch.distributed, asynchronous": "dcp-async",
}
TOY_METHODS = {"own file": "file"}
WAYS = {"torpor disk": ("disk", False), "torpor dram, then disk": ("dram", True), "torpor dram": ("dram", False)}
"""Torpor's: the tier, and whether the image is written to the disk afterwards."""
WARM, USUAL_STEPS, AFTER = 3, 20, 4
"""Steps that do not count, steps that tell how long one takes, and steps to see after the checkpoint."""
BETWEEN_FAILURES = 8.0
"""Hours."""
SHARE = 0.01
"""Of the time that checkpoints freeze the job, where work lost is compared."""


@dataclass
class Step:
    number: int
    loss: str
    at: int
    """Nanoseconds of the wall clock."""


@dataclass
class Saved:
    """What was measured of one way to save: seconds and bytes."""

    frozen: list[float] = field(default_factory=list)
    complete: list[float] = field(default_factory=list)
    size: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)


def run(settings: Settings) -> Iterator[Measurement]:
    """Five rows and a row of prices for each model."""
    known: Mapping[str, Gpt] = models.TOY_GPT if settings.software_gpu else models.GPT
    usual = ("toy",) if settings.software_gpu else QUICK if settings.quick else USUAL
    methods = TOY_METHODS if settings.software_gpu else METHODS
    for name, model in models.of(known, usual, settings).items():
        left_out = _left_out(model, settings)
        if left_out is not None:
            settings.say(f"{name} {left_out}")
            yield Measurement(name=f"{name}, time frozen", unit="s", sides={}, note=left_out)
            continue
        models.touch(model.training_bytes + (8 << 30), settings)
        api.keeper_warm(settings.backend, 64 << 20 if settings.software_gpu else model.training_bytes)
        found: dict[str, Saved] = {side: Saved() for side in (*methods, *WAYS)}
        losses: dict[int, str] = {}
        for turn in range(settings.repeats):
            for side in found:
                settings.say(f"{name}: {side}, {turn + 1} of {settings.repeats}")
                if side in methods:
                    _by_itself(methods[side], model, settings, found[side], losses)
                else:
                    _by_torpor(side, model, settings, found[side], losses)
                yield from _rows(name, {side: saved for side, saved in found.items() if saved.again})


def _left_out(model: Gpt, settings: Settings) -> str | None:
    if settings.software_gpu:
        return None
    needed = model.training_bytes
    return (
        models.too_large(needed, models.free_memory(settings), "the job")
        or models.too_large(needed + (4 << 30), disk_usage(settings.scratch).free, "an image on the disk")
        or models.too_large(needed + (8 << 30), models.host_memory(), "an image in memory")
    )


def _by_itself(method: str, model: Gpt, settings: Settings, found: Saved, losses: dict[int, str]) -> None:
    """One life that saves itself and is killed, and the beginning of the next."""
    folder = settings.scratch / "checkpoint"
    command = models.command("self_saving.py", model, settings, "--method", method, "--folder", str(folder))
    save_at = WARM + USUAL_STEPS
    steps: list[Step] = []
    marks: dict[str, int] = {}
    try:
        copy = turns.Copy([*command, "--save-at", str(save_at)], NATIVE, settings)
        try:
            while "saved" not in marks or steps[-1].number < save_at + AFTER or steps[-1].at < marks["saved"]:
                words = copy.next_line("a step").split()
                if words[0] == "step":
                    steps.append(Step(int(words[1]), words[2], int(words[3])))
                elif words[0] in ("saving", "saved"):
                    marks[words[0]] = int(words[2])
        finally:
            copy.kill()
        found.frozen.append(frozen(steps, marks["saving"], marks["saved"]))
        found.complete.append((marks["saved"] - marks["saving"]) / 1e9)
        found.size.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        _agree(losses, steps, method)
        start = time.time_ns()
        copy = turns.Copy([*command, "--resume"], NATIVE, settings)
        try:
            words = copy.next_line("its first step").split()
            found.again.append((int(words[3]) - start) / 1e9)
            _agree(losses, [Step(int(words[1]), words[2], int(words[3]))], f"{method}, gone on from")
        finally:
            copy.kill()
    finally:
        rmtree(folder, ignore_errors=True)


def _by_torpor(side: str, model: Gpt, settings: Settings, found: Saved, losses: dict[int, str]) -> None:
    """The same job, saved from outside while it goes on, killed and woken."""
    tier, written = WAYS[side]
    place = {"to": settings.scratch / "image"} if written else {}
    with Lives("step", settings) as lives:
        job = lives.run(models.command("self_saving.py", model, settings))
        job.wait(WARM + USUAL_STEPS)
        begun = time.time_ns()
        image = lives.checkpoint(job.job, tier, leave_running=True, **place)
        whole = time.time_ns()
        if written:
            image = lives.written(image)
        ended = time.time_ns()
        job.wait(AFTER, ended)
        lives.kill(job.job)
        job.read()
        steps = _steps(job.rows)
        found.frozen.append(frozen(steps, begun, whole))
        found.complete.append((ended - begun) / 1e9)
        summary = image.summary()
        found.size.append(summary["gpu_bytes"] + summary["cpu_bytes"])
        _agree(losses, steps, side)
        woken, seconds = lives.restored(image)
        found.again.append(seconds)
        lives.kill(woken.job)
        woken.read()
        _agree(losses, _steps(woken.rows), f"{side}, woken")


def _steps(rows: Sequence[Sequence[str]]) -> list[Step]:
    return [Step(int(row[1]), row[2], int(row[3])) for row in rows if len(row) == 4]


def frozen(steps: Sequence[Step], begun: int, ended: int) -> float:
    """By how many seconds the steps from the last before `begun` to the first after `ended` took longer than usual."""
    before = [step for step in steps if step.at <= begun]
    after = [step for step in steps if step.at >= ended]
    usual = statistics.median(later.at - earlier.at for earlier, later in pairwise(before[WARM - 1 :]))
    last, first = before[-1], after[0]
    return max(0.0, (first.at - last.at - usual * (first.number - last.number)) / 1e9)


def _agree(losses: dict[int, str], steps: Sequence[Step], what: str) -> None:
    """TorporError where a step has another loss than in an earlier life; `losses` takes in what is new."""
    for step in steps:
        if losses.setdefault(step.number, step.loss) != step.loss:
            raise TorporError(
                f"{what}: the loss of step {step.number} is {step.loss}, in another life it was {losses[step.number]}"
            )


def _rows(name: str, found: Mapping[str, Saved]) -> Iterator[Measurement]:
    rows: tuple[tuple[str, str, str, Callable[[Saved], list[float]]], ...] = (
        ("time frozen", "s", "frozen", lambda saved: saved.frozen),
        ("complete after", "s", "complete", lambda saved: saved.complete),
        ("size", "GB", "size", lambda saved: [size / 1e9 for size in saved.size]),
        ("training again after", "s", "again", lambda saved: saved.again),
        ("work lost at equal cost", "s", "lost", lambda saved: [seconds / SHARE / 2 for seconds in saved.frozen]),
        ("time lost a day", "minutes", "day", _lost_a_day),
    )
    notes = {
        "work lost at equal cost": f"of each failure, when checkpoints freeze the job for {SHARE:.0%} of the time",
        "time lost a day": f"a failure every {BETWEEN_FAILURES:g} hours, at the interval that loses least",
    }
    for what, unit, figure, values in rows if found else ():
        yield Measurement(
            name=f"{name}, {what}",
            unit=unit,
            sides={side: spread(values(saved)) for side, saved in found.items()},
            figures=[figure],
            series=f"{name} parameters",
            note=notes.get(what, ""),
        )


def _lost_a_day(saved: Saved) -> list[float]:
    conditions = plan.Conditions(BETWEEN_FAILURES)
    lost = []
    for cost, restart in zip(saved.frozen, saved.again, strict=True):
        way = plan.Way("", max(cost, 1e-3) * plan.SECOND, restart * plan.SECOND)
        lost.append(plan.best(way, conditions).lost_hours_per_day * 60)
    return lost


def _figure(name: str, title: str, unit: str) -> Figure:
    return Figure(name=name, title=title, kind="bars", y=unit)


PART = Part(
    "application",
    "Checkpoints by the application, and by Torpor",
    run,
    needs=("torch-on-gpu", "checkpoints"),
    figures=(
        _figure("frozen", "Checkpoint: time that training is frozen", "seconds"),
        _figure("complete", "Checkpoint: time until it is complete", "seconds"),
        _figure("size", "Checkpoint: size", "GB"),
        _figure("again", "After a kill: time until training moves again", "seconds"),
        _figure("lost", f"Work lost by a failure, with checkpoints that cost {SHARE:.0%} of the time", "seconds"),
        _figure("day", f"Time lost a day, a failure every {BETWEEN_FAILURES:g} hours, best interval", "minutes"),
    ),
)
