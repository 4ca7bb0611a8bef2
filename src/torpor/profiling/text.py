"""A profile for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torpor.profiling.summary import Profile

ROWS = 20
NAME = 60
"""Characters of a kernel's name, which may be a page long."""

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]


def report(profile: Profile, table: Table, size: Callable[[float], str]) -> str:
    """The whole profile as text; `table` and `size` are how the command line writes tables and bytes."""
    parts = [_head(profile)]
    if profile.calls["calls"]:
        parts += [
            table(("family", "calls", "per second", "per gpu second"), _rows(profile.calls["by_family"], "family")),
            _names(profile, table),
            _kernels(profile, table),
            _moved(profile, size),
            _cost(profile, table),
        ]
    if profile.driver_time is not None:
        spent = ", ".join(f"{what} {seconds:.3f} s" for what, seconds in profile.driver_time.items())
        parts.append(f"in the driver: {spent}")
    if any(profile.vm.values()):
        parts.append("deferral: " + ", ".join(f"{name} {count}" for name, count in profile.vm.items()))
    parts += [f"note: {note}" for note in profile.notes]
    return "\n\n".join(part for part in parts if part)


def _head(profile: Profile) -> str:
    found = profile.calls
    gpu = profile.gpu
    busy = "GPU busy time not known"
    if gpu:
        busy = f"GPU busy {gpu['share']:.1%} ({gpu['seconds']:.3f} s by {gpu['source']})"
    launches = profile.launches
    return (
        f"{profile.job}: {found['calls']} driver calls in {profile.seconds:.2f} s, {busy}\n"
        f"{launches['kernels']['calls']} kernel launches, {launches['graphs']['calls']} graph launches; "
        f"{found['question_share']:.1%} of the calls are questions with a constant answer"
    )


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2f}"


def _rows(entries: list[dict[str, Any]], key: str) -> list[tuple[str, ...]]:
    return [
        (one[key], str(one["calls"]), _rate(one["per_second"]), _rate(one["per_gpu_second"])) for one in entries
    ]


def _names(profile: Profile, table: Table) -> str:
    entries = profile.calls["by_name"]
    rows = _rows(entries[:ROWS], "name")
    columns: tuple[str, ...] = ("call", "calls", "per second", "per gpu second")
    if profile.level == "times":
        columns = (*columns, "seconds")
        rows = [
            (*row, "-" if one["seconds"] is None else f"{one['seconds']:.4f}")
            for row, one in zip(rows, entries, strict=False)
        ]
    return table(columns, rows) + _rest(entries)


def _kernels(profile: Profile, table: Table) -> str:
    if not profile.kernels:
        return ""
    rows = [
        (
            one["name"] if len(one["name"]) <= NAME else f"{one['name'][: NAME - 1]}…",
            str(one["calls"]),
            f"{one['seconds']:.4f}",
            f"{one['share']:.1%}",
            f"{one['mean'] * 1e6:.1f}",
            f"{one['longest'] * 1e6:.1f}",
        )
        for one in profile.kernels[:ROWS]
    ]
    return table(("kernel, copy or fill", "times", "seconds", "share", "mean / us", "longest / us"), rows) + _rest(
        profile.kernels
    )


def _rest(entries: list[dict[str, Any]]) -> str:
    more = len(entries) - ROWS
    return f"\n… and {more} more (--json has all)" if more > 0 else ""


def _moved(profile: Profile, size: Callable[[float], str]) -> str:
    moved = [f"{name.replace('_', ' ')} {size(count)}" for name, count in profile.bytes.items() if count]
    return "moved: " + ", ".join(moved) if moved else ""


def _cost(profile: Profile, table: Table) -> str:
    rows = [
        (one["what"], str(one["calls"]), f"{one['nanoseconds_each']:.1f}", f"{one['seconds'] * 1e3:.3f}", one["source"])
        for one in profile.cost["reasons"]
    ]
    head = (
        f"what the layer costs this job, at most: {profile.cost['seconds'] * 1e3:.3f} ms, "
        f"{profile.cost['share']:.4%} of its time (counting itself: {profile.cost['counting_seconds'] * 1e3:.3f} ms)"
    )
    return f"{head}\n{table(('because of', 'calls', 'ns each', 'ms', 'measured in'), rows)}" if rows else ""
