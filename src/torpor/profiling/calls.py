"""What is known of each driver call: `calls.txt`, which the generator writes from the description of the API."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Call(NamedTuple):
    """A symbol's family, effect and door (docs/design/interposer.md); is it a question with a constant answer?"""

    name: str
    family: str
    effect: str
    door: str
    question: bool


@cache
def known() -> dict[str, Call]:
    """Every symbol that the interposer exports."""
    text = files("torpor.profiling").joinpath("calls.txt").read_text()
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {row[0]: Call(row[0], row[1], row[2], row[3], row[4] == "question") for row in rows}


def of(name: str) -> Call:
    """What is known of a symbol; of one that a newer interposer counted, nothing."""
    return known().get(name) or Call(name, "unknown", "none", "forward", False)


def is_kernel_launch(name: str) -> bool:
    """Whether a call of it starts one kernel."""
    return name.startswith("cuLaunch") and not name.startswith("cuLaunchHostFunc")


def is_graph_launch(name: str) -> bool:
    return name.startswith("cuGraphLaunch")
