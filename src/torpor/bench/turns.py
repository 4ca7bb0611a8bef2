"""Copies of one program, native, under Torpor and native once more, that live side by side and take turns.

Each batch is a fraction of a second, so that whatever the machine does meanwhile happens to all. Where a process's
memory comes to lie changes its speed by some percent for as long as it lives, so several groups of fresh copies follow
one another: a group gives one figure, the median ratio of adjacent batches.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from torpor import api
from torpor.bench import children
from torpor.bench.results import Bar, Measurement, spread
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.errors import TorporError
from torpor.process.loop import is_readable

SIDES = (NATIVE, TORPOR, CONTROL)
END_SECONDS = 30.0
MOST_FAILURES = 3
"""When so many kinds have failed and none has worked, the others are not tried."""

Found = dict[str, dict[str, list[float]]]
"""Nanoseconds of each batch, by kind and side."""


class ProgramFailed(TorporError):
    """A program of the benchmark ended, or said nothing in time; `hint` is the end of what it wrote on stderr."""


class Copy:
    """One live copy of a program, driven by lines: natively, or under `torpor run` with the settings' `--vm`."""

    def __init__(self, command: Sequence[str], side: str, settings: Settings, *options: str) -> None:
        """`options` are further ones of `torpor run` (`--no-arena`)."""
        self.side, self._patience = side, settings.patience
        prefix: list[str] = []
        environment = settings.environment()
        if side == TORPOR:
            prefix = [sys.executable, "-m", "torpor", "run", "--vm", settings.vm, *options, "--"]
            environment = dict(os.environ)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._pending = b""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        # Ctrl-C is for us: we end the copies in order.
        try:
            self._process = children.begin([*prefix, *command], **streams, env=environment, bufsize=0)
        except BaseException:
            self._errors.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        """Of the program, or of the `torpor run` that stays with it."""
        return self._process.pid

    def ask(self, line: str) -> str:
        """Send a line and wait for the answer's line."""
        assert self._process.stdin
        try:
            self._process.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            pass  # why it ended is told when its answer is missing
        return self.next_line(line)

    def next_line(self, about: str = "its start") -> str:
        """The next line that the program prints, without its end."""
        assert self._process.stdout
        end = time.monotonic() + self._patience
        while b"\n" not in self._pending:
            left = max(0.0, end - time.monotonic())
            if not is_readable(self._process.stdout.fileno(), left):
                raise self._failed(f"did not answer {about!r} within {self._patience:g} s")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise self._failed(f"{self._end()} in {about!r}")
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def batch(self, kind: str, count: int) -> float:
        """Nanoseconds of each of `count` times `kind`."""
        answer = self.ask(f"{kind} {count}")
        try:
            return float(answer)
        except ValueError:
            raise self._failed(f"answered {kind!r} with {answer!r}") from None

    def end(self) -> None:
        """Close its input and wait until it has ended well."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        what = self._end()
        failed = self._failed(what) if self._process.returncode != 0 else None
        self.kill()
        if failed is not None:
            raise failed

    def _end(self) -> str:
        """Wait for its end; how it ended."""
        try:
            return f"ended with {self._process.wait(END_SECONDS)}"
        except subprocess.TimeoutExpired:
            return f"did not end within {END_SECONDS:g} s"

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        if self.side == TORPOR:
            try:  # its input has ended, and with it most programs; else its job ends with the run's home
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                pass
        if self._process.poll() is None:
            children.end(self._process)
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _failed(self, what: str) -> ProgramFailed:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return ProgramFailed(f"the {self.side} program {what}", hint=said[-1500:] or None)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One thing that the program does on demand. `name` is the measurement's, `ask` the program's word for it.

    `value` makes a figure in `unit` of nanoseconds (of one time); the rest is as in `Measurement`. `most` bounds how
    often it is done in a batch."""

    name: str
    ask: str
    unit: str = "ns"
    better: Literal["lower", "higher"] = "lower"
    value: Callable[[float], float] = field(default=lambda ns: ns)
    most: int = 1 << 30
    bars: tuple[Bar, ...] = ()
    figures: tuple[str, ...] = ()
    series: str = ""
    panel: str = ""
    x: float | None = None
    note: str = ""


def microseconds(ns: float) -> float:
    return ns / 1e3


def pinned(command: Sequence[str], cores: int) -> list[str]:
    """The command on the same `cores` processors for every copy, where that can be asked for."""
    if shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", ",".join(map(str, apart(os.sched_getaffinity(0), cores))), *command]


