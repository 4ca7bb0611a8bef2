"""`torpor doctor`: what this host offers Torpor."""

from __future__ import annotations

import sys

import click
import msgspec

from torpor import doctor
from torpor.cli import output
from torpor.errors import MissingPart

_STYLES = {"ok": "32", "note": "33", "fail": "31"}


@click.command("doctor")
@output.json_flag
def command() -> int:
    """Check driver, CRIU, kernel, rights and space; exits with 9 when something that Torpor needs is not there."""
    checks = []
    for check in doctor.examine():
        checks.append(check)
        if not output.as_json:
            level = output.styled(f"{check.level:<4}", _STYLES[check.level], sys.stdout)
            print(f"{level}  {check.name:<16}  {check.found}", flush=True)
            if check.fix:
                print(f"      {'':<16}  → {check.fix}", flush=True)
    failed = any(check.level == "fail" for check in checks)
    if output.as_json:
        output.result({"ok": not failed, "checks": msgspec.to_builtins(checks)}, "")
    return MissingPart.code if failed else 0
