"""Timing kernels: the union of intervals, and what is made of processes' files."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import REPOSITORY
from tests.native.compiled import compiled
from tests.unit.on_sim import run_on_sim
from tests.unit.test_profile_recording import counted
from torpor import launch, paths
from torpor.keeper.control import DeviceId
from torpor.profiling import Recording, kernels
from torpor.profiling.kernels import SOURCE, KernelTimes, Told, at
from torpor.records import KERNELS, JobRecord


def test_the_union_of_intervals() -> None:
    program = compiled("tests/native/cupti/coverage_test.cpp", REPOSITORY / "native/cupti/coverage.cpp")
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout


WORK = """
    from cuda.bindings import driver

    def check(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result
        return result[1] if len(result) > 1 else None

    check(driver.cuInit(0))
    memory = []
    for number in range(2):
        check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(number))))
        memory.append(check(driver.cuMemAlloc(1 << 20)))
    check(driver.cuCtxEnablePeerAccess(check(driver.cuDevicePrimaryCtxRetain(0)), 0))
    check(driver.cuMemcpyDtoD(memory[1], memory[0], 1000))
    stream = check(driver.cuStreamCreate(1))
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    for _ in range(3):
        check(driver.cuMemsetD8Async(memory[1], 1, 50, stream))
    graph = check(driver.cuGraphInstantiate(check(driver.cuStreamEndCapture(stream)), 0))
    for _ in range(2):
        check(driver.cuGraphLaunch(graph, stream))
    check(driver.cuCtxSynchronize())
"""


def test_graphs_and_several_devices_without_the_interposer(tmp_path: Path) -> None:
    (tmp_path / "profile").mkdir()
    variables = {
        "TORPOR_SIM_DEVICES": "2",
        "TORPOR_JOB_DIR": str(tmp_path),
        "CUDA_INJECTION64_PATH": str(paths.kernel_times()),
        "TORPOR_CUPTI": str(paths.software_cupti()),
    }
    assert run_on_sim(WORK, **variables) == ""
    [file] = (tmp_path / "profile").iterdir()
    told = msgspec.json.decode(file.read_bytes(), type=Told)
    assert {(one.name, one.kind, one.calls, one.bytes) for one in told.work} == {
        ("device to device (peer)", "copy", 1, 1000),
        ("fill", "fill", 6, 300),  # three of each launch
    }
    assert [device.ordinal for device in told.devices] == [1]
    assert told.devices[0].busy_ns == sum(one.ns for one in told.work)
    assert (told.failures, told.dropped, told.untimed, told.ended) == ([], 0, 0, True)
    # A library that cannot be loaded is none of the program's affair.
    assert run_on_sim(WORK, **variables | {"CUDA_INJECTION64_PATH": "/nowhere/tool.so"}) == ""


SUBSCRIBERS = "cuptiActivityEnable: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
WAITED = "CUPTI did not hand out its last records, for which the process's end waited 10 s"
TWO = {"\"a\\b\n\xff": 20, "void at::native::copy<float>(float*)": 30}


@pytest.mark.parametrize(
    ("trouble", "work", "facts"),
    [
        ("none", TWO, {}),
        ("drop", TWO, {"dropped": 7}),
        ("untimed", {"timed": 20}, {"untimed": 2}),
        ("refuse", {}, {"failures": [SUBSCRIBERS]}),
        ("half", TWO, {"failures": [SUBSCRIBERS]}),
        ("broken", {}, {"failures": ["cuptiActivityGetNextRecord: error 999"]}),
        ("unflushed", TWO, {"failures": ["cuptiActivityFlushAll: error 999"]}),
        ("hang", {}, {"failures": [WAITED], "ended": False}),
    ],
)
def test_troubles_with_cupti(tmp_path: Path, trouble: str, work: dict[str, int], facts: dict[str, Any]) -> None:
    told = told_by_fake(tmp_path, trouble)
    assert {one.name: one.ns for one in told.work if one.calls} == work
    expected = {"failures": [], "dropped": 0, "untimed": 0, "ended": True, **facts}
    assert {name: getattr(told, name) for name in expected} == expected
    if work == TWO:
        assert [device.busy_ns for device in told.devices] == [40]  # from 10 to 30, and from 20 to 50
    assert (time.monotonic_ns() - told.clock_ns > 5 * 10**9) == (trouble == "hang")  # since when nothing is told
    assert told.usable == (trouble not in ("refuse", "broken", "hang"))


HANGING_DISK = """
    import os, time
    from cuda.bindings import driver

    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    memory = driver.cuMemAlloc(64)[1]
    folder = os.environ["TORPOR_JOB_DIR"] + "/profile"
    while not (written := [name for name in os.listdir(folder) if name.endswith(".kernels.json")]):
        time.sleep(0.01)
    os.mkfifo(f"{folder}/{written[0]}.partial")  # the next figures are a while off
    driver.cuMemsetD8(memory, 1, 64)
    time.sleep(2.5)
    for _ in range(70_000):  # more than one buffer of records
        driver.cuMemsetD8Async(memory, 1, 64, 0)
    print(driver.cuCtxSynchronize()[0].value, flush=True)
    os._exit(0)
