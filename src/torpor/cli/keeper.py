"""`torpor keeper`: the daemon that holds and moves GPU memory; it starts by itself when it is needed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import click

from torpor import api
from torpor.cli import output
from torpor.cli.sub_commands import SubCommands
from torpor.errors import UsageError
from torpor.records import Backend

which = click.option(
    "--gpu",
    "backend",
    type=click.Choice(["gpu", "sim"]),
    default=api.default_backend,
    help="Which driver's keeper.  [default: what `torpor run` would use]",
)


@click.group("keeper", cls=SubCommands, no_args_is_help=False)
def command() -> None:
    """Look after the daemon that moves memory. It starts by itself when it is needed."""


@command.command()
@which
@output.json_flag
def status(backend: Backend) -> None:
    """Say whether the keeper runs and what it holds."""
    facts = api.keeper_status(backend)
    if facts is None:
        output.result({"backend": backend, "running": False}, f"no keeper runs for {backend}")
        return
    lines = "".join(f"\n  {key}: {value}" for key, value in _told(facts))
    output.result({"backend": backend, "running": True, **facts}, f"the keeper for {backend} runs{lines}")


def _told(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a keeper says of itself, for people: a word and what there is to it."""
    yield "process", f"{facts['pid']}, version {facts['version']}, up for {output.age(facts['uptime'])}"
    if not facts["recovered"]:
        yield "recovery", "of what an earlier keeper left is under way"
    yield "at work on", ", ".join(f"{name} ({verb})" for name, verb in facts["busy"].items()) or "nothing"
    pool = facts["pool"]
    held = ", ".join(f"{output.size(pool[key])} {key}" for key in ("free", "lent", "kept"))
    yield "pinned memory", f"{held}; {output.size(pool['limit'])} at the most"
    for name, one in facts["writing"].items():
        yield "writing", f"{name}: {one['told']}"
    if "driver_version" not in facts:
        yield "driver", "is not there yet"
        return
    version = facts["driver_version"]
    yield "driver", f"for CUDA {version // 1000}.{version % 1000 // 10}"
    for one in facts["devices"]:
        yield f"GPU {one['ordinal']}", f"{one['name']}, {output.size(one['memory'])}, {one['uuid']}"


@command.command()
@which
@output.json_flag
def start(backend: Backend) -> None:
    """Start the keeper and wait until it answers."""
    api.keeper_start(backend)
    output.result({"backend": backend, "running": True}, f"the keeper for {backend} runs")


@command.command()
@which
@output.json_flag
def stop(backend: Backend) -> None:
    """Stop the keeper; jobs run on."""
    was = api.keeper_stop(backend)
    text = f"the keeper for {backend} stopped" if was else f"no keeper ran for {backend}"
    output.result({"backend": backend, "stopped": was}, text)


@command.command()
@click.argument("size")
@which
@output.json_flag
def warm(size: str, backend: Backend) -> None:
    """Pin SIZE bytes (or 512M, 16G) ahead of time, so that the next verb of that size starts at full speed."""
    count = parse_size(size)
    facts = api.keeper_warm(backend, count)
    output.result({"backend": backend, "bytes": count, **facts}, f"{output.size(count)} pinned")


def parse_size(text: str) -> int:
    """`512M`, `16GiB`, `1024` → bytes, in powers of 1024; UsageError otherwise."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    count = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else math.inf
    if count >= 1 << 63:
        raise UsageError(f"{text!r} is not a size", hint="use bytes, or a unit as in 512M or 16G")
    return int(count)
