"""Thousands of random programs: a process makes dozens of them, since most of the time goes into its start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

GROUP = 40

Programs = list[Any]


def drawn(strategy: st.SearchStrategy[Programs], examples: int) -> Programs:
    """So many lists of programs, in one; other ones each time."""
    found: Programs = []

    @settings(
        max_examples=examples, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=HealthCheck
    )
    @given(some=strategy)
    def take(some: Programs) -> None:
        found.extend(some)

    take()
    return found


def groups(programs: Programs) -> Iterator[Programs]:
    """Of GROUP at most. What loses its context ends its process, so there is one in a group, at the end."""
    losing = [program for program in programs if any(name == "stray" for _, name, *_ in program)]
    others = [program for program in programs if program not in losing]
    while others or losing:
        yield [*others[: GROUP - 1], *losing[:1]]
        del others[: GROUP - 1], losing[:1]


def all_hold(compare: Callable[[Programs], object], strategy: st.SearchStrategy[Programs], examples: int) -> int:
    """Compare programs, group by group, and return how many there were; fail with the one that is not right."""
    programs = drawn(strategy, examples)
    for group in groups(programs):
        try:
            compare(group)
        except AssertionError as error:
            pytest.fail(f"{_shortest(compare, group)}\n{error}")
    return len(programs)


def _shortest(compare: Callable[[Programs], object], group: Programs) -> str:
    """The program by itself, if it fails by itself, else the group, as JSON for `tests.vm.calls`."""
    for program in group:
        try:
            compare([program])
        except AssertionError:
            return json.dumps([program])
    return json.dumps(group)
