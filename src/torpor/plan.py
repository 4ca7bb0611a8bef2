"""How often to checkpoint, and what failures cost a day: closed forms, and a simulation that does not share them.

The model (docs/guide/plan.md): failures come at random with a mean time between them; a checkpoint stops the job for
its cost; a failure costs the work since the last checkpoint and the restart; another failure may come at any moment,
during a restart too. Times are in hours unless a name says seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

DAY = 24.0
SECOND = 1 / 3600


@dataclass(frozen=True)
class Way:
    """One way of saving work. `cost`: the job stands still for so long a checkpoint; `restart`: from a failure until it
    works on where it was. `bytes_kept`: what is stored at any time."""

    name: str
    cost: float
    restart: float
    bytes_kept: float = 0.0


@dataclass(frozen=True)
class Conditions:
    """`between_failures`: mean hours. `announced`: share of failures (0 to 1) that leave time for one checkpoint, as
    preemptions with notice do. `shape`: of the Weibull distribution of the time between them; 1 is memoryless, less
    than 1 means that failures come in bunches. `price`: of a GB (1e9 bytes) a month of 30 days."""

    between_failures: float
    announced: float = 0.0
    shape: float = 1.0
    price: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What one way costs at one interval (`interval` hours of work between checkpoints). Shares are of all time."""

    way: Way
    interval: float
    lost_share: float
    storage_per_day: float

    @property
    def lost_hours_per_day(self) -> float:
        return self.lost_share * DAY


def young(way: Way, conditions: Conditions) -> float:
    """Young's first-order interval: sqrt(2 C M)."""
    return math.sqrt(2 * way.cost * conditions.between_failures)


def daly(way: Way, conditions: Conditions) -> float:
    """Daly's higher-order interval; M where a checkpoint takes more than twice the time between failures."""
    ratio = way.cost / (2 * conditions.between_failures)
    if ratio >= 1:
        return conditions.between_failures
    return young(way, conditions) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - way.cost


def lost_share(way: Way, conditions: Conditions, interval: float) -> float:
    """The share of all time that is no new work, for memoryless failures: exact, not first order."""
    mean, period = conditions.between_failures, interval + way.cost
    # Whole periods of work and checkpoint before a failure, on average.
    useful = interval / math.expm1(min(period / mean, 700.0))
    if conditions.announced:
        # What the last, unfinished period holds beyond the cost of the checkpoint that the warning leaves time for.
        rest = math.exp(-way.cost / mean) * (mean - (interval + mean) * math.exp(-interval / mean))
        useful += conditions.announced * rest / -math.expm1(-period / mean)
    return 1 - useful / (mean * math.exp(min(way.restart / mean, 700.0)))


def best(way: Way, conditions: Conditions) -> Plan:
    """The interval that loses least, found on the exact form."""
    low, high = math.log(way.cost / 100 + 1e-9), math.log(100 * (young(way, conditions) + way.cost))
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(200):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if lost_share(way, conditions, math.exp(left)) < lost_share(way, conditions, math.exp(right)):
            high = right
        else:
            low = left
    return at(way, conditions, math.exp((low + high) / 2))


def at(way: Way, conditions: Conditions, interval: float) -> Plan:
    """What that interval costs."""
    storage = way.bytes_kept / 1e9 * conditions.price / 30
    return Plan(way, interval, lost_share(way, conditions, interval), storage)


def lost_without(restart: float, conditions: Conditions, length: float) -> float:
    """The share of all time that a job of `length` hours of work loses when it begins anew after each failure."""
    mean = conditions.between_failures
    if length / mean > 700:
        return 1.0  # it never ends
    return 1 - length / (mean * math.exp(restart / mean) * math.expm1(length / mean))


@dataclass(frozen=True)
class Simulated:
    """Mean share lost over several runs, and the standard error of that mean."""

    lost_share: float
    error: float


def simulate(
    way: Way, conditions: Conditions, interval: float, *, runs: int = 20, failures: int = 5000, seed: int = 1
) -> Simulated:
    """Let time pass: `runs` times as many `failures`, drawn from a Weibull distribution of the conditions' mean."""
    random = np.random.default_rng(seed)
    scale = conditions.between_failures / math.gamma(1 + 1 / conditions.shape)
    shares = []
    for _ in range(runs):
        up = scale * random.weibull(conditions.shape, failures)
        saved = np.floor(up / (interval + way.cost)) * interval
        warned = random.random(failures) < conditions.announced
        # With a warning one more checkpoint is made, of all the work so far.
        since = up - np.floor(up / (interval + way.cost)) * (interval + way.cost)
        saved += np.where(warned, np.clip(since - way.cost, 0, interval), 0)
        down = np.array([_restart(random, way.restart, scale, conditions.shape) for _ in range(failures)])
        shares.append(1 - saved.sum() / (up.sum() + down.sum()))
    return Simulated(float(np.mean(shares)), float(np.std(shares, ddof=1) / math.sqrt(runs)))


def _restart(random: np.random.Generator, needed: float, scale: float, shape: float) -> float:
    """Hours until a restart succeeds, in which failures may come."""
    spent = 0.0
    while (lasted := scale * random.weibull(shape)) < needed:
        spent += lasted
    return spent + needed


def chance_of_restart(restart: float, conditions: Conditions) -> float:
    """How likely a restart of so many hours comes to its end before the next failure."""
    scale = conditions.between_failures / math.gamma(1 + 1 / conditions.shape)
    if restart <= 0:
        return 1.0
    times = min(conditions.shape * math.log(restart / scale), 6.0)  # beyond e**6 of them it is none
    return math.exp(-math.exp(times))


def curve(way: Way, conditions: Conditions, points: int = 60) -> Iterator[tuple[float, float]]:
    """(interval in hours, share lost) around the best interval, from a thirtieth of it to thirty times."""
    middle = best(way, conditions).interval
    for exponent in np.linspace(-1, 1, points):
        interval = middle * 30.0 ** float(exponent)
        yield interval, lost_share(way, conditions, interval)


def to_dict(plan: Plan, simulated: Simulated, conditions: Conditions) -> dict[str, Any]:
    """JSON-safe; seconds and shares."""
    return {
        "way": plan.way.name,
        "checkpoint_seconds": plan.way.cost / SECOND,
        "restart_seconds": plan.way.restart / SECOND,
        "interval_seconds": plan.interval / SECOND,
        "young_seconds": young(plan.way, conditions) / SECOND,
        "daly_seconds": daly(plan.way, conditions) / SECOND,
        "lost_share": plan.lost_share,
        "lost_hours_per_day": plan.lost_hours_per_day,
        "simulated_lost_share": simulated.lost_share,
        "simulated_error": simulated.error,
        "storage_per_day": plan.storage_per_day,
    }
