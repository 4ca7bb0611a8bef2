"""The command line: one file per verb, loaded only when that verb runs (`torpor ps` must answer within 0.2 s)."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from torpor.cli import output
from torpor.errors import TorporError, UsageError

VERBS = {
    "run": "torpor.cli.run",
    "ps": "torpor.cli.ps",
    "logs": "torpor.cli.logs",
    "checkpoint": "torpor.cli.checkpoint",
    "restore": "torpor.cli.restore",
    "suspend": "torpor.cli.suspend",
    "resume": "torpor.cli.resume",
    "wait": "torpor.cli.wait",
    "kill": "torpor.cli.kill",
    "rm": "torpor.cli.rm",
    "images": "torpor.cli.images",
    "show": "torpor.cli.show",
    "doctor": "torpor.cli.doctor",
    "keeper": "torpor.cli.keeper",
}
"""Verb → module. A module offers `command`, a function for one verb, or `app`, a typer application of sub-verbs."""


def load(verb: str) -> Any:
    """The typer command of a verb."""
    module = import_module(VERBS[verb])
    if hasattr(module, "app"):
        app: typer.Typer = module.app
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name=verb, **getattr(module, "settings", {}))(module.command)
    command = typer.main.get_command(app)
    command.name = verb
    return command


class Verbs(TyperGroup):
    """Sub-commands that are imported when they are asked for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(VERBS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        return load(cmd_name) if cmd_name in VERBS else None


def _version(wanted: bool) -> None:
    if wanted:
        from torpor import __version__

        print(f"torpor {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Put a running GPU job to sleep and wake it again."""


app = typer.Typer(
    cls=Verbs, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True
)
app.callback()(_root)


def main(args: list[str]) -> int:
    """Run one command line; returns its exit code. Every error leaves by `output.failure`."""
    head = args[: args.index("--")] if "--" in args else args
    output.as_json = "--json" in head
    try:
        try:
            status = typer.main.get_command(app)(args=args, prog_name="torpor", standalone_mode=False)
        except typer.BadParameter.__mro__[2] as error:  # the ClickException that this typer uses
            raise _usage(error) from error
        except typer.Abort:
            return 130
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except TorporError as error:
        return output.failure(error)
    except BrokenPipeError:
        # The reader went away (`torpor logs | head`): end quietly, without a second error when stdout is flushed.
        sys.stdout = None  # type: ignore[assignment]
        return 1
    except KeyboardInterrupt:
        return 130


def _usage(error: Any) -> UsageError:
    message = str(error.format_message()).rstrip(".") or "no command given"
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "torpor"
    return UsageError(message[:1].lower() + message[1:], hint=f"`{where} --help` shows how")
