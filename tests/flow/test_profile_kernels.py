"""`torpor profile --kernels`: each kernel, copy and fill timed inside the job, and what such a job can no more."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import torpor as torpor_api
from tests.conftest import Cli, eventually
from tests.flow import walking
from torpor import paths
from torpor.cli import main
from torpor.errors import UsageError, WrongState
from torpor.profiling import Profile, Sampler, summarise
from torpor.profiling.kernels import SOURCE, Told

LAUNCHES = 300
CALLS = {"nothing(float*, int)": LAUNCHES, "host to device": 3, "device to host": 1, "device to device": 1, "fill": 4}
"""Of what timed.py does."""


def command(*more: str) -> list[str]:
    return walking.program("timed.py", str(LAUNCHES), *more)


def profiled(torpor: Cli, *words: str) -> dict[str, Any]:
    done = torpor("profile", "--json", "--kernels", *words)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    msgspec.convert(found, Profile)
    return found


def rows(profile: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in profile["kernels"]}


def told(job: str) -> Told | None:
    """The only file of the job's processes."""
    with suppress(FileNotFoundError, ValueError):
        [path] = paths.job_profile(job).glob("*.kernels.json")
        return msgspec.json.decode(path.read_bytes(), type=Told)
    return None


def launches(job: str) -> int:
    found = told(job)
    return sum(row.calls for row in found.work if row.kind == "kernel") if found else 0


def test_what_ran_and_how_long(torpor: Cli, tmp_path: Path) -> None:
    profile = profiled(torpor, "--out", str(tmp_path), "--", *command())
    found = rows(profile)
    assert {name: one["calls"] for name, one in found.items()} == CALLS
    assert {name: one["kind"] for name, one in found.items()}["nothing(float*, int)"] == "kernel"
    assert {name: one["bytes"] for name, one in found.items() if one["kind"] != "kernel"} == {
        "host to device": 3000,
        "device to host": 500,
        "device to device": 1000,
        "fill": 400,
    }
    assert sum(one["share"] for one in found.values()) == pytest.approx(1)
    seconds = [one["seconds"] for one in profile["kernels"]]
    assert seconds == sorted(seconds, reverse=True)
    for one in found.values():
        assert 0 < one["mean"] <= one["longest"] <= one["seconds"]
    gpu = profile["gpu"]
    assert gpu["source"] == SOURCE
    assert gpu["seconds"] == pytest.approx(sum(seconds))  # one stream: nothing overlaps
    assert [one["seconds"] for one in gpu["devices"]] == [gpu["seconds"]]
    per_gpu_second = profile["launches"]["kernels"]["per_gpu_second"]
    assert per_gpu_second == pytest.approx(LAUNCHES / gpu["seconds"])
    assert profile["timeline"][-1]["busy"] == pytest.approx(gpu["seconds"])
    assert profile["notes"] == []
    text = (tmp_path / "profile.txt").read_text()
    assert "nothing(float*, int)" in text
    assert "by CUPTI" in text


