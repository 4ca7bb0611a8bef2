"""The verbs that look after jobs, and how every verb reports: text, JSON, errors, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually
from torpor import api
from torpor.cli import VERBS, main
from torpor.errors import NotFound, UsageError, WrongState
from torpor.records import process_start


@pytest.fixture
def sleeper(torpor: Cli) -> str:
    """The name of a job that runs."""
    return torpor("run", "-d", "--name", "sleeper", "--", "sleep", "1000").stdout.decode().strip()


def test_every_verb_has_help_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(*words: str) -> str:
        assert main([*words, "--help"]) == 0
        return capsys.readouterr().out

    listed = help_of()
    assert "..." not in listed.partition("Commands:")[2]  # no sentence is cut off
    assert "..." not in help_of("keeper").partition("Commands:")[2]
    for verb in VERBS:
        assert f"\n  {verb} " in listed
        text = help_of(verb)
        if verb == "keeper":
            text = "".join(help_of(verb, sub) for sub in ("status", "start", "stop", "warm"))
            assert text.count("--json") == 4
        else:
            assert "--json" in text


def test_no_verb_shows_the_help(torpor: Cli) -> None:
    assert torpor().stdout == torpor("--help").stdout


@pytest.mark.parametrize(
    "line",
    [
        ("checkpoint", "nobody"),
        ("suspend", "nobody"),
        ("resume", "nobody"),
        ("logs", "nobody"),
        ("wait", "nobody"),
        ("kill", "nobody"),
        ("rm", "nobody"),
        ("restore", "nobody"),
        ("show", "nobody"),
        ("restore", "/nowhere/image"),
    ],
)
def test_what_does_not_exist_is_named(torpor: Cli, line: tuple[str, str]) -> None:
    done = torpor(*line, check=NotFound.code)
    what, hint = done.stderr.decode().splitlines()
    assert what.startswith("torpor: ")
    assert line[1] in what
    assert hint.startswith("  ")
    assert done.stdout == b""
    told = torpor.json(*line, check=NotFound.code)["error"]
    assert (told["kind"], told["code"]) == ("not-found", NotFound.code)
    assert f"torpor: {told['message']}" == what


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (("nonsense",), "torpor"),
        (("ps", "--nonsense"), "torpor ps"),
        (("run",), "torpor run"),
        (("run", "--env", "A", "--", "true"), None),
        (("show",), "torpor show"),
        (("images", "--store"), "torpor images"),
        (("keeper",), "torpor keeper"),
        (("bench", "--groups", "0"), "torpor bench"),
        (("plan", "--rate", "nan"), "torpor plan"),
        (("wait", "--timeout", "inf", "job"), "torpor wait"),
        (("profile", "--interval", "1e300", "job"), "torpor profile"),
        (("plan", "--keep", "9" * 400), "torpor plan"),
    ],
)
def test_a_line_that_makes_no_sense_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...], hint: str | None
) -> None:
    assert main([*line]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("torpor: ")
    assert not told[0].startswith("torpor: usage")
    assert told[1:] == ([f"  `{hint} --help` shows how"] if hint else [])
    if line[0] != "keeper":  # which has the option with its verbs only
        assert main([line[0], "--json", *line[1:]]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    ("line", "unread", "code"),
    [
        (("--help",), "stdout", 128 + signal.SIGPIPE),
        (("ps", "--help"), "stdout", 128 + signal.SIGPIPE),
        (("ps",), "stdout", 128 + signal.SIGPIPE),
        (("ps", "--json"), "stdout", 128 + signal.SIGPIPE),
        (("rm", "nobody", "--json"), "stdout", NotFound.code),
        (("rm", "nobody"), "stderr", NotFound.code),
        (("nonsense",), "stderr", UsageError.code),
    ],
)
def test_a_reader_that_went_away_is_no_error(torpor: Cli, line: tuple[str, ...], unread: str, code: int) -> None:
    """And an error keeps its code."""
    read, write = os.pipe()
    os.close(read)
    with torpor.start(*line, **{unread: write}) as process:
        os.close(write)
        assert not any(process.communicate(timeout=100))
        assert process.returncode == code


def test_what_is_said_beside_the_work_does_not_stop_it(torpor: Cli) -> None:
    read, write = os.pipe()
    os.close(read)
    script = "from torpor.cli import main, output; output.note('said'); output.note('more'); exit(main(['ps']))"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=write, check=True)
    os.close(write)
    assert done.stdout == torpor("ps").stdout


def test_a_place_that_is_not_utf8_is_told_as_it_is_or_refused(torpor: Cli, sleeper: str, tmp_path: Path) -> None:
    place = str(tmp_path / "\udcff")
    told = torpor("init", place, env={"PYTHONIOENCODING": "utf-8:strict"}).stdout
    assert os.fsencode(place) in told
    assert b"is not UTF-8" in torpor("checkpoint", sleeper, "--to", f"{place}/image", check=UsageError.code).stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(torpor: Cli, closed: str) -> None:
    line = [*torpor.command, "run", "--name", "job", "--", "sh", "-c", "echo $(wc -c)"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, *line], capture_output=True, timeout=100, check=True)
    assert done.stderr == b"" or done.stderr.startswith(b"torpor: no NVIDIA GPU here")
    assert torpor("logs", "job").stdout == b"0\n"
    subprocess.run([*shell, *torpor.command, "ps"], capture_output=True, timeout=100, check=True)


@pytest.mark.parametrize(
    ("variable", "place", "line"),
    [
        ("TORPOR_HOME", "/proc/none", ("run", "true")),
        ("TORPOR_HOME", "/proc/none/yet", ("run", "true")),
        ("TORPOR_DRAM", "/proc/none", ("doctor",)),
        ("TORPOR_DRAM", "/dev/null/none", ("images",)),
    ],
)
def test_a_place_that_cannot_be_is_told_with_its_variable(
    torpor: Cli, variable: str, place: str, line: tuple[str, ...]
) -> None:
    done = torpor(*line, check=None, env={variable: place})
    assert done.returncode != 0
    told = (done.stdout + done.stderr).decode()
    assert place in told or str(Path(place).parent) in told
    assert variable in told
    assert "Traceback" not in told


def test_ps_tells_each_state(torpor: Cli, sleeper: str) -> None:
    torpor("run", "--name", "failed", "--", "false", check=1)
    torpor("run", "-d", "--name", "shot", "--", "sh", "-c", "kill -9 $$")
    torpor("wait", "shot", check=137)
    assert {job["name"]: job["state"] for job in torpor.json("ps")} == {
        sleeper: "running",
        "failed": "exited",
        "shot": "killed",
    }
    lines = torpor("ps").stdout.decode().splitlines()
    assert lines[0].split() == ["NAME", "STATE", "DRIVER", "GPU", "AGE", "COMMAND"]
    assert any("exited (1)" in line for line in lines)
    assert any("killed (SIGKILL)" in line for line in lines)


def test_a_supervisor_that_is_killed_takes_the_job_with_it(torpor: Cli, sleeper: str) -> None:
    os.kill(api.job(sleeper).record.supervisor_pid or 0, signal.SIGKILL)
    eventually(lambda: torpor.json("ps")[0]["state"] == "lost")
    assert b"nobody saw" in torpor("wait", sleeper, check=WrongState.code).stderr


def test_logs_follow_to_the_end(torpor: Cli) -> None:
    torpor(
        "run", "-d", "--name", "talker", "--", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done; echo end >&2"
    )
    assert torpor("logs", "-f", "talker").stdout == b"1\n2\n3\nend\n"
    assert torpor.json("logs", "talker") == {"job": "talker", "log": "1\n2\n3\nend\n"}


def test_wait_ends_as_the_job_did(torpor: Cli) -> None:
    torpor("run", "-d", "--name", "seven", "--", "sh", "-c", "sleep 0.2; exit 7")
    torpor("wait", "seven", check=7)
    assert torpor.json("wait", "seven", check=7)["exit_code"] == 7


def test_wait_gives_up_in_time(torpor: Cli, sleeper: str) -> None:
    torpor("wait", "--timeout", "0.1", sleeper, check=WrongState.code)


@pytest.mark.parametrize(("given", "number"), [("TERM", 15), ("sigint", 2), ("9", 9)])
def test_kill_sends_the_signal(torpor: Cli, sleeper: str, given: str, number: int) -> None:
    assert torpor.json("kill", "--signal", given, sleeper) == {"job": sleeper, "signal": number}
    torpor("wait", sleeper, check=128 + number)


def test_kill_refuses_what_is_no_signal_and_who_is_dead(torpor: Cli, sleeper: str) -> None:
    torpor("kill", "--signal", "NONE", sleeper, check=2)
    torpor("kill", sleeper)
    torpor("wait", sleeper, check=143)
    torpor("kill", sleeper, check=WrongState.code)


def test_rm_forgets_ended_jobs_only(torpor: Cli, home: Path, sleeper: str) -> None:
    assert b"torpor kill" in torpor("rm", sleeper, check=WrongState.code).stderr
    torpor("kill", sleeper)
    torpor("wait", sleeper, check=143)
    assert torpor.json("rm", sleeper) == {"removed": [{"name": sleeper, "kind": "job"}]}
    assert torpor.json("ps") == []
    assert list((home / "jobs").iterdir()) == []


def test_rm_ends_what_the_job_left_behind(torpor: Cli) -> None:
    torpor("run", "-d", "--name", "parent", "--", "sh", "-c", "sleep 1000 & echo started")
    torpor("wait", "parent")
    supervisor = torpor.json("ps")[0]["supervisor_pid"]
    assert process_start(supervisor) is not None, "a process of the job lives on"
    torpor("rm", "parent")
    assert process_start(supervisor) is None, "and with its namespace's first process all others end"


def test_a_home_that_cannot_be_made_is_an_error_and_no_traceback(torpor: Cli) -> None:
    done = torpor("run", "--", "true", env={"TORPOR_HOME": "/proc/torpor"}, check=1)
    assert done.stderr.startswith(b"torpor: ")
    assert b"TORPOR_HOME" in done.stderr
    assert b"Traceback" not in done.stderr


def test_rm_removes_nothing_when_one_name_is_wrong(torpor: Cli) -> None:
    torpor("run", "--name", "ended", "--", "true")
    torpor("rm", "ended", "nobody", check=NotFound.code)
    assert [job["name"] for job in torpor.json("ps")] == ["ended"]


def test_verbs_that_need_a_live_job_say_so(torpor: Cli) -> None:
    torpor("run", "--name", "ended", "--", "true")
    for verb in ("checkpoint", "suspend", "resume"):
        assert b"ended is exited" in torpor(verb, "ended", check=WrongState.code).stderr
    told = torpor("attach", "ended", check=WrongState.code).stderr.decode()
    assert told == "torpor: ended is exited, there is nothing to attach to\n  `torpor logs ended` prints its output\n"


def test_a_taken_name_is_refused(torpor: Cli) -> None:
    torpor("run", "--name", "one", "--", "true")
    assert b"exists" in torpor("run", "--name", "one", "--", "true", check=2).stderr
    torpor("run", "--name", "../one", "--", "true", check=2)


def test_the_keeper_starts_and_stops(torpor: Cli) -> None:
    torpor("keeper", "start")
    status = torpor.json("keeper", "status")
    assert (status["running"], status["backend"]) == (True, "sim")
    torpor("keeper", "start")
    assert torpor.json("keeper", "status")["pid"] == status["pid"]
    told = torpor("keeper", "status").stdout.decode()
    assert f"process: {status['pid']}, version" in told
    assert "16.0 GiB" in told  # the GPU's memory
    assert not set("{}[]") & set(told)
    assert torpor.json("keeper", "stop")["stopped"] is True
    eventually(lambda: torpor.json("keeper", "status")["running"] is False)
    assert torpor.json("keeper", "stop")["stopped"] is False
