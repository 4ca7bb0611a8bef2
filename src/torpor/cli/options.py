"""Arguments and options that several verbs share, in one wording."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import click

from torpor.errors import UsageError

MOST = 1e9
"""More than any seconds, hours, failures or GB that somebody means: what waits or counts so long overflows."""


class Number(click.FloatRange):
    """A number within bounds, and no larger than `MOST`. `nan`, which no bound keeps out, and `inf` are none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        if number > MOST:
            self.fail(f"{value!r} is more than {MOST:.0f}.", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within bounds, and no larger than `MOST`."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if number > MOST:
            self.fail(f"{value!r} is more than {MOST:.0f}.", param, ctx)
        return number


job_name = click.argument("job")
image_name = click.argument("image")
store = click.option("--store", metavar="STORE", help="A store's folder or URL.  [default: TORPOR_STORE]")


def _limited(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Every store that the verb opens finds it there; what makes no sense is refused before anything is done."""
    if value is not None:
        from torpor.store.limit import parse_rate

        parse_rate(value)
        os.environ["TORPOR_LIMIT"] = value
    return value


limit = click.option(
    "--limit",
    metavar="RATE",
    expose_value=False,
    callback=_limited,
    help="Bytes per second into stores, and out of them, as 200MB/s.  [default: TORPOR_LIMIT]",
)
timeout = click.option(
    "--timeout",
    type=Number(min=0.1),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds the job has to come to rest.",
)


def pairs(values: Iterable[str], option: str, form: str) -> dict[str, str]:
    """`["A=B", …]` as a dictionary; UsageError names the option and its form where '=' or the key is missing."""
    found = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {value!r} is not of the form {form}")
        found[key] = rest
    return found
