"""Question: what do launches and the most frequent driver calls cost?   Target: at most 1 % over native.

Launches by one to N threads at once, each into its own stream, and by one thread into several streams; launches of
graphs; and the ten calls that occurred most often in PyTorch training, torch.compile, Transformers generation, JAX and
CuPy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from torpor.bench import sources, turns
from torpor.bench.parts import Part
from torpor.bench.results import Figure, Measurement, within
from torpor.bench.settings import Settings

BAR = within(0.01)
CALLS = (
    "cuCtxGetDevice",
    "cuDevicePrimaryCtxGetState",
    "cuLaunchKernel",
    "cuKernelGetAttribute",
    "cuCtxGetCurrent",
    "cuGetErrorString",
    "cuLaunchKernelEx",
    "cuGetProcAddress",
    "cuDeviceGetAttribute",
    "cuKernelSetAttribute",
)
"""By frequency, all five programs counted together."""

GRAPHS = (1, 32, 256)
MOST_THREADS = 16


def run(settings: Settings) -> Iterator[Measurement]:
    """Single-threaded kinds on one processor, those of several threads on as many as there are threads."""
    command = [str(sources.compiled("launches", settings.scratch))]
    small = settings.software_gpu or settings.quick
    single = [_streams(streams) for streams in ((2,) if small else (2, 8, 32))]
    single += [_graph(nodes) for nodes in (GRAPHS[:2] if small else GRAPHS)]
    single += [
        turns.Kind(
            name=name,
            ask=f"call:{name}",
            bars=(BAR,),
            figures=("calls", "calls-cost"),
            series=name,
            panel="launches" if name.startswith("cuLaunch") else "questions",
        )
        for name in CALLS
    ]
    yield from turns.compare(command, single, settings)
    threads = _threads(settings)
    yield from turns.compare(command, [_many(number) for number in threads], settings, cores=max(threads))


def _threads(settings: Settings) -> list[int]:
    """Powers of two up to the processors at hand; two at least, so that threads meet."""
    most = max(2, min(MOST_THREADS, len(os.sched_getaffinity(0)), 4 if settings.quick else MOST_THREADS))
    return [1 << power for power in range(most.bit_length())]


def per_second(ns: float) -> float:
    """Thousands in a second."""
    return 1e6 / ns


def _many(threads: int) -> turns.Kind:
    return turns.Kind(
        name=f"launches by {threads} thread{'s' * (threads > 1)}",
        ask=f"threads:{threads}",
        unit="1000/s",
        better="higher",
        value=per_second,
        bars=(BAR,),
        figures=("rate", "rate-cost"),
        x=threads,
    )


def _streams(streams: int) -> turns.Kind:
    return turns.Kind(
        name=f"launches by 1 thread into {streams} streams",
        ask=f"streams:{streams}",
        unit="1000/s",
        better="higher",
        value=per_second,
        bars=(BAR,),
        figures=("graphs-cost",),
        series=f"{streams} streams",
    )


def _graph(nodes: int) -> turns.Kind:
    return turns.Kind(
        name=f"launches of a graph of {nodes} kernel{'s' * (nodes > 1)}",
        ask=f"graph:{nodes}",
        unit="µs",
        value=turns.microseconds,
        bars=(BAR,),
        figures=("graphs", "graphs-cost"),
        series=f"graph of {nodes}",
    )


PART = Part(
    "launch",
    "Launches and frequent calls",
    run,
    needs=("compiler",),
    figures=(
        Figure(
            name="rate",
            title="Null-kernel launches by several threads at once",
            kind="lines",
            x="threads, each with a stream of its own",
            y="launches a second, thousands",
        ),
        Figure(name="rate-cost", title="Launches by several threads, relative to native", kind="cost", x="threads"),
        Figure(name="graphs", title="Launches of graphs of null kernels", kind="bars", y="µs per graph"),
        Figure(name="graphs-cost", title="Several streams, and graphs, relative to native", kind="cost"),
        Figure(name="calls", title="The ten most frequent calls", kind="bars", y="ns per call"),
        Figure(name="calls-cost", title="The ten most frequent calls, relative to native", kind="cost"),
    ),
)  # fmt: skip