"""


def test_a_disk_that_hangs_does_not_stop_the_program(tmp_path: Path) -> None:
    """A pipe that nobody reads is in the file's place."""
    (tmp_path / "profile").mkdir()
    variables = {"CUDA_INJECTION64_PATH": str(paths.kernel_times()), "TORPOR_CUPTI": str(paths.software_cupti())}
    assert run_on_sim(HANGING_DISK, TORPOR_JOB_DIR=str(tmp_path), **variables) == "0\n"


def test_names_without_end(tmp_path: Path) -> None:
    told = told_by_fake(tmp_path, "names")
    assert len(told.work) == 8193
    assert [one.calls for one in told.work if one.name == "(other kernels)"] == [10000 - 8192]


def told_by_fake(folder: Path, trouble: str) -> Told:
    (folder / "profile").mkdir()
    found = run_on_sim(
        "from cuda.bindings import driver; print(driver.cuInit(0)[0].value)",
        TORPOR_JOB_DIR=str(folder),
        CUDA_INJECTION64_PATH=str(paths.kernel_times()),
        TORPOR_CUPTI=str(compiled("tests/native/cupti/fake_cupti.cpp", "-shared", "-fPIC")),
        FAKE_CUPTI=trouble,
    )
    assert found == "0\n"
    [file] = (folder / "profile").iterdir()
    return msgspec.json.decode(file.read_bytes(), type=Told)


def row(name: str, calls: int, ns: int, kind: str = "kernel") -> dict[str, Any]:
    return {"name": name, "kind": kind, "calls": calls, "ns": ns, "longest_ns": ns // calls, "bytes": 0}


def write(folder: Path, pid: int, **more: Any) -> None:
    facts = {
        "pid": pid,
        "clock_ns": 10**9,
        "ended": True,
        "library": "libcupti.so.13",
        "failures": [],
        "dropped": 0,
        "untimed": 0,
        "devices": [{"ordinal": 0, "busy_ns": 10**9}],
        "work": [row("a", 10, 10**9)],
    }
    (folder / f"{pid}-1.kernels.json").write_text(json.dumps(facts | more))


def recorded(*pids: int, launches: int = 10) -> Recording:
    recording = Recording("job", "counts", source="a counter", busy={"GPU-a": 7.0})
    devices = [DeviceId(0, "GPU-a"), DeviceId(1, "GPU-b")]
    recording.see([counted(pid, 1, launches, devices=devices) for pid in pids], first=False)
    for moment in (0.0, 0.5, 1.0, 2.0):
        recording.mark(moment)
    return recording


def test_processes_are_added_up_and_take_the_counters_place(tmp_path: Path) -> None:
    times = KernelTimes(tmp_path)
    write(tmp_path, 300, clock_ns=5 * 10**9, devices=[], work=[])
    times.look()
    write(tmp_path, 300, clock_ns=6 * 10**9)
    times.look()
    second = [{"ordinal": 0, "busy_ns": 10**8}, {"ordinal": 1, "busy_ns": 10**8}]
    work = [row("a", 1, 10**8), row("b", 9, 10**7), row("c", 1, 2)]
    write(tmp_path, 301, clock_ns=6 * 10**9, devices=second, work=work)
    recording = recorded(300, 301)
    times.settle(recording, 5.0, over=True)
    assert recording.source == SOURCE
    assert recording.busy == pytest.approx({"GPU-a": 1.1, "GPU-b": 0.1})
    assert recording.work is not None
    assert [(one.name, one.calls) for one in recording.work] == [("a", 11), ("b", 9), ("c", 1)]
    assert recording.work[0].longest == 0.1
    assert [point.busy for point in recording.points] == pytest.approx([0.0, 0.5, 1.2, 1.2])
    assert recording.notes == []
    times.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"dropped": 5}, "dropped 5 records"),
        ({"untimed": 2}, "2 kernels or copies ended without a time"),
        ({"ended": False}, "what ran later than 1.0 s after"),
        ({"failures": ["cuptiActivityEnable: CUPTI_ERROR_X"]}, "cuptiActivityEnable: CUPTI_ERROR_X"),
        ({"work": [row("a", 5, 10**9)]}, "10 kernels were launched and 5 timed"),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    write(tmp_path, 300, **facts)
    recording = recorded(300)
    KernelTimes(tmp_path).settle(recording, 0.0, over=True)
    assert recording.source == SOURCE
    [note] = recording.notes
    assert said in note


