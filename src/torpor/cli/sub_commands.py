"""A command with further ones, whose help says of each what it does in one whole sentence."""

from __future__ import annotations

import click

_WHOLE = 1000
"""Characters; click would cut a sentence off at the line's end."""


class SubCommands(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None])
