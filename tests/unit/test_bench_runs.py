"""How `torpor bench` runs: copies that take turns, parts that fail, Ctrl-C, and a home that leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Cli, eventually, keepers
from torpor import api
from torpor.bench import home as bench_home
from torpor.bench import parts, results, runner, several, sources, turns
from torpor.bench.parts import Part
from torpor.bench.results import Measurement, Results
from torpor.bench.settings import CONTROL, NATIVE, Settings
from torpor.cli import main as cli_main
from torpor.errors import Cancelled, DriverMissing, MissingPart

KINDS = (turns.Kind(name="one", ask="one"), turns.Kind(name="two", ask="two", unit="µs", value=turns.microseconds))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(backend="sim", groups=2, rounds=3, batch=0.001, patience=20.0, scratch=tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], dict[str, list[str]]]:
    """Commands of a native and a control copy of a program: `body` answers one line of `kind, count` with `answer`."""

    def make(body: str) -> dict[str, list[str]]:
        script = tmp_path / "program.py"
        script.write_text(
            "import os, sys, time\nside, log = sys.argv[1:]\nfor line in sys.stdin:\n"
            "    kind, count = line.split()\n    open(log, 'a').write(f'{side} {line}')\n"
            + textwrap.indent(textwrap.dedent(body), "    ")
            + "    print(answer, flush=True)\n"
        )
        return {side: [sys.executable, str(script), side, str(tmp_path / "log")] for side in (NATIVE, CONTROL)}

    return make


def test_sides_take_turns(settings: Settings, program: Any, tmp_path: Path) -> None:
    answer = "answer = {'native': 1000, 'control': 1100}[side] * (1 if kind == 'one' else 7)\n"
    one, two = results.final(turns.compare(program(answer), KINDS, settings))
    assert one.sides[NATIVE] == results.spread([1000, 1000])
    assert two.unit == "µs" and two.sides[CONTROL].median == pytest.approx(7.7)
    assert one.cost == {CONTROL: results.spread([1.1, 1.1])}
    calls = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    # A microsecond of each: a batch of a millisecond is a thousand, asked of all sides alike.
    assert {int(count) for _, kind, count in calls[-8:] if kind == "one"} == {1000}
    sides = [side for side, kind, _ in calls if kind == "one"][-6:]
    assert sides == [CONTROL, NATIVE, NATIVE, CONTROL, CONTROL, NATIVE]


@pytest.mark.parametrize(
    ("siblings", "count", "chosen"),
    [
        (["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"], 2, [4, 6]),
        (["0,2", "1,3", "0,2", "1,3"], 2, [0, 1]),
        (["0-1", "0-1", "2-3", "2-3"], 3, [0, 2, 1]),
        (["0-1", "0-1"], 8, [0, 1]),
        ([None, None, None, None], 1, [2]),
    ],
)
def test_copies_with_two_threads_have_two_cores(
    siblings: list[str | None], count: int, chosen: list[int], tmp_path: Path
) -> None:
    for number, listed in enumerate(siblings):
        if listed is not None:
            folder = tmp_path / f"cpu{number}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{listed}\n")
    assert turns.apart(range(len(siblings)), count, tmp_path) == chosen


def test_a_kind_that_fails_leaves_the_others_alone(settings: Settings, program: Any) -> None:
    body = "answer = 10.0\nif kind == 'two' and side == 'control': sys.exit('no such kind')\n"
    found: list[Measurement] = []
    with pytest.raises(turns.ProgramFailed, match="the control program ended with 1 in 'two 1'") as caught:
        for measurement in turns.compare(program(body), KINDS, settings):
            found.append(measurement)
    assert caught.value.hint == "no such kind"
    one, two = results.final(found)
    assert [(m.name, set(m.sides)) for m in (one, two)] == [("one", {NATIVE, CONTROL}), ("two", set())]
    assert "ended with 1 in 'two 1'" in two.note


def test_a_program_that_cannot_do_anything(settings: Settings, program: Any, tmp_path: Path) -> None:
    """It is not asked for every kind."""
    kinds = [turns.Kind(name=f"kind{number}", ask=f"kind{number}") for number in range(9)]
    with pytest.raises(turns.ProgramFailed, match="in 'kind0 1'"):
        list(turns.compare(program("sys.exit('no driver')\n"), kinds, settings))
    assert len((tmp_path / "log").read_text().splitlines()) == turns.MOST_FAILURES


@pytest.mark.parametrize(
    ("body", "message", "patience"),
    [
        ("answer = 'nonsense'\n", "answered 'one' with 'nonsense'", 60.0),
        ("time.sleep(60)\nanswer = 1\n", "did not answer 'one 1' within 0.5 s", 0.5),
    ],
    ids=["nonsense", "silence"],
)
def test_nonsense_and_silence(body: str, message: str, patience: float, program: Any, tmp_path: Path) -> None:
    settings = Settings(backend="sim", groups=1, rounds=1, patience=patience, scratch=tmp_path)
    with pytest.raises(turns.ProgramFailed, match=message):
        list(turns.compare(program(body), KINDS, settings))


def test_whole_groups_are_kept_when_one_fails(settings: Settings, program: Any, tmp_path: Path) -> None:
    """The second group's programs end at once: what the first has found is yielded before the error."""
    body = f"""
        answer = 10.0
        if kind == "two" and os.path.exists({str(tmp_path / "stop")!r}): sys.exit(3)
    """
    commands = program(body)

    def say(line: str) -> None:
        if line.startswith("group 2"):
            (tmp_path / "stop").touch()

    found: list[Measurement] = []
    with pytest.raises(turns.ProgramFailed, match="ended with 3"):
        for measurement in turns.compare(commands, KINDS, Settings(**{**vars(settings), "say": say})):
            found.append(measurement)
    assert [(m.name, m.sides[NATIVE].n) for m in found] == [("one", 1), ("two", 1)]


