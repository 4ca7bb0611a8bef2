"""From what was seen of a job to a profile: rates, shares, what the layer costs (docs/guide/profile.md: the schema)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec

from torpor.job_handle import Job
from torpor.profiling import calls, cost
from torpor.profiling.recording import Recording

SCHEMA = 1


class Profile(msgspec.Struct, kw_only=True):
    """What `torpor profile --json` prints.

    Seconds are of the clock on the wall; `per_gpu_second` is null where no busy time is known.
    """

    schema: int = SCHEMA
    job: str
    command: list[str]
    backend: str
    level: str
    seconds: float
    processes: list[dict[str, Any]]
    calls: dict[str, Any]
    launches: dict[str, Any]
    bytes: dict[str, int]
    gpu: dict[str, Any] | None
    kernels: list[dict[str, Any]] | None
    driver_time: dict[str, float] | None
    vm: dict[str, int]
    cost: dict[str, Any]
    timeline: list[dict[str, Any]]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data


def summarise(recording: Recording, job: Job) -> Profile:
    """The profile of a recording."""
    counted = _positive(recording.total("calls"))
    times = _positive(recording.total("nanoseconds"))
    vm = _positive(recording.total("vm"))
    vm.pop("queued", None)
    vm["deepest"] = max((process.last.vm.get("deepest", 0) for process in recording.processes), default=0)
    busy = sum(recording.busy.values()) if recording.source else None
    rates = _Rates(recording.seconds, busy)
    backend = job.record.backend
    reasons = cost.predict(counted, vm, real=backend == "gpu", arena=job.record.arena)
    predicted = sum(reason.seconds for reason in reasons)
    return Profile(
        job=recording.job,
        command=job.record.command,
        backend=backend,
        level=recording.level,
        seconds=recording.seconds,
        processes=[
            {"pid": one.pid, "calls": one.since_base("calls").total(), "ended": one.ended, "whole": one.whole}
            for one in recording.processes
        ],
        calls=_calls(counted, times, rates),
        launches={
            "kernels": rates.of(_where(counted, calls.is_kernel_launch)),
            "graphs": rates.of(_where(counted, calls.is_graph_launch)),
        },
        bytes=dict(recording.total("bytes")),
        gpu=_gpu(recording),
        kernels=_kernels(recording),
        driver_time=_driver_time(times) if recording.level == "times" else None,
        vm=dict(vm),
        cost={
            "seconds": predicted,
            "share": rates.share(predicted),
            "counting_seconds": cost.counting_seconds(counted, recording.level),
            "reasons": [{**asdict(reason), "seconds": reason.seconds} for reason in reasons],
        },
        timeline=[asdict(point) for point in recording.points],
        notes=_notes(recording),
    )


class _Rates:
    def __init__(self, seconds: float, busy: float | None) -> None:
        self._seconds = seconds
        self._busy = busy

    def of(self, count: int) -> dict[str, Any]:
        return {
            "calls": count,
            "per_second": count / self._seconds if self._seconds > 0 else 0.0,
            "per_gpu_second": count / self._busy if self._busy else None,
        }

    def share(self, seconds: float) -> float:
        return seconds / self._seconds if self._seconds > 0 else 0.0


def _positive(found: Counter[str]) -> Counter[str]:
    return Counter({name: count for name, count in found.items() if count > 0})


def _where(counted: Counter[str], test: Callable[[str], bool]) -> int:
    return sum(count for name, count in counted.items() if test(name))


def _calls(counted: Counter[str], times: Counter[str], rates: _Rates) -> dict[str, Any]:
    families: Counter[str] = Counter()
    for name, count in counted.items():
        families[calls.of(name).family] += count
    questions = _where(counted, lambda name: calls.of(name).question)
    return {
        **rates.of(counted.total()),
        "questions": questions,
        "question_share": questions / counted.total() if counted else 0.0,
        "by_family": [{"family": family, **rates.of(count)} for family, count in families.most_common()],
        "by_name": [
            {
                "name": name,
                "family": calls.of(name).family,
                "effect": calls.of(name).effect,
                **rates.of(count),
                "seconds": times[name] / 1e9 if name in times else None,
            }
            for name, count in counted.most_common()
        ],
    }


def _gpu(recording: Recording) -> dict[str, Any] | None:
    if not recording.source:
        return None
    spent = recording.busy
    share = sum(spent.values()) / recording.seconds / max(len(spent), 1) if recording.seconds > 0 else 0.0
    return {
        "source": recording.source,
        "seconds": sum(spent.values()),
        "share": share,
        "devices": [{"uuid": uuid, "seconds": seconds} for uuid, seconds in sorted(spent.items())],
    }


def _kernels(recording: Recording) -> list[dict[str, Any]] | None:
    """Rows by seconds; shares of the sum of all rows, which is more than the GPU's time where work overlaps."""
    if recording.work is None:
        return None
    total = sum(work.seconds for work in recording.work)
    return [
        {
            "name": work.name,
            "kind": work.kind,
            "calls": work.calls,
            "seconds": work.seconds,
            "share": work.seconds / total if total > 0 else 0.0,
            "mean": work.seconds / work.calls if work.calls else 0.0,
            "longest": work.longest,
            "bytes": work.bytes,
        }
        for work in recording.work
    ]


def _driver_time(times: Counter[str]) -> dict[str, float]:
    """Seconds inside timed calls, all threads together: submitting, waiting for the GPU, and everything else."""
    found = {"submitting": 0.0, "waiting": 0.0, "other": 0.0}
    for name, nanoseconds in times.items():
        effect = calls.of(name).effect
        found["submitting" if effect == "submits" else "waiting" if effect == "waits" else "other"] += nanoseconds / 1e9
    return found


def _notes(recording: Recording) -> list[str]:
    notes = list(recording.notes)
    for process in recording.processes:
        if not process.whole:
            notes.append(f"process {process.pid} ended without its last word: what came after the last look is missing")
    if not recording.processes:
        notes.append("no process used the driver in that time")
    return notes
