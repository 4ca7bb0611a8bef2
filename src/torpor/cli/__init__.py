"""The command line: one file per verb, loaded only when that verb runs (`torpor ps` must answer within 0.2 s)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from torpor import __version__, paths
from torpor.cli import interrupt, output
from torpor.cli.sub_commands import SubCommands
from torpor.errors import NO_SPACE, NoRights, NoSpace, TorporError, UsageError

VERBS = (
    "run",
    "attach",
    "ps",
    "logs",
    "checkpoint",
    "restore",
    "suspend",
    "resume",
    "wait",
    "kill",
    "rm",
    "images",
    "show",
    "verify",
    "diff",
    "copy",
    "flush",
    "tag",
    "prune",
    "export",
    "import",
    "init",
    "plan",
    "bench",
    "profile",
    "doctor",
    "keeper",
)
"""Each is a module of this package with a click command named `command`."""

_MODULES = {"import": "import_"}
"""Verbs whose name no module can have."""


class _Broken(Exception):
    """A BrokenPipeError on its way past click, which would make an exit with 1 of it, and no word."""

    def __init__(self, error: BrokenPipeError) -> None:
        self.error = error


class Verbs(SubCommands):
    """Sub-commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"torpor.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:
            raise _Broken(error) from error

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _Broken(error) from error


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="torpor %(version)s")
def root() -> None:
    """Put a running GPU job to sleep and wake it again."""


def main(args: list[str]) -> int:
    """Run one command line; returns its exit code. Every error leaves by `output.failure`."""
    # Parsing may fail before the flag itself is met, and such an error wants JSON too.
    output.as_json = "--json" in (args[: args.index("--")] if "--" in args else args)
    return concluded(partial(_verb, args))


def concluded(action: Callable[[], object]) -> int:
    """Do it as the whole of what this process is for; returns the exit code, which is what it gave if that is one."""
    try:
        status = _told(action)
        interrupt.leave()
        return status
    except (KeyboardInterrupt, click.Abort):
        return interrupt.INTERRUPTED
    finally:
        output.drop_unwritten()


def _verb(args: list[str]) -> object:
    try:
        return root.main(args=args or ["--help"], prog_name="torpor", standalone_mode=False)
    except click.ClickException as error:
        raise _usage(error, args) from error
    except _Broken as past:
        raise past.error from None


def _told(action: Callable[[], object]) -> int:
    try:
        status = action()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except TorporError as error:
        return output.failure(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and output.is_unread():
            return 141  # quietly
        return output.failure(_unforeseen(error))
    except UnicodeEncodeError as error:  # of a path, in what is written down of a job or said to a keeper
        return output.failure(UsageError(f"{error.object!r} is not UTF-8", hint="choose a place whose name is"))


def _unforeseen(error: OSError) -> TorporError:
    """What no verb foresaw, as a home that cannot be written."""
    what = error.strerror or str(error)
    # The second name is what was written, or to be made, from the first.
    name = error.filename2 if error.filename2 is not None else error.filename
    place = os.fsdecode(name) if isinstance(name, str | bytes) else None
    folders = {"TORPOR_HOME": paths.home(), "TORPOR_DRAM": paths.dram_dir()}
    near = [variable for variable, folder in folders.items() if place is not None and _along(Path(place), folder)]
    message = f"{place}: {what[:1].lower()}{what[1:]}" if place is not None else what
    hint = f"{near[0]} chooses where Torpor keeps its files" if near else None
    if error.errno in NO_SPACE:
        return NoSpace(message, hint=hint, details={"needed": None, "free": None})
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return NoRights(message, hint=hint)
    return TorporError(message, hint=hint)


def _along(place: Path, folder: Path) -> bool:
    """Whether it is the folder, in it, or one of the folders that had to be made for it."""
    return place.is_relative_to(folder) or folder.is_relative_to(place)


def _usage(error: click.ClickException, args: list[str]) -> UsageError:
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        where = context.command_path.partition(" [")[0]  # without the place that help pages show for a further verb
    else:  # an option without its value: the parser does not say of which verb
        where = f"torpor {args[0]}" if args and args[0] in VERBS else "torpor"
    return UsageError(message[:1].lower() + message[1:], hint=f"`{where} --help` shows how")
