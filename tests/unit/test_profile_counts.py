"""Counting calls: exact by every way, in threads that come and go, over forks, switched on and off while they run."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import Control
from tests.native.interposer.programs import Programs, programs_fixture

programs = programs_fixture()

PROFILE = 7
OFF, COUNTS, TIMES, AS_IT_IS = range(4)
LOOKUPS = {"cuGetProcAddress_v2": 3}
"""What the program does before its first line."""


class Counting:
    """A running `counted`: lines go in, counts come out of its control socket."""

    def __init__(self, programs: Programs, folder: Path, **env: str) -> None:
        self.folder = folder
        self.controls: list[Control] = []
        self.errors = ""
        self.process = subprocess.Popen(
            [programs.linked("counted")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=programs.environment(TORPOR_JOB_DIR=str(folder), **env),
        )

    def do(self, *lines: str) -> None:
        assert self.process.stdin and self.process.stdout
        for line in lines:
            self.process.stdin.write(line + "\n")
            answer = self.process.stdout.readline()
            assert answer == "done\n", self.end()

    def end(self) -> str:
        if self.process.stdin and not self.process.stdin.closed:
            self.errors = self.process.communicate(timeout=60)[1]
        return self.errors

    def control(self) -> Control:
        path = self.folder / "ctl" / str(self.process.pid)
        eventually(path.exists)
        self.controls.append(Control(path))
        return self.controls[-1]

    def words(self) -> dict[int, dict[str, Any]]:
        """Last words by pid, after the end."""
        assert (self.end(), self.process.returncode) == ("", 0)
        found = [json.loads(path.read_text()) for path in (self.folder / "profile").glob("*")]
        return {word["pid"]: word for word in found}

    def word(self) -> dict[str, Any]:
        return self.words()[self.process.pid]


@contextmanager
def counting(programs: Programs, folder: Path, **env: str) -> Iterator[Counting]:
    program = Counting(programs, folder, **env)
    try:
        yield program
    finally:
        for control in program.controls:
            control.socket.close()
        program.process.kill()
        program.process.communicate()


def asked(level: int, lease_ms: int = 60_000, owner: int = 1) -> bytes:
    return struct.pack("<IIQ", level, lease_ms, owner)


@pytest.mark.parametrize("level", ["counts", "times"])
def test_every_way_is_counted_exactly(programs: Programs, tmp_path: Path, level: str) -> None:
    with counting(programs, tmp_path, TORPOR_PROFILE=level) as program:
        program.do("init 2", "link 3", "dlsym 50", "lookup 700", "internal 11", "question 5", "arguments 4")
        word = program.word()
    assert word["calls"] == LOOKUPS | {
        "cuInit": 2,
        "cuLaunchKernel": 3 + 50 + 700 + 4,
        "cuMemsetD8_v2": 11,
        "cuGetErrorName": 5,
        "cuParamSetf": 4,
        "cuGetExportTable": 4,
    }
    assert word["bytes"]["fill"] == 11 * 100
    assert word["level"] == level
    timed = {"cuLaunchKernel", "cuMemsetD8_v2", "cuParamSetf"} if level == "times" else set()
    assert set(word["nanoseconds"]) == timed
    assert all(0 < spent < 60e9 for spent in word["nanoseconds"].values())


def test_threads_that_end_lose_nothing(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path, TORPOR_PROFILE="counts") as program:
        program.do("link 1", "threads 20", "threads 20", "destructor 10", "threads 5")
        word = program.word()
    assert word["calls"] == LOOKUPS | {"cuLaunchKernel": 1 + 45 * 50 + 10 * 2}
    assert word["threads"] == 21  # tables go from one thread to the next


def test_a_forked_child_counts_its_own(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path, TORPOR_PROFILE="counts") as program:
        program.do("link 100", "threads 3", "fork 7", "link 1", "fork 9")
        words = program.words()
    own = words.pop(program.process.pid)
    assert own["calls"] == LOOKUPS | {"cuLaunchKernel": 100 + 3 * 50 + 1}
    assert sorted(word["calls"]["cuLaunchKernel"] for word in words.values()) == [7, 9]
    assert all(len(word["calls"]) == 1 for word in words.values())


def test_calls_at_exit_are_counted(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path, TORPOR_PROFILE="counts") as program:
        program.do("at_exit 1", "link 1")
        assert program.word()["calls"]["cuLaunchKernel"] == 2


def test_switched_on_and_off_while_it_runs(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path) as program:
        program.do("init 1", "link 10", "dlsym 10", "lookup 10", "question 10", "internal 10")
        control = program.control()
        assert control.json(PROFILE, asked(AS_IT_IS))["calls"] == {}
        for turn, level in ((1, COUNTS), (2, TIMES)):
            control.json(PROFILE, asked(level))
            program.do("link 1", "dlsym 20", "lookup 300", "question 6", "internal 3", "threads 4")
            found = control.json(PROFILE, asked(OFF))
            assert found["level"] == "off"
            program.do("link 10", "dlsym 10", "lookup 10", "question 10", "internal 10")
            again = control.json(PROFILE, asked(AS_IT_IS))
            assert again["calls"] == found["calls"]
            assert found["calls"] == {
                "cuLaunchKernel": turn * (321 + 200),
                "cuGetErrorName": turn * 6,
                "cuMemsetD8_v2": turn * 3,
            }
        assert program.words() == {}


def test_a_lease_ends_by_itself(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path) as program:
        program.do("init 1")
        control = program.control()
        assert control.json(PROFILE, asked(COUNTS, lease_ms=1))["level"] == "counts"
        control.socket.close()  # nobody is there who could be the reason
        other = program.control()
        eventually(lambda: other.json(PROFILE, asked(AS_IT_IS))["level"] == "off")
        assert other.json(PROFILE, asked(COUNTS, owner=2))["level"] == "counts"  # and leaves nobody's claim


def test_one_at_a_time(programs: Programs, tmp_path: Path) -> None:
    with counting(programs, tmp_path) as program:
        program.do("init 1")
        control = program.control()
        control.json(PROFILE, asked(COUNTS, owner=1))
        assert "somebody else" in control.json(PROFILE, asked(TIMES, owner=2), status=-2)["message"]
        assert "somebody else" in control.json(PROFILE, asked(OFF, owner=2), status=-2)["message"]
        program.do("link 4")
        assert control.json(PROFILE, asked(AS_IT_IS, owner=2))["calls"] == {"cuLaunchKernel": 4}


@pytest.mark.parametrize(
    "payload", [b"", asked(COUNTS)[:-1], asked(COUNTS) + b"x", asked(4)], ids=["none", "short", "long", "level"]
)
def test_bad_requests(programs: Programs, tmp_path: Path, payload: bytes) -> None:
    with counting(programs, tmp_path) as program:
        program.do("init 1")
        control = program.control()
        control.json(PROFILE, payload, status=-1)
        assert control.json(PROFILE, asked(AS_IT_IS))["level"] == "off"


@pytest.mark.parametrize("setting", ["", "off", "count", ":counts"])
def test_off_leaves_nothing(programs: Programs, tmp_path: Path, setting: str) -> None:
    with counting(programs, tmp_path, TORPOR_PROFILE=setting) as program:
        program.do("init 1", "link 5", "threads 2")
        assert program.control().json(PROFILE, asked(AS_IT_IS))["threads"] == 0
        assert program.words() == {}
    assert not (tmp_path / "profile").exists()


def test_a_limit_on_files_is_none_on_ours(programs: Programs, tmp_path: Path) -> None:
    """Neither the last word, which is lost, nor that it is said ends a program that writes no files."""
    with (tmp_path / "errors").open("wb") as errors:
        done = subprocess.run(
            ["prlimit", "--fsize=0", programs.linked("counted")],
            input=b"init 1\n",
            stdout=subprocess.PIPE,
            stderr=errors,
            env=programs.environment(TORPOR_JOB_DIR=str(tmp_path), TORPOR_PROFILE="counts"),
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert list((tmp_path / "profile").iterdir()) == []


def test_an_abrupt_end_leaves_no_word(programs: Programs, tmp_path: Path) -> None:
    """What the looks before it are for."""
    with counting(programs, tmp_path, TORPOR_PROFILE="counts") as program:
        program.do("init 1", "link 5")
        assert program.control().json(PROFILE, asked(AS_IT_IS))["calls"]["cuLaunchKernel"] == 5
        assert program.process.stdin
        program.process.stdin.write("abrupt 1\n")
        assert program.words() == {}
