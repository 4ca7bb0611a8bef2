"""How `torpor bench` runs: parts that fail, Ctrl-C, and a home that leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Cli, eventually, keepers
from torpor import api
from torpor.bench import home as bench_home
from torpor.bench import parts, results, runner, several, sources
from torpor.bench.parts import Part
from torpor.bench.results import Measurement, Results
from torpor.bench.settings import NATIVE, Settings
from torpor.cli import main as cli_main
from torpor.errors import Cancelled, DriverMissing, MissingPart


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


@pytest.mark.parametrize(("options", "bars"), [(("--quick",), 0), ((), 1)])
def test_a_quick_run_has_no_bars(
    home: Path, fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], bars: int
) -> None:
    del home, fakes
    promised = Measurement(name="a", unit="s", sides={}, bars=[results.within(0.01)])
    monkeypatch.setitem(sys.modules, "fake_part_works", SimpleNamespace(PART=Part("works", "It", lambda _: [promised])))
    assert cli_main(["bench", "works", *options, "--out", str(tmp_path)]) == 0
    [part] = results.load(tmp_path).parts
    assert len(part.measurements[0].bars) == bars


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


def test_a_copy_that_nobody_knew_of_leaves_nothing_behind(home: Path) -> None:
    """Ctrl-C came just as a copy had been started: it must not go on to start its job, and a keeper, in a new home."""
    with pytest.raises(KeyboardInterrupt), bench_home.own("sim"):
        inner = Path(os.environ["TORPOR_HOME"])
        copy = subprocess.Popen([sys.executable, "-m", "torpor", "run", "--", "sleep", "1"])
        raise KeyboardInterrupt
    assert copy.wait(60) == -signal.SIGKILL
    assert inner.parent == home and not inner.exists()


def test_one_that_has_just_been_started_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its new memory is there before its command line is."""
    (tmp_path / "exe").symlink_to(sys.executable)
    (tmp_path / "cmdline").write_bytes(b"")
    monkeypatch.setattr(time, "sleep", lambda _: (tmp_path / "cmdline").write_bytes(b"torpor\0run"))
    assert bench_home._words(tmp_path / "cmdline", time.monotonic() + 100) == [b"torpor", b"run"]
    (tmp_path / "environ").write_bytes(b"")
    assert bench_home._words(tmp_path / "environ", time.monotonic()) == [b""]


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
