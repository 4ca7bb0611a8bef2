"""The parts of `torpor bench` on the software GPU, for their logic: every kind of every program, and whole parts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from torpor import api
from torpor.bench import checkpoints, cycles, launches, models, raw, results, several, sources, transfers, turns
from torpor.bench.settings import DRIVER, NATIVE, TORPOR, Settings
from torpor.errors import TorporError


def conversation(command: list[str], lines: list[str], **env: str) -> list[float]:
    """What the program answers to these lines, natively on the software GPU; its end must be a good one."""
    done = subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        env={**Settings(backend="sim").environment(), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [float(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert all(answer > 0 for answer in answers)
    return answers


def refusal(program: list[str], line: str) -> subprocess.CompletedProcess[str]:
    """How the program ends when it is asked for something that it does not know."""
    env = Settings(backend="sim").environment()
    return subprocess.run(program, input=f"{line}\n", env=env, text=True, capture_output=True, check=False)


def test_every_launch_kind(tmp_path: Path) -> None:
    program = [str(sources.compiled("launches", tmp_path))]
    kinds = ["threads:3", "streams:2", "graph:1", "graph:3", "devices:2", *(f"call:{name}" for name in launches.CALLS)]
    conversation(program, [f"{kind} 7" for kind in kinds], TORPOR_SIM_DEVICES="2")
    for wrong in ("call:cuNothing 1", "threads:0 1", "threads:65 1", "nothing 1"):
        ended = refusal(program, wrong)
        assert ended.returncode == 2
        assert "there is no" in ended.stderr


def test_every_transfer_kind(tmp_path: Path) -> None:
    program = [str(sources.compiled("transfers", tmp_path))]
    kinds = [
        f"{direction}:{memory}:{way}:{size}"
        for direction in ("in", "out")
        for memory in ("pinned", "pageable")
        for way in transfers.WAYS
        for size in (8, 100000, 8)
    ]
    conversation(program, [f"{kind} 70" for kind in kinds])
    for wrong in ("in:8 1", "in:pinned:sync:0 1"):
        assert refusal(program, wrong).returncode == 2


MULTIPLY = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import raw_driver as raw
from cuda.bindings import driver
raw.check(driver.cuInit(0))
raw.check(driver.cuCtxSetCurrent(raw.check(driver.cuDevicePrimaryCtxRetain(raw.check(driver.cuDeviceGet(0))))))
for name, (size, zero) in raw.TYPES.items():
    text = raw.HEAD + raw.KERNEL.format(type=name, size=size, zero=zero, side=raw.SIDE)
    module = raw.check(driver.cuModuleLoadData(text.encode() + b"\\0"))
    kernel = raw.check(driver.cuModuleGetFunction(module, f"matmul_{name}".encode()))
    n = 32
    real = {"f32": ctypes.c_float, "f64": ctypes.c_double}[name]
    a, b, c = ((real * (n * n))() for _ in range(3))
    for i in range(n * n):
        a[i], b[i] = i % 7 - 3, i % 5 - 2
    held = [int(raw.check(driver.cuMemAlloc(ctypes.sizeof(a)))) for _ in range(3)]
    raw.check(driver.cuMemcpyHtoD(held[0], a, ctypes.sizeof(a)))
    raw.check(driver.cuMemcpyHtoD(held[1], b, ctypes.sizeof(b)))
    values, types = (*held, n), (*[ctypes.c_uint64] * 3, ctypes.c_uint32)
    raw.check(driver.cuLaunchKernel(kernel, n // 16, n // 16, 1, 16, 16, 1, 0, 0, (values, types), 0))
    raw.check(driver.cuMemcpyDtoH(c, held[2], ctypes.sizeof(c)))
    for row in range(n):
        for column in range(n):
            assert c[row * n + column] == sum(a[row * n + k] * b[k * n + column] for k in range(n)), (name, row, column)
"""


def test_the_plain_product_is_one() -> None:
    command = [sys.executable, "-c", MULTIPLY, str(sources.path("raw_driver.py").parent)]
    env = Settings(backend="sim").environment()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_raw_kind() -> None:
    program = [sys.executable, str(sources.path("raw_driver.py"))]
    lines = ["copy:4096 3", "copy:65536 2", "fill:4096 3", "f32:16 2", "f64:32 2", "peer:4096 2"]
    conversation(program, lines, TORPOR_SIM_DEVICES="2")