def one_measurement(name: str, value: float = 1.0) -> Measurement:
    return Measurement(name=name, unit="s", sides={NATIVE: results.spread([value])})


def fails(_settings: Settings) -> Iterator[Measurement]:
    yield one_measurement("before")
    raise ValueError("a part's own fault")


def broken_off(_settings: Settings) -> Iterator[Measurement]:
    yield one_measurement("before")
    raise KeyboardInterrupt


def cancelled(_settings: Settings) -> Iterator[Measurement]:
    yield one_measurement("before")
    raise Cancelled("cancelled, and rolled back")  # as a verb is that Ctrl-C hits


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Parts that do as their names say, in place of the real ones."""
    bodies: dict[str, Any] = {
        "works": lambda _settings: [one_measurement("all")],
        "fails": fails,
        "lacks": lambda _settings: [one_measurement("never")],
        "broken": broken_off,
        "cancelled": cancelled,
        "after": lambda _settings: [one_measurement("after")],
    }
    needs = {"lacks": ("gpu",)}
    for name, body in bodies.items():
        part = Part(name, f"It {name}", body, needs=needs.get(name, ()))
        monkeypatch.setitem(sys.modules, f"fake_part_{name}", SimpleNamespace(PART=part))
    monkeypatch.setattr(parts, "REGISTRY", {name: f"fake_part_{name}" for name in bodies})
    return bodies


def states(found: Results) -> list[tuple[str, str, list[str]]]:
    return [(part.name, part.status, [m.name for m in part.measurements]) for part in found.parts]


def test_a_part_that_fails_leaves_the_others_alone(home: Path, fakes: Any, tmp_path: Path) -> None:
    del home, fakes
    assert cli_main(["bench", "works", "fails", "lacks", "after", "--out", str(tmp_path)]) == 1
    found = results.load(tmp_path)
    assert states(found) == [
        ("works", "done", ["all"]),
        ("fails", "failed", ["before"]),
        ("lacks", "skipped", []),
        ("after", "done", ["after"]),
    ]
    assert [part.reason for part in found.parts if part.reason] == [
        "ValueError: a part's own fault",
        "there is no NVIDIA GPU",
    ]
    assert found.software_gpu


@pytest.mark.parametrize("how", ["broken", "cancelled"])
def test_what_was_measured_before_ctrl_c_is_kept(home: Path, fakes: Any, tmp_path: Path, how: str) -> None:
    del home, fakes
    assert cli_main(["bench", "works", how, "after", "--out", str(tmp_path)]) == 130
    expected = [("works", "done", ["all"]), (how, "interrupted", ["before"]), ("after", "interrupted", [])]
    assert states(results.load(tmp_path)) == expected
    assert "interrupted: not begun" in (tmp_path / "report.md").read_text()


def test_what_is_known_is_written_as_it_grows(
    home: Path, fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a run that is killed has lost nothing but the turns that were under way."""
    del home, fakes
    written = []

    def grows(_settings: Settings) -> Iterator[Measurement]:
        for value in (1.0, 2.0):
            yield one_measurement("first", value)
            yield one_measurement("second", value)
            [part] = results.load(tmp_path).parts
            assert (part.status, part.reason) == ("interrupted", "broken off")  # should it be killed now
            written.append([(m.name, m.sides[NATIVE].median) for m in part.measurements])

    monkeypatch.setattr(sys.modules["fake_part_works"], "PART", Part("works", "It grows", grows))
    assert cli_main(["bench", "works", "--out", str(tmp_path)]) == 0
    assert written == [[("first", value), ("second", value)] for value in (1.0, 2.0)]
    assert states(results.load(tmp_path)) == [("works", "done", ["first", "second"])]


