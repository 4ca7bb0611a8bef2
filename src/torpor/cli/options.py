"""Options that several verbs share, in one wording."""

from __future__ import annotations

from typing import Annotated

import typer

from torpor.errors import UsageError

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
ImageName = Annotated[str, typer.Argument(metavar="IMAGE", help="The image's name, or a path to it.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds the job has to come to rest.")]


def tier(value: str, allowed: tuple[str, ...]) -> str:
    """`value` when it is one of `allowed`; UsageError otherwise."""
    if value not in allowed:
        raise UsageError(f"{value!r} is not a tier here", hint=f"use {' or '.join(allowed)}")
    return value


def pairs(values: list[str], option: str, form: str) -> dict[str, str]:
    """`["A=B", …]` as a dictionary; UsageError names the option and its form where '=' or the key is missing."""
    found = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {value!r} is not of the form {form}")
        found[key] = rest
    return found
