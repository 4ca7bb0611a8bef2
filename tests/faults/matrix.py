"""All rows of the fault matrix: those of flows (`rows`), and of what the keeper does when a flow is done."""

from __future__ import annotations

import errno

from tests.faults import rows
from tests.faults.rows import Agent, Row

WAY = ("write back", "write chunks", "write image", "write image:end", "leave memory", "leave memory:end")
"""From the moment that an image is whole in memory until it is in its store alone; the middle is the writer's."""


def memory_rows() -> list[Row]:
    """An image fails to get out of memory: the job sleeps in it all the same; it gets there when the fault is gone."""
    found = []
    for step in WAY:
        last = step.startswith("leave")
        agent: Agent = "writer" if step in WAY[1:4] else "keeper"
        for number in (errno.EIO, errno.ENOSPC):
            # What leaves memory is durable already, so the verb can wait until that has been done.
            text = f"{step}@1{'' if last else '+'}=fail:{number}"
            found.append(_on_the_way(step, agent, errno.errorcode[number], text, not last))
        found.append(_on_the_way(step, agent, "SIGKILL", f"{step}=kill", agent == "writer"))
        if agent == "writer":
            found.append(_on_the_way(step, "keeper of the writer", "SIGKILL", f"{step}=hang:GATE", False))
    return found


def _on_the_way(step: str, agent: Agent, fault: str, text: str, failing: bool) -> Row:
    fast = step == "write image:end" and fault == "SIGKILL"
    return Row("through memory to store", step, agent, fault, text, ("asleep",), failing=failing, fast=fast)


def all_rows() -> list[Row]:
    return [
        *rows.keeper_rows(),
        *rows.process_rows(),
        *rows.driver_rows(),
        *rows.second_rows(),
        *rows.criu_rows(),
        *rows.disk_rows(),
        *memory_rows(),
    ]
