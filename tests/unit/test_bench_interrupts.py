"""Ctrl-C during `torpor bench` where a verb hears it too late, and what is still told after one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import eventually
from torpor.bench import parts, results, runner, sources, turns
from torpor.bench.interrupts import Interrupts
from torpor.bench.parts import Part
from torpor.bench.results import Measurement, Results
from torpor.bench.settings import NATIVE, Settings


def one_measurement(name: str) -> Measurement:
    return Measurement(name=name, unit="s", sides={NATIVE: results.spread([1.0])})


def loses_one(number: int) -> None:
    """A verb that is past undoing when it hears of the signal: it ends well."""
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def run_of(monkeypatch: pytest.MonkeyPatch, *bodies: Callable[[Settings], Iterator[Measurement]]) -> Results:
    """A run of parts with these bodies, named a, b, c."""
    names = "abc"[: len(bodies)]
    for name, body in zip(names, bodies, strict=True):
        monkeypatch.setitem(sys.modules, f"fake_{name}", SimpleNamespace(PART=Part(name, name, body)))
    monkeypatch.setattr(parts, "REGISTRY", {name: f"fake_{name}" for name in names})
    return runner.run(names, Settings(backend="sim"), [], lambda _found: None)


def states(found: Results) -> list[tuple[str, str, list[str]]]:
    return [(part.name, part.status, [m.name for m in part.measurements]) for part in found.parts]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_a_verb_has_lost_ends_the_run(home: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    del home

    def body(settings: Settings) -> Iterator[Measurement]:
        for turn in (1, 2):
            settings.say(f"turn {turn}")
            loses_one(number)
            yield one_measurement(f"turn {turn}")

    found = run_of(monkeypatch, body, body)
    assert states(found) == [("a", "interrupted", ["turn 1"]), ("b", "interrupted", [])]
    assert [part.reason for part in found.parts] == ["broken off", "not begun"]


def test_one_that_is_lost_at_the_end_of_a_part_begins_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home

    def body(_settings: Settings) -> Iterator[Measurement]:
        yield one_measurement("all")
        loses_one(signal.SIGINT)

    found = run_of(monkeypatch, body, body)
    assert states(found) == [("a", "done", ["all"]), ("b", "interrupted", [])]


def test_what_a_part_tells_after_one_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home

    def body(settings: Settings) -> Iterator[Measurement]:
        try:
            settings.say("a cycle")
            os.kill(os.getpid(), signal.SIGINT)
            settings.say("another")
        except KeyboardInterrupt:
            yield one_measurement("the half")
            yield one_measurement("of it")
            raise

    assert states(run_of(monkeypatch, body)) == [("a", "interrupted", ["the half", "of it"])]


def test_what_fails_by_being_broken_off_has_not_failed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home

    def body(_settings: Settings) -> Iterator[Measurement]:
        yield one_measurement("before")
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            raise ValueError("nothing is there to be removed")

    found = run_of(monkeypatch, body)
    assert states(found) == [("a", "interrupted", ["before"])]
    assert found.parts[0].reason == "broken off: ValueError: nothing is there to be removed"


def test_what_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGINT)
        assert not interrupts.heard and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_program_that_one_meets_as_it_starts_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[int] = []

    class Met(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            begun.append(self.pid)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Met)
    with pytest.raises(KeyboardInterrupt):
        turns.Copy(["sleep", "1000"], NATIVE, Settings(backend="gpu"))
    with pytest.raises(KeyboardInterrupt):
        sources.build("sleep", tmp_path / "target", "1000")
    assert len(begun) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in begun)


def test_a_compiler_is_ended_with_what_it_has_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its own files, which it has no time to remove, lie where the program was to be."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\necho > "$TMPDIR/own"\nsleep 1000 &\necho $! > "$2"\nwait\n')
    compiler.chmod(0o755)
    target = tmp_path / "scratch" / "target"
    target.parent.mkdir()

    def interrupted(_process: subprocess.Popen[bytes]) -> None:
        eventually(lambda: target.exists() and target.read_text().endswith("\n"))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sources.build(str(compiler), target)
    pid = int(target.read_text())
    eventually(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes())
    assert (target.parent / "own").exists()
