"""What the verbs print: JSON with `--json`, else plain aligned text; errors in one form everywhere."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click

from torpor.errors import TorporError

as_json = False
"""Whether this command line asked for `--json`; set once by `torpor.cli.main` and by the flag itself."""


def _remember(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    global as_json
    as_json = value


json_flag = click.option(
    "--json", is_flag=True, expose_value=False, callback=_remember, help="Print one JSON object or array."
)


def failure(error: TorporError) -> int:
    """Report `error` and return its exit code, which says what there is to say where nobody reads the report."""
    if as_json:
        _tell(json.dumps({"error": error.to_dict()}), sys.stdout)
    else:
        aside(f"torpor: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))
    return error.code


def note(text: str) -> None:
    """One line for people, on stderr."""
    aside(f"torpor: {text}")


def aside(text: str) -> None:
    """Text on stderr. A verb does not fail because nobody reads what it says beside its work."""
    _tell(text, sys.stderr)


def _tell(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        drop_unwritten()


def drop_unwritten() -> None:
    """Have /dev/null where a stream does not take what was written to it: the exit would try again, and fail by it."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)


def is_unread() -> bool:
    """Whether the reader of standard output went away (`torpor logs | head`)."""
    poll = select.poll()
    poll.register(1, 0)
    return bool(poll.poll(0))


def result(data: Any, text: str) -> None:
    """Print what a verb did: `data` (JSON-safe) with `--json`, else `text`."""
    print(json.dumps(data) if as_json else text, flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned text under upper-case headings; bold headings on a terminal."""
    lines = [[name.upper() for name in columns], *[[one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text[0] = styled(text[0], "1", sys.stdout)
    return "\n".join(text)


def one_line(text: str) -> str:
    """What a user may have named as he liked, as a command: line ends and escape sequences as one writes them."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def styled(text: str, code: str, stream: Any) -> str:
    """`text` in an ANSI style where `stream` is a terminal that wants colour."""
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def size(count: int | float) -> str:
    """Bytes for people, in powers of 1024: `17.9 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def rate(count: int | float, seconds: float) -> str:
    """Bytes per second for people, in powers of 1000, as links are rated: `55.2 GB/s`, `2.0 MB/s`."""
    if seconds <= 0:
        return "-"
    value = count / seconds
    return f"{value / 1e9:.1f} GB/s" if value >= 1e8 or value == 0 else f"{value / 1e6:.1f} MB/s"


def second(created: str) -> str:
    """A time of a manifest without what is below a second."""
    return created.partition(".")[0].removesuffix("Z") + "Z"


def age(seconds: float) -> str:
    """A span of time in its largest unit: `45 s`, `12 min`, `3 h`, `2 d`."""
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
