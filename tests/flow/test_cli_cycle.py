"""The main job by the command line: run, checkpoint, die, wake, on the software GPU with real CRIU."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, REPOSITORY, Cli, eventually, start_keeper
from torpor import api
from torpor.errors import AWAY, ImageMismatch, UsageError, WrongState
from torpor.keeper import jobs

LEAVING = REPOSITORY / "tests" / "flow" / "leaving.py"
COUNTER = (sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "8", "--delay", "0.02")


def counts(torpor: Cli, job: str) -> list[int]:
    """The numbers that a job has printed so far; the last line may be on its way."""
    return [int(number) for number in re.findall(rb"^count (\d+)\n", torpor("logs", job).stdout, re.MULTILINE)]


def passes(torpor: Cli, job: str, number: int) -> None:
    eventually(lambda: counts(torpor, job)[-1:] > [number])


@pytest.fixture
def counter(torpor: Cli) -> str:
    """The name of a job that counts and has printed some numbers."""
    torpor("run", "-d", "--name", "count", "--", *COUNTER)
    passes(torpor, "count", 5)
    return "count"


def states(torpor: Cli) -> dict[str, str]:
    return {job["name"]: job["state"] for job in torpor.json("ps")}


def test_a_job_goes_on_where_it_stood(torpor: Cli, counter: str) -> None:
    saved = torpor.json("checkpoint", counter)
    assert saved["gpu_bytes"] >= 8 << 20
    assert saved["seconds"] >= saved["phases"]["copy"] > 0
    assert states(torpor) == {counter: "asleep"}
    last = counts(torpor, counter)[-1]

    woken = torpor.json("restore", saved["image"])
    assert woken["job"] == counter
    passes(torpor, counter, last + 3)
    numbers = counts(torpor, counter)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert states(torpor) == {counter: "running"}


def test_names_need_not_be_characters(torpor: Cli, tmp_path: Path) -> None:
    """The kernel cuts a program's name to 15 bytes, in the midst of a character if need be; others never were UTF-8."""
    program = tmp_path / "\udcff" / f"{'a' * 14}é"
    program.parent.mkdir()
    shutil.copy(shutil.which("sleep") or "", program)
    line = ("run", "-d", "--name", "named", "--env", "NAME=\udcfe", "--", str(program), "1000")
    subprocess.run([*torpor.command, *line], cwd=program.parent, check=True, stdout=subprocess.DEVNULL)
    for verb, name in (("suspend", "named"), ("resume", "named"), ("checkpoint", "named"), ("restore", "named-1")):
        torpor(verb, name)
    assert states(torpor) == {"named": "running"}
    assert torpor.json("ps")[0]["command"] == [str(program).replace("\udcff", "\\udcff"), "1000"]
    found = jobs.open_tree(api.job("named").record).tree
    assert b"NAME=\xfe" in Path(f"/proc/{found[0].pid}/environ").read_bytes().split(b"\0")


def test_a_foreground_run_says_where_its_job_went(torpor: Cli, home: Path) -> None:
    with torpor.start("run", "--name", "front", "--", *COUNTER) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = b""
        while not printed.endswith(b"count 5\n"):
            line = process.stdout.readline()
            assert line
            printed += line
        torpor("checkpoint", "front")
        # The pipe holds what was printed up to the checkpoint: the reader must get all of it.
        printed += process.stdout.read()
        assert process.wait(timeout=PATIENCE) == AWAY
        told = process.stderr.read().decode()
    assert printed == torpor("logs", "front").stdout
    assert str(home / "images" / "front-1") in told
    assert "torpor restore front-1" in told
    assert b"wake it with" in torpor("wait", "front", check=AWAY).stderr


