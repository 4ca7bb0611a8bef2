"""The picture of a profile's course. No GPU takes part."""

from __future__ import annotations

from typing import Any

from torpor.profiling import plot
from torpor.profiling.summary import Profile


def point(seconds: float, calls: int) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "calls": calls,
        "launches": 0,
        "bytes": 0,
        "busy": 0.0,
        "families": {"copy": calls},
        "queued": 0,
    }


def test_axes_begin_at_zero_and_are_whole_where_nothing_happened() -> None:
    profile = Profile(
        job="j",
        command=[],
        backend="sim",
        level="counts",
        seconds=100.0,
        processes=[],
        calls={"by_family": [{"family": "copy"}]},
        launches={},
        bytes={},
        gpu=None,
        kernels=None,
        driver_time=None,
        vm={},
        cost={},
        timeline=[point(0.0, 0), point(50.0, 5000), point(100.0, 5000)],
        notes=[],
    )
    rates, launches, moved, busy = plot.canvas_of(profile).axes
    assert rates.get_ylim()[0] == 0 and rates.get_ylim()[1] > 100
    assert launches.get_ylim() == moved.get_ylim() == (0, 1)
    assert busy.get_ylim() == (0, 105)
    assert [axes.get_ylabel() for axes in (rates, busy)] == ["calls / s", "GPU busy / %"]
