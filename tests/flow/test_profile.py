"""`torpor profile`: a whole run, a while in a running job, and what may happen to the job meanwhile."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import torpor as torpor_api
from tests.conftest import Cli, eventually
from tests.flow import walking
from torpor import paths
from torpor.cli import main
from torpor.errors import WrongState
from torpor.keeper.client import KeeperClient, listens
from torpor.keeper.control import ControlClient, Counted, Level, sockets_in
from torpor.profiling import Profile, Sampler, summarise

LAUNCHES = 300
EXPECTED = {
    "cuInit": 1,
    "cuDevicePrimaryCtxRetain": 1,
    "cuCtxSetCurrent": 1,
    "cuModuleLoadData": 1,
    "cuModuleGetFunction": 1,
    "cuMemAlloc_v2": 1,
    "cuLaunchKernel": LAUNCHES,
    "cuCtxGetDevice": LAUNCHES,
    "cuMemcpyHtoD_v2": 3,
    "cuCtxSynchronize": 1,
}
"""What counted.py asks for by itself; its bindings look symbols up besides."""


def command(*more: str) -> list[str]:
    return walking.program("counted.py", str(LAUNCHES), *more)


def by_name(profile: dict[str, Any]) -> dict[str, int]:
    return {one["name"]: one["calls"] for one in profile["calls"]["by_name"]}


def without_lookups(found: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in found.items() if not name.startswith(("cuGetProcAddress", "cuDriverGet"))}


def look(job: torpor_api.Job) -> Counted:
    folder = paths.control_dir(job.name)
    [pid] = sockets_in(folder)
    with ControlClient(folder, pid) as control:
        return control.profile(Level.AS_IT_IS)


def test_a_whole_run(torpor: Cli, tmp_path: Path) -> None:
    options = ("--json", "--times", "--out", str(tmp_path / "out"))
    done = torpor("profile", *options, "--", *command("--exit", "7"), check=7)
    profile = json.loads(done.stdout.splitlines()[-1])
    msgspec.convert(profile, Profile)
    assert without_lookups(by_name(profile)) == EXPECTED
    assert profile["calls"]["calls"] == sum(by_name(profile).values())
    assert sum(one["calls"] for one in profile["calls"]["by_family"]) == profile["calls"]["calls"]
    assert profile["calls"]["questions"] >= LAUNCHES
    assert profile["launches"]["kernels"]["calls"] == LAUNCHES
    assert profile["bytes"]["host_to_device"] == 3000
    assert (profile["schema"], profile["level"], profile["backend"]) == (1, "times", "sim")
    assert [one["whole"] for one in profile["processes"]] == [True]
    gpu = profile["gpu"]
    assert "software GPU" in gpu["source"]
    assert 0 < gpu["seconds"] <= profile["seconds"]
    per_gpu_second = profile["launches"]["kernels"]["per_gpu_second"]
    assert per_gpu_second == pytest.approx(LAUNCHES / gpu["seconds"])
    assert profile["driver_time"]["submitting"] > 0
    assert 0 < profile["driver_time"]["waiting"] < profile["seconds"]
    assert profile["cost"]["seconds"] == pytest.approx(sum(one["seconds"] for one in profile["cost"]["reasons"]))
    assert {reason["what"] for reason in profile["cost"]["reasons"]} >= {"questions answered in the job"}
    off = torpor_json(torpor, "--vm", "off", "--", *command())
    assert off["vm"].get("answered", 0) == 0
    assert off["cost"]["seconds"] > LAUNCHES * 1.8e-9
    assert profile["timeline"][-1]["calls"] == profile["calls"]["calls"]
    assert json.loads((tmp_path / "out" / "profile.json").read_text()) == profile
    assert "cuLaunchKernel" in (tmp_path / "out" / "profile.txt").read_text()
    assert (tmp_path / "out" / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_a_program_that_never_uses_the_gpu(torpor: Cli) -> None:
    done = torpor("profile", "--", "sh", "-c", "echo out; exit 3", check=3)
    assert done.stdout == b"out\n"
    assert b"no process used the driver" in done.stderr
    assert b"0 driver calls" in done.stderr
    assert b"CALLS" not in done.stderr  # no table of nothing


def test_children_are_counted_too(torpor: Cli) -> None:
    """One after the other in the same job, each with its own word."""
    one = " ".join([*command()])
    profile = torpor_json(torpor, "--", "sh", "-c", f"{one} && {one}")
    found = without_lookups(by_name(profile))
    assert found == {name: 2 * count for name, count in EXPECTED.items()}
    assert len(profile["processes"]) == 2


def torpor_json(torpor: Cli, *words: str, check: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(torpor("profile", "--json", *words, check=check).stdout.splitlines()[-1])
    return found


def test_what_deferral_does_is_told(torpor: Cli) -> None:
    profile = torpor_json(torpor, "--vm", "answers", "--", *command())
    assert without_lookups(by_name(profile)) == EXPECTED  # the program asked, whoever answered
    assert profile["vm"]["answered"] > LAUNCHES / 2
    reasons = {one["what"]: one for one in profile["cost"]["reasons"]}
    assert reasons["questions answered in the job"]["seconds"] < 0


def test_ctrl_c_reports_and_dies_by_it(torpor: Cli) -> None:
    script = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); sys.argv = sys.argv[1:]; "
    script += "runpy.run_path(sys.argv[0], run_name='__main__')"
    [_python, program, *words] = command("--pause")
    with torpor.start("profile", "--interval", "60", "--", sys.executable, "-c", script, program, *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        eventually(lambda: listens("sim"))
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().decode()
        assert process.wait() == -signal.SIGINT
    assert "ended without its last word" in errors
    rows = [line.split() for line in errors.splitlines()]
    [launches] = [int(row[1]) for row in rows if row[:1] == ["cuLaunchKernel"]]
    assert launches >= LAUNCHES  # by the look before the signal was passed on: no other was due


def until(job: torpor_api.Job, launches: int, torpor: Cli, end: int = signal.SIGINT) -> dict[str, Any]:
    """Profile a running job until it has counted so many launches, then Ctrl-C."""
    with torpor.start("profile", "--json", job.name) as process:
        assert process.stdout is not None
        eventually(lambda: look(job).calls.get("cuLaunchKernel", 0) >= launches)
        process.send_signal(end)
        found: dict[str, Any] = json.loads(process.stdout.read())
        assert process.wait() == 0
    return found


def test_a_while_in_a_running_job(torpor: Cli) -> None:
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    profile = until(job, 20, torpor)
    found = by_name(profile)
    # Only what came after: its start is not in it, nor what it looked up.
    assert set(found) == {"cuLaunchKernel", "cuCtxSynchronize"}
    assert abs(found["cuLaunchKernel"] - found["cuCtxSynchronize"]) <= 1
    assert profile["launches"]["kernels"]["calls"] == found["cuLaunchKernel"]
    after = look(job)
    assert after.level == "off"
    # A call that was under way as the counting ended may still be counted after the last look.
    assert after.calls["cuLaunchKernel"] - found["cuLaunchKernel"] in (0, 1)
    assert job.state == "running"
    # Once more: what the first one counted is not the second one's.
    again = by_name(until(job, after.calls["cuLaunchKernel"] + 20, torpor, signal.SIGTERM))
    assert again["cuLaunchKernel"] - look(job).calls["cuLaunchKernel"] + after.calls["cuLaunchKernel"] in (0, -1)
    assert torpor_json(torpor, "counted", "--seconds", "0.1")["seconds"] >= 0.1
    assert look(job).level == "off"
    job.kill()
    assert job.wait(100)
    torpor("profile", "counted", check=4)


def test_a_job_that_is_removed_meanwhile_has_been_seen_until_then(torpor: Cli) -> None:
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    with torpor.start("profile", "counted", "--json", "--interval", "0.05") as profiling:
        eventually(lambda: look(job).calls.get("cuLaunchKernel", 0) > 20)
        profiling.send_signal(signal.SIGSTOP)  # so that it sees nothing of the end
        job.kill()
        assert job.wait(100)
        torpor("rm", "counted")
        profiling.send_signal(signal.SIGCONT)
        told, _ = profiling.communicate()
    assert profiling.returncode == 0
    assert by_name(json.loads(told))["cuLaunchKernel"] > 0


def test_a_file_that_cannot_be_written_takes_nothing_else_with_it(torpor: Cli, tmp_path: Path) -> None:
    nowhere = "/proc/timeline.png"
    folder = tmp_path / "out"
    run = torpor("profile", "--gpu", "sim", "--plot", nowhere, "--out", str(folder), "--", *command(), check=0)
    told = run.stderr.decode()
    assert f"{nowhere} could not be written" in told and "cuLaunchKernel" in told
    assert sorted(file.name for file in folder.iterdir()) == ["profile.json", "profile.txt", "timeline.png"]
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    looked = torpor("profile", "counted", "--seconds", "0.5", "--plot", nowhere, check=1)
    assert f"{nowhere} could not be written" in looked.stderr.decode()
    assert looked.stdout.startswith(b"counted: ")
    job.kill()
    assert job.wait(100)


def test_ctrl_c_may_come_while_a_profile_begins(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del home
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    call, calls = KeeperClient.call, []

    def interrupted(self: KeeperClient, verb: str, *more: Any) -> dict[str, Any]:
        found = call(self, verb, *more)
        if verb == "profile":
            calls.append(look(job).level)
            if len(calls) == 1:
                raise KeyboardInterrupt
        return found

    monkeypatch.setattr(KeeperClient, "call", interrupted)
    assert main(["profile", "--json", "counted"]) == 0
    assert calls == ["counts", "off"]
    assert json.loads(capsys.readouterr().out)["job"] == "counted"
    job.kill()


@pytest.mark.full
def test_one_at_a_time(home: Path) -> None:
    del home
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    first, second = Sampler(), Sampler()
    first.begin(job)
    with pytest.raises(WrongState, match="somebody else"):
        second.begin(job)
    eventually(lambda: look(job).calls)
    assert first.end().total("calls")["cuLaunchKernel"] > 0
    job.kill()


@pytest.mark.full
def test_when_nobody_looks_any_more(torpor: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    del torpor
    monkeypatch.setattr("torpor.profiling.sampler.LEASE_SECONDS", 0.01)
    job = torpor_api.run(command("--pause"), name="counted", gpu="sim")
    eventually(lambda: walking.printed(job))
    sampler = Sampler(interval=60)
    sampler.begin(job)
    eventually(lambda: look(job).level == "off")
    sampler.end()
    job.kill()


@pytest.mark.criu
def test_checkpoints_do_not_mind(home: Path) -> None:
    """Saved while it runs on, suspended and resumed; counted all the time, by frequent looks."""
    del home
    undisturbed = walking.reference()
    job = torpor_api.run(walking.command(), name="walk", gpu="sim")
    walking.walk_on(job, 3)
    sampler = Sampler(interval=0.02)
    sampler.begin(job)
    walking.walk_on(job, 3)
    job.checkpoint(tier="dram", leave_running=True).remove()
    walking.walk_on(job, 3)
    job.suspend(tier="dram")
    job.resume()
    eventually(lambda: look(job).level == "counts")
    walking.walk_on(job, 5)
    before = look(job)
    recording = sampler.end()
    assert recording.total("calls")["cuMemsetD8Async"] >= 8
    assert recording.total("calls")["cuMemsetD8Async"] >= before.calls["cuMemsetD8Async"]
    assert summarise(recording, job).launches["kernels"]["calls"] == 0  # it copies and fills
    assert walking.finish(job) == undisturbed


@pytest.mark.criu
@pytest.mark.parametrize("to", ["memory", pytest.param("image", marks=pytest.mark.full), "another name"])
def test_a_profile_that_ends_while_the_job_is_away_is_over_when_it_wakes(home: Path, to: str) -> None:
    del home
    job = torpor_api.run(walking.command(), name="walk", gpu="sim")
    walking.walk_on(job, 3)
    sampler = Sampler(interval=60)
    sampler.begin(job)
    if to == "memory":
        job.suspend(tier="dram")
        sampler.end()
        job.resume()
    else:
        image = job.checkpoint(tier="dram")
        sampler.end()
        job = torpor_api.restore(image, name="other" if to == "another name" else None)
    again = Sampler(interval=60)
    again.begin(job)  # else somebody else would be counting
    walking.walk_on(job, 3)
    assert again.end().total("calls")["cuMemsetD8Async"] > 0
    job.kill()


@pytest.mark.full
@pytest.mark.criu
def test_a_job_put_away_and_woken(home: Path) -> None:
    """The profile ends with the job's sleep; what was counted is in the image, and the counting ends when it wakes."""
    del home
    undisturbed = walking.reference()
    job = torpor_api.run(walking.command(), name="walk", gpu="sim")
    walking.walk_on(job, 3)
    sampler = Sampler(interval=0.02)
    sampler.begin(job)
    walking.walk_on(job, 3)
    before = look(job).calls["cuMemsetD8Async"]
    image = job.checkpoint(tier="dram")
    assert sampler.end().total("calls")["cuMemsetD8Async"] > 0
    woken = torpor_api.restore(image)
    walking.walk_on(woken, 3)
    found = look(woken)
    assert found.calls["cuMemsetD8Async"] >= before
    assert found.level == "off"
    assert walking.finish(woken) == undisturbed


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--",),
        ("job", "--", "true"),
        ("job", "--name", "x"),
        ("job", "--vm", "defer"),
        ("--seconds", "1", "--", "true"),
        ("--seconds", "0", "job"),
        ("--interval", "0", "job"),
    ],
)
def test_bad_usage(home: Path, words: tuple[str, ...]) -> None:
    del home
    assert main(["profile", *words]) == 2


def test_what_cannot_be_profiled(home: Path) -> None:
    del home
    assert main(["profile", "nobody"]) == 3
    assert main(["profile", "--", "/no/such/program"]) == 127