def test_overlapping_work_counts_once(torpor: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of 40 ms, in different directions at the same time."""
    monkeypatch.setenv("TORPOR_SIM_LINK", "0.1")
    profile = profiled(torpor, "--", *command("--overlap"))
    found = rows(profile)
    both = [found["host to device"]["longest"], found["device to host"]["longest"]]
    assert min(both) >= 0.04
    total = sum(one["seconds"] for one in found.values())
    assert max(both) <= profile["gpu"]["seconds"] < total - 0.02


def test_many_short_kernels(torpor: Cli) -> None:
    """More than a buffer holds, and long enough for the figures to be written while they run."""
    many = 150_000
    profile = profiled(torpor, "--", *walking.program("timed.py", str(many)))
    found = rows(profile)
    assert found["nothing(float*, int)"]["calls"] == many
    assert profile["gpu"]["seconds"] == pytest.approx(sum(one["seconds"] for one in found.values()))
    assert profile["notes"] == []


def test_off_unless_asked_for(torpor: Cli) -> None:
    done = torpor("profile", "--json", "--name", "plain", "--", *command())
    profile = json.loads(done.stdout.splitlines()[-1])
    assert profile["kernels"] is None
    assert "software GPU's own clock" in profile["gpu"]["source"]
    assert not (paths.job_native("plain") / "kernel_times.so").exists()


def test_a_forked_child_tells_nothing(torpor: Cli) -> None:
    profile = profiled(torpor, "--", *command("--fork"))
    assert {one["name"]: one["calls"] for one in profile["kernels"]} == CALLS


def test_processes_one_after_the_other(torpor: Cli) -> None:
    one = " ".join(command())
    profile = profiled(torpor, "--", "sh", "-c", f"{one} && {one}")
    assert {one["name"]: one["calls"] for one in profile["kernels"]} == {name: 2 * n for name, n in CALLS.items()}


def test_a_job_that_is_not_saved_and_then_killed(torpor: Cli) -> None:
    """It runs on untouched when it is refused, and what it wrote last is kept when it is killed."""
    with torpor.start("profile", "--json", "--kernels", "--name", "timed", "--", *command("--pause")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        job = torpor_api.job("timed")
        for words in ("checkpoint timed", "checkpoint timed --leave-running --tier dram", "suspend timed"):
            done = torpor(*words.split(), check=4)
            assert b"kernels timed" in done.stderr
            assert b"without `torpor profile --kernels`" in done.stderr
        with pytest.raises(WrongState, match="kernels timed"):
            job.checkpoint_into("/nowhere/store")  # before the store is looked for
        assert job.state == "running"
        assert torpor_api.images() == []
        eventually(lambda: launches("timed") > LAUNCHES)
        last = launches("timed")
        job.kill(signal.SIGKILL)
        profile = json.loads(process.stdout.read().splitlines()[-1])
    assert rows(profile)["nothing(float*, int)"]["calls"] >= last
    assert profile["gpu"]["source"] == SOURCE
    assert any("without its last figures" in note for note in profile["notes"])


@pytest.mark.parametrize("library", ["nothing there", "no CUPTI"])
def test_without_cupti(torpor: Cli, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    file = "/nowhere/libcupti.so" if library == "nothing there" else str(paths.kernel_times())
    monkeypatch.setenv("TORPOR_CUPTI", file)
    profile = profiled(torpor, "--", *command())
    assert profile["kernels"] is None
    assert "software GPU's own clock" in profile["gpu"]["source"]
    assert profile["gpu"]["seconds"] > 0
    notes = " | ".join(profile["notes"])
    assert ("TORPOR_CUPTI" if library == "nothing there" else "lacks functions") in notes
    assert "no kernels were timed" in notes


def test_it_leaves_the_program_alone(torpor: Cli) -> None:
    words = ("--kernels", "--", "sh", "-c", f"{' '.join(command())}; echo out; exit 3")
    done = torpor("profile", *words, check=3)
    assert done.stdout == b"out\n"
    assert b"nothing(float*, int)" in done.stderr
    # Nor does a limit on the size of its files end it, when ours is beyond that.
    profile = profiled(torpor, "--", *command("--no-files"))
    assert any("without its last figures" in note for note in profile["notes"])


def test_from_python(home: Path) -> None:
    del home
    sampler = Sampler(kernels=True)
    job = torpor_api.run(command(), gpu="sim", env=sampler.environment())
    sampler.begin(job)
    assert job.wait(100)
    profile = summarise(sampler.end(), job)
    assert profile.kernels is not None
    assert {one["name"]: one["calls"] for one in profile.kernels} == CALLS
    with pytest.raises(UsageError, match="without timing"):
        Sampler(kernels=True).begin(torpor_api.run(["true"], gpu="sim"))


def test_bad_usage(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    del home
    assert main(["profile", "--kernels", "job"]) == 2
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool/inject.so")
    assert main(["profile", "--kernels", "--", "true"]) == 2
    assert "CUDA_INJECTION64_PATH" in capsys.readouterr().err
    assert main(["profile", "--", "true"]) == 0
    assert torpor_api.jobs()[0].record.command == ["true"]  # and nothing is left of the other
