"""What the layer costs a job, from how often it makes which calls: one table of measured figures, and the sum of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torpor.profiling import calls
from torpor.profiling.calls import Call

_GATE = "bench/native/gate_cost.cpp, docs/design/interposer.md"
_ANSWER = "docs/results/h200.md, cuCtxGetDevice"
_H200 = "docs/results/h200.md, small copies"
_QUEUE = "measured in the job"


@dataclass(frozen=True)
class Price:
    """What one such call takes longer than natively, in nanoseconds, and where that was measured."""

    what: str
    nanoseconds: float
    source: str
    applies: Callable[[Call], bool]


PRICES: tuple[Price, ...] = (
    Price("launches of kernels, gated", 1.8, _GATE, lambda call: calls.is_kernel_launch(call.name)),
    Price("other gated calls", 1.2, _GATE, lambda call: call.door in ("gate", "wait", "hook", "override")),
    Price("calls that are passed on by a jump", 0.3, _GATE, lambda _call: True),
)
"""Each call has the first price that applies."""

COPIES: tuple[Price, ...] = (
    Price("small copies in, asynchronous, to mapped memory", 115.0, _H200,
          lambda call: call.name.startswith("cuMemcpyHtoDAsync")),
    Price("small copies out, of mapped memory", 200.0, _H200, lambda call: call.name.startswith("cuMemcpyDtoH")),
)  # fmt: skip
"""What the driver itself takes longer for memory that was mapped by its virtual memory calls, as arena memory is."""

ANSWERED_NS = 6.1 - 8.4
"""A question answered in the job, against the driver's own answer: the most frequent one, which saves the least."""

COUNTING_NS = 0.5
TIMING_NS = 13.5
"""What counting and timing add to a call themselves (bench/count_cost.py, docs/design/profile.md)."""


@dataclass(frozen=True)
class Reason:
    """A part of the sum; a gain is negative."""

    what: str
    calls: int
    nanoseconds_each: float
    source: str

    @property
    def seconds(self) -> float:
        return self.calls * self.nanoseconds_each / 1e9


def counting_seconds(counted: Counter[str], level: str) -> float:
    """What the profile itself costs the job."""
    timed = sum(count for name, count in counted.items() if calls.of(name).effect != "none") if level == "times" else 0
    return (counted.total() * COUNTING_NS + timed * TIMING_NS) / 1e9


def predict(counted: Counter[str], vm: Counter[str], *, real: bool, arena: bool) -> list[Reason]:
    """Why the layer costs what it costs. `real`: on a GPU, where the figures of copies hold; `arena`: memory is ours.

    All of it is on the critical path only where the processor is what the job waits for: else this is an upper bound.
    """
    found: Counter[Price] = Counter()
    answered = vm["answered"]
    for name, count in counted.items():
        call = calls.of(name)
        found[next(price for price in PRICES if price.applies(call))] += count
        if real and arena:
            found.update({price: count for price in COPIES if price.applies(call)})
    reasons = [Reason(price.what, found[price], price.nanoseconds, price.source) for price in (*PRICES, *COPIES)]
    if answered:
        reasons.append(Reason("questions answered in the job", answered, ANSWERED_NS, _ANSWER))
    if handed := vm["deferred"]:  # what was merged, too
        # What the job itself reckons (docs/design/control-protocol.md).
        reasons.append(Reason("calls deferred or merged", handed, (vm["lost_ns"] - vm["saved_ns"]) / handed, _QUEUE))
    return [reason for reason in reasons if reason.calls]
