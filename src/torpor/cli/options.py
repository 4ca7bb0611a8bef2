"""Arguments and options that several verbs share, in one wording."""

from __future__ import annotations

from collections.abc import Iterable

import click

from torpor.errors import UsageError

job_name = click.argument("job")
image_name = click.argument("image")
timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
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
