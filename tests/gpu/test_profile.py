"""What `torpor profile` says of training and generation, against torch.profiler and CUPTI in runs of their own.

A run of N repeats is taken from one of 3 N: what is left is 2 N repeats without start and warm-up, under load.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from torpor.profiling.kernels import SOURCE

PROGRAM = Path(__file__).with_name("measured.py")
REPEATS = {"train": 200, "generate": 5}
TOLERANCE = 0.02
INSIDE = 0.05
"""How far kernels may take longer or shorter in a job than natively: clocks and neighbours differ from run to run."""


class Figures(NamedTuple):
    """Of one repeat."""

    launches: float
    gpu_seconds: float
    calls: dict[str, float]


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def profile(kind: str, repeats: int, *options: str) -> dict[str, Any]:
    words = ("-m", "torpor", "profile", "--json", "--interval", "0.1", *options, "--", sys.executable)
    found: dict[str, Any] = json.loads(run(*words, str(PROGRAM), kind, str(repeats)).splitlines()[-1])
    assert all(process["whole"] for process in found["processes"])
    return found


@cache
def by_torpor(kind: str) -> Figures:
    """Launches and calls as counted, GPU time by the counter of the hardware."""
    count = REPEATS[kind]
    short, long = profile(kind, count), profile(kind, 3 * count)
    for found in (short, long):
        assert found["gpu"]["source"].startswith("NVML, counters"), found["gpu"]
    return Figures(
        (long["launches"]["kernels"]["calls"] - short["launches"]["kernels"]["calls"]) / (2 * count),
        (long["gpu"]["seconds"] - short["gpu"]["seconds"]) / (2 * count),
        per_repeat(by_name(short), by_name(long), count),
    )


@cache
def by_kernels(kind: str) -> Figures:
    """Kernels that ran and GPU time, with `--kernels`."""
    count = REPEATS[kind]
    short, long = profile(kind, count, "--kernels"), profile(kind, 3 * count, "--kernels")
    for found in (short, long):
        assert found["gpu"]["source"] == SOURCE, found["notes"]
        assert found["notes"] == []
    rows = [[one for one in found["kernels"] if one["kind"] == "kernel"] for found in (short, long)]
    before, after = (sum(one["calls"] for one in kernels) for kernels in rows)
    seconds = long["gpu"]["seconds"] - short["gpu"]["seconds"]
    return Figures((after - before) / (2 * count), seconds / (2 * count), {})


def by_name(profile: dict[str, Any]) -> dict[str, int]:
    return {one["name"]: one["calls"] for one in profile["calls"]["by_name"]}


def per_repeat(short: dict[str, int], long: dict[str, int], count: int) -> dict[str, float]:
    """Calls by name in one repeat, of runs of `count` and of three times as many."""
    return {name: (calls - short.get(name, 0)) / (2 * count) for name, calls in long.items()}


@cache
def by_cupti(kind: str, folder: Path) -> dict[str, float]:
    """Driver calls by name in one repeat, as the driver tells CUPTI of them."""
    library, count = folder / "counted.so", max(REPEATS[kind] // 5, 3)
    source = PROGRAM.with_name("counted.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    found = []
    for repeats in (count, 3 * count):
        file = folder / f"{kind}-{repeats}.txt"
        run(str(PROGRAM), kind, str(repeats), "--count", str(library), str(file))
        lines = (line.split() for line in file.read_text().splitlines())
        found.append({name: int(calls) for name, calls in lines})
    return per_repeat(*found, count)


@cache
def by_torch(kind: str, folder: Path, *inside: str) -> Figures:
    """Kernels that ran, and the time in which at least one kernel, copy or fill was at work; `inside` a job, or not.

    The same repeats as are left of `by_torpor`: as many came before, for a GPU under load lowers its clocks.
    """
    trace, count = folder / f"{kind}{len(inside)}.json", REPEATS[kind]
    words = (str(PROGRAM), kind, str(3 * count), "--trace", str(trace))
    run(*inside, *((sys.executable,) if inside else ()), *words)
    events = [
        (event["ts"], event["ts"] + event["dur"], event["cat"])
        for event in json.loads(trace.read_text())["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    busy, until = 0.0, 0.0
    for begun, ended, _kind in sorted(events):
        busy += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return Figures(sum(cat == "kernel" for *_, cat in events) / (2 * count), busy / 1e6 / (2 * count), {})


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize("kind", REPEATS)
@pytest.mark.timeout(1800)
def test_launches_agree(kind: str, traces: Path) -> None:
    assert by_torpor(kind).launches == pytest.approx(by_torch(kind, traces).launches, rel=TOLERANCE)


@pytest.mark.parametrize("kind", REPEATS)
@pytest.mark.timeout(1800)
def test_gpu_time_agrees(kind: str, traces: Path) -> None:
    ours, theirs = by_kernels(kind), by_torch(kind, traces)
    assert ours.gpu_seconds == pytest.approx(theirs.gpu_seconds, rel=TOLERANCE)
    assert ours.launches == pytest.approx(theirs.launches, rel=TOLERANCE)


@pytest.mark.parametrize("kind", REPEATS)
@pytest.mark.timeout(1800)
def test_the_counter_is_an_upper_bound(kind: str) -> None:
    assert by_torpor(kind).gpu_seconds >= by_kernels(kind).gpu_seconds * (1 - TOLERANCE)


@pytest.mark.parametrize("kind", REPEATS)
@pytest.mark.timeout(1800)
def test_torch_profiler_works_in_a_job(kind: str, traces: Path) -> None:
    inside, outside = by_torch(kind, traces, "-m", "torpor", "run", "--"), by_torch(kind, traces)
    assert inside.launches == pytest.approx(outside.launches, rel=TOLERANCE)
    assert inside.gpu_seconds == pytest.approx(outside.gpu_seconds, rel=INSIDE)


@pytest.mark.parametrize("kind", REPEATS)
@pytest.mark.timeout(1800)
def test_every_call_is_counted(kind: str, traces: Path) -> None:
    """By name, all that a repeat makes once or more."""
    ours, theirs = by_torpor(kind).calls, by_cupti(kind, traces)
    often = {name for name, calls in (*ours.items(), *theirs.items()) if calls >= 1}
    assert {name: ours.get(name, 0) for name in often} == pytest.approx(
        {name: theirs.get(name, 0) for name in often}, rel=TOLERANCE
    )
