"""Runs parts one after another. What fails or is broken off is told in the results; the others go on."""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torpor import api
from torpor.bench import home, machine, parts, results, verdict
from torpor.bench.interrupts import Interrupts
from torpor.bench.results import Measurement, PartResult, Results
from torpor.bench.settings import Settings
from torpor.errors import Cancelled, DriverMissing, TorporError, UsageError


def devices(settings: Settings) -> list[dict[str, Any]]:
    """The GPUs, as the keeper has them; it is ready from then on, and disturbs nothing by getting so. DriverMissing."""
    api.keeper_warm(settings.backend, 0)
    status = api.keeper_status(settings.backend) or {}
    found: list[dict[str, Any]] = status.get("devices", [])
    if not found:
        raise DriverMissing("the driver sees no GPU", hint="see `torpor doctor`")
    return found


def run(names: Sequence[str], settings: Settings, command: Sequence[str], keep: Callable[[Results], None]) -> Results:
    """Run these parts, or all. `keep` is called with what there is at the beginning, and whenever there is more.

    After Ctrl-C the part's result says `interrupted`, and so do those that were still to come. Where `keep` raises an
    OSError the run goes on: the next time may be better.
    """
    chosen = [parts.load(name) for name in dict.fromkeys(names or parts.REGISTRY)]
    found = Results(
        command=list(command),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        backend=settings.backend,
        software_gpu=settings.software_gpu,
        vm=settings.vm,
        quick=settings.quick,
        machine=machine.describe(),
    )
    broken, keep = False, _tolerant(keep, settings)
    try:
        keep(found)
        with Interrupts() as interrupts, home.own(settings.backend) as scratch:
            gpus = devices(settings)
            least = min(int(gpu["memory"]) for gpu in gpus)
            settings = replace(settings, scratch=scratch, devices=len(gpus), device_memory=least)
            for part in chosen:
                _run_part(part, settings, found, keep, interrupts)
                if interrupts.heard or found.parts[-1].status == "interrupted":
                    broken = True
                    break
    except KeyboardInterrupt:
        broken = True
    if broken:
        done = {part.name for part in found.parts}
        found.parts += [
            PartResult(name=part.name, title=part.title, status="interrupted", reason="not begun")
            for part in chosen
            if part.name not in done
        ]
    keep(found)
    return found


def _tolerant(keep: Callable[[Results], None], settings: Settings) -> Callable[[Results], None]:
    """The same, but that it fails is told, each reason once."""
    told: set[str] = set()

    def kept(found: Results) -> None:
        try:
            keep(found)
        except OSError as error:
            if (reason := str(error)) not in told:
                told.add(reason)
                settings.say(f"what is known so far cannot be written now, the run goes on: {reason}")

    return kept


def _run_part(
    part: parts.Part, settings: Settings, found: Results, keep: Callable[[Results], None], interrupts: Interrupts
) -> None:
    """Append the part's result, filled while it runs."""
    result = PartResult(name=part.name, title=part.title, status="interrupted", figures=list(part.figures))
    result.reason = "broken off"  # what a run that is killed has written says so
    found.parts.append(result)
    keep(found)
    lacking = parts.missing(part, settings)
    if lacking is not None:
        result.status, result.reason = "skipped", lacking
        settings.say(f"{part.name}: skipped: {lacking}")
        return
    settings.say(f"{part.name}: {part.title}")
    began = time.monotonic()

    def say(line: str) -> None:
        settings.say(f"{part.name}, {time.monotonic() - began:.0f} s: {line}")

    def begins(line: str) -> None:
        interrupts.check()  # what a part says, it says before or after a cycle or a start, which may have lost one
        say(line)

    try:
        for measurement in part.run(replace(settings, say=begins)):
            if settings.quick:
                measurement.bars = []  # so few turns are no verdict, whichever way it falls
            if not result.put(measurement):
                say(line_of(measurement))
            result.seconds = round(time.monotonic() - began, 2)
            keep(found)
        result.status, result.reason = "done", ""
    except (KeyboardInterrupt, Cancelled):  # the latter, where a keeper was at work meanwhile
        pass
    except TorporError as error:
        result.status, result.reason = "failed", " – ".join(filter(None, [error.message, error.hint]))
    except Exception as error:  # noqa: BLE001 - whatever a part meets is its own failure, and is told
        result.status, result.reason = "failed", f"{type(error).__name__}: {error}"
    if result.status == "failed" and interrupts.heard:  # what is broken off may fail by that
        result.status, result.reason = "interrupted", f"broken off: {result.reason}"
    result.seconds = round(time.monotonic() - began, 2)
    if result.status != "done":
        settings.say(f"{part.name}: {result.status}: {result.reason}")
    keep(found)


def line_of(measurement: Measurement) -> str:
    """One line for people: values by side, cost, bars."""
    values = ", ".join(f"{side} {value.median:.4g}" for side, value in measurement.sides.items())
    costs = "".join(f"; {side} / native {cost.median:.4f}" for side, cost in measurement.cost.items())
    bars = "".join(f"; {bar.text}: {verdict.judged(measurement, bar)}" for bar in measurement.bars)
    return f"{measurement.name}: {values} {measurement.unit}{costs}{bars}"


def save_into(folder: Path) -> Callable[[Results], None]:
    """A `keep` that writes `results.json` into the folder. UsageError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # leaves nothing behind that is no results.json yet
    except OSError as error:
        raise UsageError(f"a report cannot be written into {folder}: {error.strerror}", hint="choose --out") from None
    return lambda found: results.save(found, folder / "results.json")


def default_backend() -> str:
    """What is measured here: the GPU, or the software GPU."""
    return api.default_backend()


def default_folder() -> Path:
    """Where a run's report goes unless told otherwise: `torpor-bench-<date>` here."""
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path(os.getcwd()) / f"torpor-bench-{now}"
