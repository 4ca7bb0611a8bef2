"""TORPOR_HOME on a disk that becomes full, or is: a program ends as it does without Torpor, or does not begin."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cli, end_everything, eventually, start_keeper
from torpor.errors import NoSpace

pytestmark = pytest.mark.criu

FILL = "cat /dev/zero > {0}/filler 2> /dev/null; "


@pytest.fixture
def small(home: Path, torpor: Cli) -> Iterator[Path]:
    """The home has 16 MiB, and a keeper already, so that nothing but the job takes room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "torpor-test", str(home)], check=True)
    torpor("keeper", "start")
    yield home
    end_everything(home)
    # A supervisor whose job nobody knows any more may be at its own end yet.
    eventually(lambda: subprocess.run(["umount", str(home)], check=False).returncode == 0)


def state(torpor: Cli) -> tuple[str, int | None]:
    [job] = torpor.json("ps")
    return job["state"], job["exit_code"]


@pytest.mark.parametrize(
    ("end", "status", "known"), [("exit 7", 7, ("exited", 7)), ("kill -TERM $$", -15, ("killed", 143))]
)
def test_it_becomes_full_while_a_program_runs(
    torpor: Cli, small: Path, end: str, status: int, known: tuple[str, int]
) -> None:
    done = torpor("run", "--", "sh", "-c", FILL.format(small) + f"echo out; {end}", check=status)
    assert (done.stdout, done.stderr) == (b"out\n", b"")
    assert (small / "filler").stat().st_size > 1 << 20
    assert state(torpor) == known
    assert not list(small.glob("jobs/*/.*"))


@pytest.mark.parametrize(("end", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15)])
def test_what_cannot_be_recorded_is_told_to_who_is_there(torpor: Cli, home: Path, end: str, status: int) -> None:
    """As on a file system that wants new room for what is written in place."""
    del home
    done = torpor("run", "--", "sh", "-c", f"rm /run/torpor/job/.exit.json; echo out; {end}", check=status)
    assert done.stdout == b"out\n"
    assert done.stderr == b"torpor: how sh-1 ended could not be recorded: `torpor ps` takes it for lost\n"
    assert state(torpor) == ("lost", None)
    torpor("wait", "sh-1", check=4)


@pytest.mark.parametrize("way", [[], ["-d"]], ids=["foreground", "detached"])
def test_where_there_is_no_room_for_a_job_nothing_is_left(torpor: Cli, small: Path, way: list[str]) -> None:
    page, filler = os.sysconf("SC_PAGE_SIZE"), small / "filler"
    before = shutil.disk_usage(small).used
    torpor("run", "--", "sh", "-c", "exit 7", check=7)
    taken = shutil.disk_usage(small).used - before
    torpor("rm", "sh-1")
    outcomes = []
    for room in (0, page, taken // 2, *range(taken - 3 * page, taken + 8 * page, page)):
        fill(filler)
        os.truncate(filler, filler.stat().st_size - room)
        done = torpor("run", *way, "--", "sh", "-c", "exit 7", check=None)
        outcomes.append(done.returncode)
        filler.unlink()
        if done.returncode == (0 if way else 7):
            torpor("wait", "sh-1", check=7)
            torpor("rm", "sh-1")
        else:
            assert done.returncode == NoSpace.code, done.stderr
            assert str(small).encode() in done.stderr
        assert not any((small / "jobs").iterdir())
    assert outcomes[:4] == [NoSpace.code] * 4
    assert outcomes[-1] != NoSpace.code


def test_it_is_full_while_verbs_are_at_work(torpor: Cli, small: Path, tmp_path: Path) -> None:
    image, go_on = str(tmp_path / "image"), tmp_path / "go-on"
    torpor("run", "-d", "--name", "job", "--", "sleep", "1000")
    fill(small / "filler")
    for verb, status, after in (
        (("suspend", "job"), 0, "suspended"),
        (("resume", "job"), 0, "running"),
        (("checkpoint", "job", "--to", image), NoSpace.code, "running"),  # CRIU finds no room for its own files
    ):
        torpor(*verb, check=status)
        assert state(torpor)[0] == after
    (small / "filler").unlink()
    torpor("keeper", "stop")
    start_keeper(small, {"TORPOR_FAULT": f"criu end=hang:{go_on}"})
    with torpor.start("checkpoint", "job", "--to", image) as asking:
        eventually(Path(f"{go_on}.reached").exists)
        fill(small / "filler")
        go_on.touch()
        assert asking.wait(PATIENCE) == 0
    assert state(torpor)[0] == "asleep"
    done = torpor("restore", image, check=NoSpace.code)  # it makes a new folder of the job
    assert b"no space left on the file system" in done.stderr
    assert str(small).encode() in done.stderr
    assert state(torpor)[0] == "asleep"
    (small / "filler").unlink()
    torpor("restore", image)
    assert state(torpor)[0] == "running"


def fill(place: Path) -> None:
    with pytest.raises(OSError, match="No space"), place.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