def test_a_woken_job_can_be_stayed_with(torpor: Cli, home: Path) -> None:
    go = home / "go"
    script = f"while [ ! -e {go} ]; do echo here; sleep 0.02; done; exit 3"
    torpor("run", "-d", "--name", "ends", "--", "sh", "-c", script)
    eventually(lambda: b"here" in torpor("logs", "ends").stdout)
    image = torpor.json("checkpoint", "ends")["image"]
    with torpor.start("restore", "--attach", image) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        go.touch()
        assert set(process.stdout.read().split()) <= {b"here"}
        assert process.wait(timeout=PATIENCE) == 3
    assert states(torpor) == {"ends": "exited"}


def test_suspended_it_prints_nothing_and_resumed_it_goes_on(torpor: Cli, counter: str) -> None:
    for tier in ("hbm", "dram"):
        assert torpor.json("suspend", "--tier", tier, counter)["tier"] == tier
        assert f"suspended ({tier})" in torpor("ps").stdout.decode()
        torpor("suspend", counter, check=WrongState.code)
        before = counts(torpor, counter)[-1]
        torpor("resume", counter)
        passes(torpor, counter, before + 2)
        numbers = counts(torpor, counter)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    torpor("resume", counter, check=WrongState.code)


def test_it_runs_on_when_asked_and_takes_several_images(torpor: Cli, counter: str, tmp_path: Path) -> None:
    torpor("checkpoint", "--leave-running", counter)
    torpor("checkpoint", "--leave-running", "--tier", "dram", counter)
    elsewhere = tmp_path / "elsewhere"
    torpor("checkpoint", "--leave-running", "--to", str(elsewhere), counter)
    assert states(torpor) == {counter: "running"}
    assert [(image["name"], image["tier"]) for image in torpor.json("images")] == [
        ("count-1", "disk"),
        ("count-2", "dram"),
    ]
    assert torpor.json("show", str(elsewhere))["name"] == "elsewhere"
    torpor("checkpoint", "--to", str(elsewhere), counter, check=UsageError.code)
    passes(torpor, counter, counts(torpor, counter)[-1])


def test_show_decodes_and_verifies_an_image(torpor: Cli, home: Path, counter: str) -> None:
    torpor("checkpoint", counter)
    shown = torpor.json("show", "--verify", "count-1")
    assert shown["job"]["command"] == list(COUNTER)
    assert sum(block["size"] for process in shown["processes"] for block in process["blocks"]) == shown["gpu_bytes"]
    text = torpor("show", "--all", "count-1").stdout.decode()
    for entry in shown["files"]:
        assert entry["path"] in text
    for block in shown["processes"][0]["blocks"]:
        assert hex(block["address"]) in text
    victim = home / "images" / "count-1" / "log"
    victim.write_bytes(victim.read_bytes()[:-1])
    damaged = torpor("show", "--verify", "--json", "count-1", check=7)
    assert "log" in json.loads(damaged.stdout)["error"]["message"]


def test_removed_images_are_gone_and_their_job_too(torpor: Cli, home: Path, counter: str) -> None:
    torpor("checkpoint", "--leave-running", "--tier", "dram", counter)
    torpor("checkpoint", counter)
    assert torpor.json("rm", "count-1", "count-2", counter)["removed"] == [
        {"name": "count-1", "kind": "image"},
        {"name": "count-2", "kind": "image"},
        {"name": "count", "kind": "job"},
    ]
    assert torpor.json("images") == []
    assert torpor.json("ps") == []
    assert list((home / "images").iterdir()) == []


@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_an_image_that_cannot_be_read_is_told_and_can_be_removed(torpor: Cli, counter: str, tier: str) -> None:
    image = Path(torpor.json("checkpoint", counter, "--tier", tier)["path"])
    (image / "manifest.json").write_bytes(b"{")
    listed = torpor("images")
    assert b"count-1" not in listed.stdout
    assert f"{image} cannot be read; `torpor rm count-1` removes it".encode() in listed.stderr
    torpor("rm", "--image", "count-1")
    assert not image.exists()
    assert not list(image.parent.glob("count-1*"))
    assert b"cannot be read" not in torpor("images").stderr


