"""How every program of this folder begins and ends: imported before all else, `run` at the end.

Bad words on the command line are refused before anything starts. Ctrl-C and SIGTERM end a program with 130 and a line
that says so, after what it started has been ended and what it knows told; an error ends it as one ends a verb of
`torpor`, with the same codes. Nobody sees a traceback.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.bench.interrupts import Interrupts

HERE = Path(__file__).resolve().parent
NAME = Path(getattr(sys.modules["__main__"], "__file__", None) or "bench").name
BROKEN_OFF = 130

_interrupts: list[Interrupts] = []


def _lacks(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """While a program loads: say what is not installed."""
    if isinstance(error, ModuleNotFoundError):
        where = f"{sys.executable} has no module {error.name!r}"
        print(f"{NAME}: {where}: install it, or use .venv/bin/python (scripts/setup makes it)", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if Path(getattr(sys.modules["__main__"], "__file__", None) or "/").resolve().parent == HERE:
    sys.excepthook = _lacks
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while nothing has begun


def run(main: Callable[[], object]) -> NoReturn:
    """Do it, and end this process with what it gave if that is a number."""
    from torpor.bench.interrupts import Interrupts
    from torpor.cli import concluded, interrupt, output
    from torpor.errors import TorporError

    def heard() -> object:
        with Interrupts() as interrupts:
            _interrupts[:] = [interrupts]
            try:
                status = main()
                interrupts.check()
            except (KeyboardInterrupt, TorporError, SystemExit) as error:
                # What is broken off may fail by that, as a checkpoint that is rolled back.
                if not interrupts.heard and not isinstance(error, KeyboardInterrupt):
                    raise
                output.aside(f"{NAME}: broken off")
                return BROKEN_OFF
            return status

    interrupt.end_soon()
    sys.exit(concluded(heard))


def check() -> None:
    """To be called before each cycle: KeyboardInterrupt also where one was lost, as by a verb that could not be undone
    any more."""
    for interrupts in _interrupts:
        interrupts.check()


def options(described: str | None, *, out: bool = True) -> argparse.ArgumentParser:
    """A parser with the first line of the program's text, and `--out FILE` for what is to be kept (`keep`)."""
    found = argparse.ArgumentParser(description=(described or "").splitlines()[0])
    if out:
        found.add_argument("--out", type=_file, metavar="FILE", help="write what is found there, as JSON")
    return found


def whole(least: int = 1, most: int = 1 << 30) -> Callable[[str], int]:
    """The type of an option that takes whole numbers from `least` to `most`."""

    def convert(word: str) -> int:
        try:
            if least <= (number := int(word)) <= most:
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from {least} to {most}")

    return convert


def power_of_two(word: str) -> int:
    """The type of an option that takes such a number."""
    if word.isascii() and word.isdigit() and (found := int(word)) & (found - 1) == 0 < found <= 1 << 30:
        return found
    raise argparse.ArgumentTypeError(f"{word!r} is no power of two")


def number(least: float = 0.0, most: float = 1 << 30) -> Callable[[str], float]:
    """The type of an option that takes numbers from `least` to `most`, which no memory and nobody's patience has."""

    def convert(word: str) -> float:
        try:
            if least <= (number := float(word)) <= most:  # which nothing is that is no number
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{word!r} is no number from {least:g} to {most:g}")

    return convert


def _file(word: str) -> Path:
    """A file that can be written; told before anything was measured."""
    path = Path(word)
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{word!r} cannot be written: {error.strerror}") from None
    return path


def folder(word: str) -> Path:
    """The type of an option that takes a folder in which files can be made."""
    try:
        tempfile.TemporaryFile(dir=word).close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"nothing can be written into {word!r}: {error.strerror}") from None
    return Path(word)


def keep(path: Path | None, found: Any) -> None:
    """Write it down as JSON, whole or not at all, where a file was asked for."""
    from torpor import written

    if path is not None:
        written.data(path, f"{json.dumps(found, indent=1)}\n".encode())