@pytest.mark.full
def test_parallel_training() -> None:
    """Each process trains on a GPU of its own, and all must come to the same; one that cannot ends the whole."""
    program = [sys.executable, str(sources.path("train_parallel.py")), "--engine", "driver", "--gpus", "2"]
    command = [*program, *models.TOY_GPT["toy"].options()]
    env = {**Settings(backend="sim").environment(), "TORPOR_SIM_DEVICES": "2"}
    asked = {"input": "step 2\nstep 1\nloss 1\n", "capture_output": True, "text": True, "check": False}
    done = subprocess.run(command, env=env, **asked)
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert float(first) > 0 and float(second) > 0
    alone = [sys.executable, str(sources.path("train.py")), "--engine", "driver", *models.TOY_GPT["toy"].options()]
    assert subprocess.run(alone, env=env, **asked).stdout.splitlines()[-1] == last
    done = subprocess.run(command, env={**env, "TORPOR_SIM_DEVICES": "1"}, **asked)
    assert done.returncode != 0 and "CUDA_ERROR_NO_DEVICE" in done.stderr


def test_where_processes_meet_goes_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the run's: one that is killed removes nothing."""
    commands = []

    def compare(command: list[str], *_: Any, **__: Any) -> list[Any]:
        commands.append(command)
        return []

    monkeypatch.setattr(turns, "compare", compare)
    assert list(several._training(Settings(backend="sim", scratch=tmp_path), [2])) == []
    env = {**Settings(backend="sim").environment(), "TORPOR_SIM_DEVICES": "2"}
    with subprocess.Popen(commands[0], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin and program.stdout
        program.stdin.write("step 1\n")
        program.stdin.flush()
        assert float(program.stdout.readline()) > 0
        assert len(list(tmp_path.iterdir())) == 1
    assert program.returncode == 0 and list(tmp_path.iterdir()) == []


MINDS = """
import sys
sys.path.insert(0, sys.argv[1])
from train_parallel import one_answer
assert one_answer("step 1", ["9.0", "10.5"]) == "10.5"
assert one_answer("loss 1", ["5 0x1p3", "5 0x1p3"]) == "5 0x1p3"
assert one_answer("loss 1", ["5 0x1p3", "5 0x1p4"]) is None
"""


def test_processes_that_differ_are_found() -> None:
    command = [sys.executable, "-c", MINDS, str(sources.path("train_parallel.py").parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gaps_are_those_after_a_moment() -> None:
    times = [10, 900, 910, 1000, 1300, 1310]
    assert cycles.longest_gap(times, since=905) == 300 / 1e9
    assert cycles.longest_gap(times, since=0) == 890 / 1e9
    assert cycles.longest_gap([], since=0) == cycles.longest_gap([5], since=0) == 0


@pytest.mark.criu
@pytest.mark.parametrize("arena", [True, pytest.param(False, marks=pytest.mark.full)], ids=[TORPOR, DRIVER])
def test_a_life_of_a_job(home: Path, arena: bool) -> None:
    found = cycles.live(checkpoints.program(2 / 1024), arena=arena, stall=True)
    assert found.gpu_bytes == (2 << 20 if arena else 0)
    assert found.cpu_bytes > 0
    assert found.pause is not None and found.stall is not None
    # While it is saved it stands still, at the end of the freeze at the latest; before and after it steps.
    assert found.stall > 0
    assert 0 < found.restore <= found.next_step
    assert "criu dump" in found.checkpoint_steps and "criu restore" in found.restore_steps
    assert list((home / "jobs").iterdir()) == []


def cycle(**given: Any) -> cycles.Cycle:
    steps = {"copy": {"seconds": 0.5, "bytes": 1 << 30}, "freeze": {"seconds": 0.001, "bytes": 0}}
    base: dict[str, Any] = {"checkpoint": 1.0, "restore": 2.0, "next_step": 2.5}
    sizes = {"gpu_bytes": 1 << 30, "cpu_bytes": 1 << 29}
    return cycles.Cycle(**{**base, **sizes, "checkpoint_steps": steps, "restore_steps": {}, **given})


def test_what_cycles_tell() -> None:
    found = {TORPOR: [cycle(), cycle(checkpoint=1.2), cycle(checkpoint=1.1)], DRIVER: [cycle(checkpoint=11.0)]}
    told = {m.name: m for m in checkpoints.measurements("16 GiB", 16.0, found, "", bar=True, headline=True)}
    assert told["checkpoint, 16 GiB"].sides[TORPOR] == results.spread([1.0, 1.1, 1.2])
    assert told["checkpoint, 16 GiB"].sides[DRIVER].median == 11.0
    assert told["checkpoint, 16 GiB"].bars == [results.times_faster(8, DRIVER)]
    assert told["copy out, 16 GiB"].sides[TORPOR].median == pytest.approx((1 << 30) / 0.5e9)
    assert told["copy out, 16 GiB"].better == "higher"
    assert told["image of process memory, 16 GiB"].sides[TORPOR].median == 0.5
    assert "copy in, 16 GiB" not in told  # nothing was copied
    dumped = {"criu dump": {"seconds": 0.25, "bytes": 0}, "driver checkpoint": {"seconds": 0.5, "bytes": 0}}
    found = {TORPOR: [cycle(checkpoint_steps=dumped)], DRIVER: [cycle(gpu_bytes=0, checkpoint_steps=dumped)]}
    told = {m.name: m for m in checkpoints.measurements("16 GiB", 16.0, found, "", bar=True, headline=True)}
    assert told["CRIU dump, 16 GiB"].sides[TORPOR].median == pytest.approx((1 << 29) / 0.25e9)
    assert set(told["driver checkpoint, 16 GiB"].sides) == {DRIVER}  # of Torpor's nobody knows how much it is
    assert told["driver checkpoint, 16 GiB"].sides[DRIVER].median == pytest.approx((1 << 29) / 0.5e9)
    alone = {TORPOR: [cycle()], DRIVER: []}
    assert not any(m.bars for m in checkpoints.measurements("16 GiB", 16.0, alone, "", bar=True, headline=True))


def fails_for(side: str) -> Callable[..., cycles.Cycle]:
    """In place of a job's life: one side's always fails."""

    def live(_command: list[str], *, arena: bool, **_more: Any) -> cycles.Cycle:
        if arena == (side == TORPOR):
            raise TorporError(f"{side} cannot")
        return cycle()

    return live


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("part", ["checkpoint", "gpus"])
@pytest.mark.parametrize("side", [TORPOR, DRIVER])
def test_a_side_that_fails_leaves_the_other_alone(side: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "live", fails_for(side))
    for verb in ("keeper_stop", "keeper_warm"):
        monkeypatch.setattr(api, verb, lambda *_: None)
    settings = Settings(backend="sim")
    measuring = checkpoints.run(settings) if part == "checkpoint" else several._cycles(settings, [1, 2])
    found = []
    with pytest.raises(TorporError, match=f"{re.escape(side)} cannot"):
        for measurement in measuring:
            found.append(measurement)
    [other] = {TORPOR, DRIVER} - {side}
    restores = [set(m.sides) for m in results.final(found) if m.name.startswith("restore, ") and ":" not in m.name]
    assert restores == [{other}, {other}]


@pytest.mark.usefixtures("home")
def test_a_size_that_nothing_was_measured_of_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "live", fails_for("nobody"))
    for verb in ("keeper_stop", "keeper_warm"):
        monkeypatch.setattr(api, verb, lambda *_: None)
    said: list[str] = []
    found = list(checkpoints.run(Settings(backend="sim", gib=(99999.0,), say=said.append)))
    assert [(m.name, m.sides) for m in found] == [("checkpoint, 99999 GiB", {})]
    assert all(f"{side} left out: it needs" in found[0].note for side in (DRIVER, TORPOR))
    assert [line.split(" left out")[0] for line in said] == [f"99999 GiB, {side}" for side in (DRIVER, TORPOR)]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("part", ["checkpoint", "gpus"])
def test_each_cycle_is_told_when_it_is_done(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before the one in which the run is broken off, or killed."""
    begun: list[bool] = []

    def live(_command: list[str], *, arena: bool, **_more: Any) -> cycles.Cycle:
        begun.append(arena)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return cycle()

    monkeypatch.setattr(cycles, "live", live)
    for verb in ("keeper_stop", "keeper_warm"):
        monkeypatch.setattr(api, verb, lambda *_: None)
    settings = Settings(backend="sim", driver_repeats=3)
    found = {}
    with pytest.raises(KeyboardInterrupt):
        for measurement in checkpoints.run(settings) if part == "checkpoint" else several._cycles(settings, [2]):
            if measurement.name.startswith("restore, ") and ":" not in measurement.name:
                found[len(begun)] = measurement.sides[DRIVER].n
    assert (found[1], found[2]) == (1, 2)


def test_the_sizes_and_counts_that_are_taken() -> None:
    def gpu(**given: Any) -> Settings:
        return Settings(backend="gpu", device_memory=140 << 30, **given)

    assert checkpoints.sizes_of(gpu(gib=(4.0, 0.0, 4.0))) == [0.0, 4.0]
    assert max(checkpoints.sizes_of(gpu(quick=True))) < max(checkpoints.sizes_of(gpu()))
    assert max(checkpoints.sizes_of(Settings(backend="sim"))) < 0.1
    assert [several.counts_of(gpu(devices=n)) for n in (2, 3, 4, 8)] == [[1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 7, 8]]


@pytest.mark.usefixtures("home")
def test_what_does_not_fit_is_left_out() -> None:
    gpu, room = Settings(backend="gpu"), checkpoints.Room()
    room.memory, room.images = 40 << 30, 100 << 30
    assert not room.lacking(gpu, TORPOR, 16.0)
    assert not room.lacking(gpu, DRIVER, 16.0)
    assert "needs 56 GiB of host memory, 40 are free" in room.lacking(gpu, TORPOR, 48.0)
    room.memory = 39 << 30
    assert "needs 40 GiB of host memory, 39 are free" in room.lacking(gpu, DRIVER, 16.0)  # the process, and its image
    room.memory = 400 << 30
    assert not room.lacking(gpu, TORPOR, 48.0)
    assert "--gib 48" in room.lacking(gpu, DRIVER, 48.0)
    assert not room.lacking(Settings(backend="gpu", gib=(48.0,)), DRIVER, 48.0)
    room.images = 10 << 30
    assert "needs 20 GiB of host memory, 10 are free" in room.lacking(gpu, TORPOR, 16.0)
    assert checkpoints.sizes_of(Settings(backend="gpu", device_memory=16 << 30)) == [0.0, 4.0]


def test_raw_by_the_command_line(torpor: Cli, tmp_path: Path) -> None:
    options = ("--quick", "--groups", "1", "--rounds", "1", "--vm", "answers", "--out", str(tmp_path))
    told = torpor.json("bench", "raw", *options)
    assert told["software_gpu"] is True and told["vm"] == "answers"
    [part] = told["parts"]
    assert part["status"] == "done"
    assert [set(m["sides"]) for m in part["measurements"]] == [{"native", "torpor", "control"}] * 4
    assert {path.name for path in tmp_path.iterdir()} >= {"results.json", "report.md", "index.html", "raw-cost.png"}
    assert results.load(tmp_path).parts[0].figures == list(raw.PART.figures)


@pytest.mark.full
@pytest.mark.criu
@pytest.mark.timeout(600)
def test_every_part_by_the_command_line(torpor: Cli, home: Path, tmp_path: Path) -> None:
    own = ("raw", "launch", "transfers", "checkpoint", "gpus")
    options = ("--groups", "2", "--rounds", "2", "--batch", "0.02", "--repeats", "1", "--out", str(tmp_path))
    running = torpor.start("bench", *own, *options)
    output, errors = running.communicate(timeout=550)
    assert running.returncode == 0, errors.decode()
    found = results.load(tmp_path)
    # One software GPU: the part that compares several is skipped with a line.
    assert [(part.name, part.status) for part in found.parts] == [
        (name, "skipped" if name == "gpus" else "done") for name in own
    ]
    for part in found.parts[:3]:
        assert all({NATIVE, TORPOR} <= set(m.sides) and m.bars for m in part.measurements)
    drawn = {figure.name for part in found.parts for figure in part.figures if part.status == "done"}
    assert {path.stem.split("-", 1)[1] for path in tmp_path.glob("*.png")} == drawn
    assert b"software GPU" in output
    assert [path for path in home.iterdir() if path.name.startswith("bench-")] == []


@pytest.mark.full
@pytest.mark.criu
@pytest.mark.timeout(600)
def test_several_gpus(torpor: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_SIM_DEVICES", "3")
    running = torpor.start("bench", "gpus", "--quick", "--groups", "1", "--rounds", "1", "--out", str(tmp_path))
    _, errors = running.communicate(timeout=550)
    assert running.returncode == 0, errors.decode()
    [part] = results.load(tmp_path).parts
    names = [m.name for m in part.measurements]
    for count in ("1 GPU", "2 GPUs", "3 GPUs"):
        assert f"launches on {count} at once" in names
        assert f"training toy on {count}" in names
        assert f"restore, {count} with 16 MiB each" in names