def test_what_is_explained_is_not_explained_otherwise(tmp_path: Path) -> None:
    """Whose last figures are missing need not have had a rival for CUPTI."""
    write(tmp_path, 300, ended=False, work=[row("a", 5, 10**9)])
    recording = recorded(300)
    KernelTimes(tmp_path).settle(recording, 0.0, over=True)
    assert [note.split(":")[0] for note in recording.notes][1:] == ["10 kernels were launched and 5 timed"]
    assert "CUPTI" not in recording.notes[1]


def test_each_process_has_devices_of_its_own(tmp_path: Path) -> None:
    """As with a CUDA_VISIBLE_DEVICES for each; of one that was never seen nobody can say which it had."""
    for pid in (300, 301, 302):
        write(tmp_path, pid, work=[row("a", 10, 10**9)])
    recording = recorded(302)
    for pid, name in ((300, "GPU-a"), (301, "GPU-b")):
        recording.see([counted(pid, 1, 10, devices=[DeviceId(0, name)])], first=False)
    recording.processes[0].devices = []
    KernelTimes(tmp_path).settle(recording, 0.0, over=True)
    assert recording.busy == {"GPU-a": 1.0, "GPU-b": 1.0, "device 0": 1.0}


def test_killed_before_the_first_record(tmp_path: Path) -> None:
    """Then the counter knows more than CUPTI."""
    write(tmp_path, 300, ended=False, devices=[], work=[])
    recording = recorded(300)
    KernelTimes(tmp_path).settle(recording, 0.0, over=True)
    assert (recording.source, recording.work) == ("a counter", None)
    assert "without its last figures" in recording.notes[0]


def test_an_empty_variable_names_no_cupti() -> None:
    record = JobRecord(name="one", command=["true"], cwd="/", backend="sim", env={KERNELS: "on"})
    assert launch.job_env(record, {"TORPOR_CUPTI": ""})["TORPOR_CUPTI"].endswith("/native/sim/libcupti.so")
    assert launch.job_env(record, {"TORPOR_CUPTI": "/mine.so"})["TORPOR_CUPTI"] == "/mine.so"


def test_without_figures_the_counter_stays(tmp_path: Path) -> None:
    write(tmp_path, 300, library="", failures=["libcupti.so.13 is not found"], devices=[], work=[])
    recording = recorded(300, 301)
    KernelTimes(tmp_path).settle(recording, 0.0, over=True)
    assert (recording.source, recording.busy, recording.work) == ("a counter", {"GPU-a": 7.0}, None)
    assert [note.split(":")[0] for note in recording.notes[:2]] == ["process 300, timing its kernels", "process 301"]
    assert recording.notes[2] == "no kernels were timed, GPU time is a counter"


def test_a_long_course_is_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MOST_POINTS", 4)
    times = KernelTimes(tmp_path)
    for second in range(1, 30):
        write(tmp_path, 300, clock_ns=second * 10**9, devices=[{"ordinal": 0, "busy_ns": second * 10**8}])
        os.utime(tmp_path / "300-1.kernels.json", ns=(second, second))
        times.look()
    [course] = times._courses.values()
    assert len(course) <= 4 and course[0] == (1.0, 0.1) and course[-1] == (29.0, 2.9)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "1-1.kernels.json").write_text("{")
    (tmp_path / "2-1.kernels.json").symlink_to("/etc/passwd")
    (tmp_path / "3-1.kernels.json").mkdir()
    recording = recorded(300)
    times = KernelTimes(tmp_path)
    times.look()
    times.settle(recording, 0.0, over=True)
    assert sum("cannot be read" in note for note in recording.notes) == 3


def test_between_two_moments() -> None:
    course = [(1.0, 0.0), (2.0, 0.8), (4.0, 1.0)]
    moments = [0.0, 1.0, 1.5, 2.0, 3.0, 9.0]
    assert [at(course, moment) for moment in moments] == pytest.approx([0.0, 0.0, 0.4, 0.8, 0.9, 1.0])