def apart(available: Iterable[int], count: int, topology: Path = Path("/sys/devices/system/cpu")) -> list[int]:
    """So many of the processors, or all: on a core for each as far as there are, since two on one slow each other."""
    seen: set[str] = set()
    alone: list[int] = []
    beside: list[int] = []
    for number in sorted(available):
        listed = topology / f"cpu{number}" / "topology" / "thread_siblings_list"
        core = listed.read_text() if listed.exists() else str(number)
        (beside if core in seen else alone).append(number)
        seen.add(core)
    first = max(0, min(len(alone) // 2, len(alone) - count))
    return (alone[first:] + beside)[:count]


def order(sides: Sequence[str], turn: int) -> list[str]:
    """Who goes first, next, and last in a turn: in as many turns as there are sides each has every place once, and the
    same turns backwards follow."""
    round_trip, first = divmod(turn, len(sides))
    turned = [*sides[first:], *sides[:first]]
    return turned[::-1] if round_trip % 2 else turned


def calibrated(copy: Copy, kind: Kind, seconds: float) -> int:
    """How often `kind` fits into a batch of `seconds`."""
    count = 1
    copy.batch(kind.ask, count)  # what it needs is made the first time
    while True:
        took = copy.batch(kind.ask, count) * count / 1e9
        if took >= seconds / 4 or count >= kind.most:
            return max(1, min(kind.most, round(count * seconds / max(took, 1e-9))))
        count = min(kind.most, count * 8)


def compare(
    commands: Sequence[str] | Mapping[str, Sequence[str]],
    kinds: Sequence[Kind],
    settings: Settings,
    *,
    cores: int | None = 1,
    options: Sequence[str] = (),
) -> Iterator[Measurement]:
    """A measurement of each kind, again after each group. `commands`: of the program, or by side where they differ.

    `cores`: how many processors each copy may use (two at least where another thread hands in work); None: all.
    A kind that fails at its first time, in any
    side, is left out with a note, and its error raised when the others have been measured.
    """
    by_side = commands if isinstance(commands, Mapping) else dict.fromkeys(SIDES, commands)
    if cores is not None and not settings.software_gpu:  # whose kernels are threads of the same process
        cores = max(cores, 2 if settings.vm in ("defer", "full") else 1)
        by_side = {side: pinned(command, cores) for side, command in by_side.items()}
    if TORPOR in by_side:
        api.keeper_warm(settings.backend, 0)  # so that it does not get ready beside the first turns
    groups: list[Found] = []
    counts: dict[str, int] = {}
    failed: dict[str, ProgramFailed] = {}
    broken: BaseException | None = None
    try:
        for number in range(settings.groups):
            settings.say(f"group {number + 1} of {settings.groups}: {len(kinds)} kinds, {settings.rounds} turns each")
            groups.append(_group(by_side, kinds, counts, failed, settings, options))
            yield from _measurements([kind for kind in kinds if kind.name in counts], groups)
    except (KeyboardInterrupt, TorporError) as error:
        broken = error
    for kind in kinds:
        if kind.name in failed and kind.name not in counts:
            yield Measurement(name=kind.name, unit=kind.unit, sides={}, note=f"left out: {failed[kind.name].message}")
    if broken is not None:
        raise broken
    if failed:
        raise next(iter(failed.values()))


def _group(
    commands: Mapping[str, Sequence[str]],
    kinds: Sequence[Kind],
    counts: dict[str, int],
    failed: dict[str, ProgramFailed],
    settings: Settings,
    options: Sequence[str],
) -> Found:
    """Nanoseconds of every batch by kind and side. The first group finds the `counts`, and the kinds that fail.

    ProgramFailed where no kind works, and where one fails that had worked."""
    copies = Copies(commands, settings, options)
    try:
        for kind in kinds:
            if kind.name in counts or kind.name in failed:
                continue
            try:
                counts[kind.name] = copies.tried(kind)
            except ProgramFailed as error:
                failed[kind.name] = error
                if not counts and len(failed) in (len(kinds), MOST_FAILURES):
                    raise next(iter(failed.values())) from None
                copies.renew()
        found: Found = {name: {side: [] for side in commands} for name in counts}
        # One kind after the other: a GPU's clocks follow what it did a moment before, so that the first side to turn to
        # another kind of work is some percent faster or slower than those after it.
        for kind in kinds:
            for turn in range(-1, settings.rounds) if kind.name in counts else ():  # one turn of warm-up
                for side in order(list(commands), turn):
                    time_of_one = copies.of[side].batch(kind.ask, counts[kind.name])
                    if turn >= 0:
                        found[kind.name][side].append(time_of_one)
        for copy in copies.of.values():
            copy.end()
    except BaseException:
        copies.kill()
        raise
    return found


class Copies:
    """One live copy for each side."""

    def __init__(self, commands: Mapping[str, Sequence[str]], settings: Settings, options: Sequence[str]) -> None:
        self._commands, self._settings, self._options = commands, settings, options
        self.of: dict[str, Copy] = {}
        self.renew()

    def renew(self) -> None:
        """End those there are, and start others."""
        self.kill()
        try:
            for side, command in self._commands.items():
                self.of[side] = Copy(command, side, self._settings, *(self._options if side == TORPOR else ()))
        except BaseException:
            self.kill()
            raise

    def tried(self, kind: Kind) -> int:
        """How often `kind` fits into a batch, once it was done in every side. ProgramFailed where one cannot."""
        count = calibrated(self.of[NATIVE], kind, self._settings.batch)
        for side, copy in self.of.items():
            if side != NATIVE:
                copy.batch(kind.ask, 1)
        return count

    def kill(self) -> None:
        for copy in self.of.values():
            copy.kill()


def _measurements(kinds: Iterable[Kind], groups: Sequence[Found]) -> Iterator[Measurement]:
    for kind in kinds:
        of_kind = [group[kind.name] for group in groups]
        sides = list(of_kind[0])
        yield Measurement(
            name=kind.name,
            unit=kind.unit,
            better=kind.better,
            sides={side: spread(kind.value(statistics.median(group[side])) for group in of_kind) for side in sides},
            cost={
                side: spread(statistics.median(_ratios(group[NATIVE], group[side])) for group in of_kind)
                for side in sides
                if side != NATIVE
            },
            bars=list(kind.bars),
            figures=list(kind.figures),
            series=kind.series,
            panel=kind.panel,
            x=kind.x,
            note=kind.note,
        )


def _ratios(native: Sequence[float], other: Sequence[float]) -> list[float]:
    return [theirs / ours for ours, theirs in zip(native, other, strict=True) if ours > 0]