def test_a_run_that_is_killed_early_has_told_so(home: Path, fakes: Any, tmp_path: Path) -> None:
    """Before anything is measured there is a file that can be read, and the part that is under way is in it."""
    del home, fakes
    seen = []

    def keep(found: Results) -> None:
        results.save(found, tmp_path / "results.json")
        seen.append(states(results.load(tmp_path)))

    runner.run(["works", "lacks"], Settings(backend="sim"), [], keep)
    assert seen[:2] == [[], [("works", "interrupted", [])]]
    assert [("works", "done", ["all"]), ("lacks", "interrupted", [])] in seen
    runner.save_into(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_full_disk_costs_the_report_only(
    home: Path, fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be written is no fault of a part: it is measured, told, and written when there is room."""
    del home, fakes
    save, room = results.save, [False]

    def full(found: Results, path: Path) -> None:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(found, path)

    monkeypatch.setattr(results, "save", full)
    assert cli_main(["bench", "works", "after", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "It works" in said.out and "failed" not in said.out
    assert said.err.count("cannot be written now") == 1 and "could not be written into" in said.err
    fill = runner.run

    def emptied(*arguments: Any) -> Results:
        found = fill(*arguments)
        room[0] = True
        return found

    monkeypatch.setattr(runner, "run", emptied)
    assert cli_main(["bench", "works", "after", "--out", str(tmp_path)]) == 0
    assert states(results.load(tmp_path)) == [("works", "done", ["all"]), ("after", "done", ["after"])]


def test_unknown_parts_and_options(torpor: Cli) -> None:
    assert b"there is no part 'rww'" in torpor("bench", "rww", check=2).stderr
    sizes = ("--gib=x", "--gib=-1", "--gib=", "--gib=nan", "--gib=inf", "--gib=4,1e300")
    for wrong in (*sizes, "--groups=0", "--batch=0", "--requests=0", "--vm=on", "--models=9b", "--models="):
        assert cli_main(["bench", "raw", wrong]) == 2
    listed = torpor.json("bench", "--list")
    assert {"raw", "launch", "transfers", "checkpoint", "gpus"} <= {part["name"] for part in listed}


def test_no_report_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told before anything is measured."""
    assert cli_main(["bench", "raw", "--out", "/proc/nowhere"]) == 2
    assert "/proc/nowhere" in capsys.readouterr().err


def test_a_driver_without_devices(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home
    monkeypatch.setenv("TORPOR_SIM_DEVICES", "0")
    with pytest.raises(DriverMissing):
        runner.devices(Settings(backend="sim"))


def test_every_need_is_known() -> None:
    for name in parts.REGISTRY:
        part = parts.load(name)
        assert part.name == name
        assert set(part.needs) <= set(parts.NEEDS)
        assert len({figure.name for figure in part.figures}) == len(part.figures)


def test_a_machine_that_lacks_something(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = Settings(backend="sim", devices=1)
    assert "one GPU" in (parts.missing(parts.load("gpus"), one) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "C compiler" in (parts.missing(parts.load("launch"), one) or "")
    monkeypatch.setenv("TORPOR_CRIU", str(tmp_path / "none"))
    assert "CRIU" in (parts.missing(parts.load("checkpoint"), one) or "")
    [left_out] = several._cycles(one, [1])
    assert "CRIU" in left_out.note and not left_out.sides
    with pytest.raises(MissingPart):
        sources.compiled("launches", tmp_path)
    with pytest.raises(MissingPart):
        sources.path("nothing.py")


def test_a_run_has_a_home_of_its_own(home: Path) -> None:
    outer = dict(os.environ)
    with bench_home.own("sim") as scratch:
        inner = Path(os.environ["TORPOR_HOME"])
        assert inner.parent == home and scratch.parent == inner
        assert os.environ["TORPOR_DRAM"] != outer["TORPOR_DRAM"] and Path(os.environ["TORPOR_DRAM"]).is_dir()
        api.run(["sleep", "1000"])
        eventually(lambda: keepers(inner))
        dram = Path(os.environ["TORPOR_DRAM"])
    assert dict(os.environ) == outer
    assert not inner.exists() and not dram.exists()
    eventually(lambda: not keepers(inner) + keepers(inner, watching=True))


def test_impatience_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C comes while what the first one broke off is being ended."""
    end_everything = bench_home._end_everything

    def disturbed(backend: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        end_everything(backend)

    monkeypatch.setattr(bench_home, "_end_everything", disturbed)
    with pytest.raises(KeyboardInterrupt), bench_home.own("sim"):
        inner = Path(os.environ["TORPOR_HOME"])
        api.keeper_start("sim")
        raise KeyboardInterrupt
    assert inner.parent == home and not inner.exists()
    eventually(lambda: not keepers(inner) + keepers(inner, watching=True))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_killed_run_left_goes(home: Path) -> None:
    """A folder whose lock nobody holds is a dead run's; one whose lock is held is not."""
    dead, alive = home / "bench-11", home / "bench-12"
    memory = Path(os.environ["TORPOR_DRAM"])
    images = memory.with_name(f"{memory.name}-bench-11")
    images.mkdir()
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "lock").touch()
    with (alive / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with bench_home.own("sim"):
            assert not dead.exists() and not images.exists()
            assert alive.is_dir()


@pytest.mark.full
def test_ctrl_c_keeps_whole_groups_and_leaves_nothing(torpor: Cli, home: Path, tmp_path: Path) -> None:
    running = torpor.start(
        "bench", "raw", "launch", "--quick", "--groups", "1000", "--rounds", "1", "--out", str(tmp_path)
    )
    assert running.stderr
    for line in running.stderr:
        if line.startswith(b"torpor: raw, ") and b": group 2 of" in line:
            break
    os.kill(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    found = results.load(tmp_path)
    assert [(part.name, part.status) for part in found.parts] == [("raw", "interrupted"), ("launch", "interrupted")]
    assert found.parts[0].measurements and not found.parts[1].measurements
    assert b"interrupted: broken off" in output and b"interrupted: not begun" in output
    assert (tmp_path / "report.md").is_file()
    assert [path.name for path in home.iterdir() if path.name.startswith("bench-")] == []
    memory = Path(os.environ["TORPOR_DRAM"])
    assert list(memory.parent.glob(f"{memory.name}-bench-*")) == []
