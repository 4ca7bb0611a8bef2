"""`torpor keeper`: the daemon that holds and moves GPU memory; it starts by itself when it is needed."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from torpor import api
from torpor.cli import output
from torpor.errors import UsageError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Look after the daemon that moves memory."
)

Driver = Annotated[str | None, typer.Option("--gpu", metavar="gpu|sim", help="Which driver's keeper.")]


@app.command()
def status(gpu: Driver = None, json: output.JsonFlag = False) -> None:
    """Say whether the keeper runs and what it holds."""
    del json
    backend = _backend(gpu)
    facts = api.keeper_status(backend)
    if facts is None:
        output.result({"backend": backend, "running": False}, f"no keeper runs for {backend}")
        return
    lines = "\n".join(f"  {key}: {value}" for key, value in facts.items())
    output.result({"backend": backend, "running": True, **facts}, f"the keeper for {backend} runs\n{lines}")


@app.command()
def start(gpu: Driver = None, json: output.JsonFlag = False) -> None:
    """Start the keeper and wait until it answers."""
    del json
    backend = _backend(gpu)
    api.keeper_start(backend)
    output.result({"backend": backend, "running": True}, f"the keeper for {backend} runs")


@app.command()
def stop(gpu: Driver = None, json: output.JsonFlag = False) -> None:
    """Stop the keeper; jobs run on."""
    del json
    backend = _backend(gpu)
    was = api.keeper_stop(backend)
    text = f"the keeper for {backend} stopped" if was else f"no keeper ran for {backend}"
    output.result({"backend": backend, "stopped": was}, text)


@app.command()
def warm(
    size: Annotated[str, typer.Argument(metavar="SIZE", help="Bytes, or with a unit: 512M, 16G.")],
    gpu: Driver = None,
    json: output.JsonFlag = False,
) -> None:
    """Pin memory ahead of time, so that the next checkpoint or restore of that size starts at full speed."""
    del json
    backend = _backend(gpu)
    count = parse_size(size)
    facts = api.keeper_warm(backend, count)
    output.result({"backend": backend, "bytes": count, **facts}, f"{output.size(count)} pinned")


def parse_size(text: str) -> int:
    """`512M`, `16GiB`, `1024` → bytes, in powers of 1024; UsageError otherwise."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size", hint="use bytes, or a unit as in 512M or 16G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _backend(chosen: str | None) -> api.Backend:
    if chosen is None:
        return api.default_backend()
    if chosen == "gpu" or chosen == "sim":
        return chosen
    raise UsageError(f"{chosen!r} is not a driver", hint="use gpu or sim")