def test_an_image_of_a_newer_version_is_told_and_stays(torpor: Cli, counter: str) -> None:
    image = Path(torpor.json("checkpoint", counter)["path"])
    manifest = image / "manifest.json"
    manifest.write_text(re.sub(r'"format": \d+', '"format": 999', manifest.read_text(), count=1))
    told = torpor("images").stderr
    assert b"has format 999" in told and b"use a newer Torpor" in told
    assert b"torpor rm" not in told
    torpor("rm", "--image", "count-1", check=ImageMismatch.code)
    assert manifest.is_file()


def test_the_same_in_python(home: Path) -> None:
    del home
    import torpor as package

    job = package.run(COUNTER, gpu="sim")
    eventually(lambda: b"count 3\n" in b"".join(job.logs()))
    steps = []
    image = job.checkpoint(progress=lambda event: steps.append((event.phase, event.event)))
    assert ("copy", "end") in steps
    assert job.state is package.JobState.ASLEEP
    assert job.image is not None
    assert job.image.path == image.path
    woken = package.restore(image, name="again")
    assert woken.name == "again"
    assert woken.state is package.JobState.RUNNING
    woken.kill(9)
    assert woken.wait(PATIENCE)
    assert woken.exit_code == 137
    image.remove()
    assert package.images() == []


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("how", ["--detach", "--attach"])
def test_a_job_that_ends_while_it_is_woken(torpor: Cli, tmp_path: Path, code: int, how: str) -> None:
    """With exit code 0 it has been woken; how else it ended is told, and it can be woken again."""
    leave = tmp_path / "leave"
    torpor("run", "-d", "--name", "leaving", "--", sys.executable, str(LEAVING), str(leave))
    eventually(lambda: b"ready" in torpor("logs", "leaving").stdout)
    torpor("checkpoint", "leaving")
    leave.write_text(str(code))
    if code == 0:
        told = torpor("restore", "leaving-1", how).stdout.decode()
        assert "has ended" not in told or "exit code 0" in told  # a restore on a busy host may be done before
        eventually(lambda: states(torpor) == {"leaving": "exited"})
        return
    failed = torpor("restore", "leaving-1", how, check=None)
    if failed.returncode in (0, 3):  # a restore on a busy host was done before
        eventually(lambda: states(torpor) == {"leaving": "exited"})
        return
    told = failed.stderr.decode()
    assert "ended by itself with exit code 3" in told or "ended as soon as the job was woken" in told
    leave.unlink()
    torpor("restore", "leaving-1")
    assert states(torpor) == {"leaving": "running"}


def test_a_root_that_ends_while_its_child_lacks_its_memory(torpor: Cli, home: Path, tmp_path: Path) -> None:
    """The exit code 0 of one process says nothing of the others: they would stand still for good."""
    gate, leave = tmp_path / "gate", tmp_path / "leave"
    script = f"{sys.executable} {LEAVING} {tmp_path}/never & until [ -e {leave} ]; do sleep 0.01; done"
    torpor("run", "-d", "--name", "leaving", "--", "sh", "-c", script)
    eventually(lambda: b"ready" in torpor("logs", "leaving").stdout)
    torpor("checkpoint", "leaving")
    start_keeper(home, {"TORPOR_FAULT": f"find processes@1=hang:{gate}"})
    leave.touch()

    def meanwhile() -> None:
        eventually(Path(f"{gate}.reached").exists)
        eventually((home / "jobs" / "leaving" / "exit.json").exists)
        gate.touch()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    told = torpor("restore", "leaving-1", check=WrongState.code).stderr.decode()
    thread.join()
    assert "ended by itself with exit code 0, but not its process" in told
    leave.unlink()
    torpor("restore", "leaving-1")
    assert states(torpor) == {"leaving": "running"}
