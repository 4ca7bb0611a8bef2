"""Question: does a kernel or a copy inside the GPU run slower under Torpor?   Target: at most 0.1 % slower.

The layer is not there while the GPU works, so nothing should be seen. Memory that was mapped by the driver's virtual
memory calls could be slower than `cuMemAlloc`'s; this would show it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torpor.bench import parts, sources, turns
from torpor.bench.parts import Part
from torpor.bench.report.tables import size_name
from torpor.bench.results import Figure, Measurement, within
from torpor.bench.settings import Settings

BAR = within(0.001)
PLAIN = "a plain kernel in PTX, without tensor cores"


def run(settings: Settings) -> Iterator[Measurement]:
    """Bandwidth and plain products by the driver, products by PyTorch where it is and there is a GPU."""
    if not settings.software_gpu:
        settings = replace(settings, batch=max(settings.batch, 0.2))  # the bar is narrow
    with_torch = not settings.software_gpu and parts.NEEDS["torch"](settings) is None
    size, n = (32 << 20, 32) if settings.software_gpu else (1 << 30, 2048)
    kinds = [_bandwidth("copy", size), _bandwidth("fill", size)]
    if not with_torch:
        kinds += [_product(name, n, PLAIN) for name in ("f32", "f64")]
    yield from turns.compare([sys.executable, str(sources.path("raw_driver.py"))], kinds, settings)
    if with_torch:
        products: Sequence[turns.Kind] = [_product(name, 8192, "") for name in ("bf16", "tf32", "f32", "f64")]
        yield from turns.compare([sys.executable, str(sources.path("raw_torch.py"))], products, settings)


def _bandwidth(kind: str, size: int) -> turns.Kind:
    return turns.Kind(
        name=f"{kind} inside device memory",
        ask=f"{kind}:{size}",
        unit="GB/s",
        better="higher",
        value=lambda ns: size / ns,
        bars=(BAR,),
        figures=("bandwidth", "cost"),
        series=f"{kind}, {size_name(size)}",
    )


def _product(name: str, n: int, note: str) -> turns.Kind:
    return turns.Kind(
        name=f"matrix product {name}, {n} × {n}",
        ask=f"{name}:{n}",
        unit="TFLOP/s",
        better="higher",
        value=lambda ns: 2 * n**3 / ns / 1e3,
        bars=(BAR,),
        figures=("products", "cost"),
        series=f"{name}, {n} × {n}",
        note=note,
    )


PART = Part(
    "raw",
    "Raw: bandwidth and matrix products inside the GPU",
    run,
    figures=(
        Figure(name="bandwidth", title="Bandwidth inside device memory", kind="bars", y="GB/s (bytes written)"),
        Figure(name="products", title="Matrix products", kind="bars", y="TFLOP/s"),
        Figure(name="cost", title="Raw work under Torpor, relative to native", kind="cost"),
    ),
)
