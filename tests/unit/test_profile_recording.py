"""What is made of looks and last words: sums since the beginning, a bounded course, and the predicted cost."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from torpor.keeper.control import Counted, DeviceId
from torpor.profiling import Recording, cost


def counted(pid: int, clock: int, launches: int, **more: object) -> Counted:
    facts: dict[str, object] = {
        "pid": pid,
        "state": "running",
        "level": "counts",
        "lease_ms": -1,
        "clock_ns": clock,
        "threads": 1,
        "calls": {"cuLaunchKernel": launches},
        "bytes": {},
        "nanoseconds": {},
    }
    return Counted(**(facts | more))  # type: ignore[arg-type]


def launches(recording: Recording) -> int:
    return recording.total("calls")["cuLaunchKernel"]


def test_only_what_came_after_the_first_look() -> None:
    recording = Recording("job", "counts")
    recording.see([counted(300, 1, 1000)], first=True)
    assert launches(recording) == 0
    recording.see([counted(300, 2, 1010), counted(301, 2, 7)], first=False)
    assert launches(recording) == 17  # a new process had counted nothing for anybody else
    recording.hear(counted(300, 3, 1011))
    assert launches(recording) == 18
    recording.see([counted(301, 4, 9)], first=False)  # the one that has ended does not answer, and is still counted
    assert launches(recording) == 20
    assert [(one.pid, one.ended) for one in recording.processes] == [(300, True), (301, False)]


def test_last_words() -> None:
    recording = Recording("job", "counts")
    recording.hear(counted(300, 5, 3))  # of a process that nobody ever looked at
    recording.hear(counted(300, 9, 4))  # and of a later one with its pid
    assert launches(recording) == 7
    recording.see([counted(300, 12, 5)], first=False)
    recording.hear(counted(300, 11, 1))  # older than the look: another process's
    assert launches(recording) == 13
    recording.hear(counted(300, 13, 6))
    assert launches(recording) == 14


def test_busy_time_is_by_device() -> None:
    recording = Recording("job", "counts")
    devices = [DeviceId(0, "GPU-a"), DeviceId(1, "GPU-b")]
    recording.see([counted(300, 1, 0, busy_ns=[10**9, 0], devices=devices)], first=True)
    recording.see([counted(300, 2, 0, busy_ns=[3 * 10**9, 10**9])], first=False)
    recording.hear(counted(301, 2, 0, busy_ns=[5 * 10**8]))
    assert recording.ask_the_driver()
    assert recording.busy == {"GPU-a": 2.5, "GPU-b": 1.0}
    assert not Recording("job", "counts").ask_the_driver()


def test_a_long_course_stays_short() -> None:
    recording = Recording("job", "counts")
    for number in range(20_000):
        recording.mark(number / 4)
    recording.mark(5000.0, last=True)
    assert 500 < len(recording.points) <= 2001
    times = [point.seconds for point in recording.points]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (0.0, 5000.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) < 20


def test_cost_is_the_sum_of_its_reasons() -> None:
    calls = Counter(
        {"cuLaunchKernel": 1000, "cuStreamSynchronize": 10, "cuCtxGetDevice": 500, "cuMemcpyDtoH_v2": 3, "cuNew": 2}
    )
    found = {one.what: one for one in cost.predict(calls, Counter(), real=True, arena=True)}
    assert {one.calls for one in found.values()} == {1000, 13, 502, 3}
    assert sum(one.seconds for one in found.values()) == pytest.approx(
        (1000 * 1.8 + 13 * 1.2 + 502 * 0.3 + 3 * 200) / 1e9
    )
    without = cost.predict(calls, Counter(), real=True, arena=False)
    assert sum(one.calls for one in without) == calls.total()
    vm = Counter({"answered": 500, "deferred": 80, "merged": 20, "lost_ns": 17_000, "saved_ns": 400_000})
    gains = {one.what: one for one in cost.predict(calls, vm, real=False, arena=True)}
    assert gains["calls deferred or merged"].seconds == pytest.approx((17_000 - 400_000) / 1e9)
    assert gains["calls deferred or merged"].calls == 80  # those merged among them
    assert gains["questions answered in the job"].seconds < 0
    assert cost.counting_seconds(calls, "times") > cost.counting_seconds(calls, "counts") > 0


def test_sources_of_the_prices_exist() -> None:
    root = Path(__file__).parents[2]
    for price in (*cost.PRICES, *cost.COPIES):
        first = price.source.split(",")[0].split(" and ")[0]
        assert (root / first).is_file(), price.source
