"""A job in the foreground behaves like the command itself."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually
from torpor import api
from torpor.records import JobState

BYTES = bytes(range(256)) * 4096
"""One megabyte with every byte in it: more than a pipe holds."""


def test_output_and_error_output_stay_apart(torpor: Cli) -> None:
    done = torpor("run", "--", "sh", "-c", "printf 'out\\0' && printf 'err\\n' >&2")
    assert (done.stdout, done.stderr) == (b"out\0", b"err\n")


def test_nothing_of_a_short_job_is_missed(torpor: Cli) -> None:
    for number in range(5):
        assert torpor("run", "--", "echo", str(number)).stdout == f"{number}\n".encode()


def test_input_comes_through_byte_for_byte(torpor: Cli) -> None:
    assert torpor("run", "--", "cat", given=BYTES).stdout == BYTES


def test_a_job_that_reads_nothing_ends_by_itself(torpor: Cli) -> None:
    assert torpor("run", "--", "true", given=BYTES).stdout == b""


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_is_the_programs(torpor: Cli, code: int) -> None:
    torpor("run", "--", "sh", "-c", f"exit {code}", check=code)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL])
def test_it_dies_by_the_programs_signal(torpor: Cli, number: signal.Signals) -> None:
    torpor("run", "--", "sh", "-c", f"kill -{int(number)} $$", check=-number)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_are_forwarded(torpor: Cli, name: str) -> None:
    script = f"""
import signal, sys
signal.signal(signal.SIG{name}, lambda *_: sys.exit(42))
print("ready", flush=True)
while True: signal.pause()
"""
    with torpor.start("run", "--", sys.executable, "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait(timeout=100) == 42


def test_the_job_starts_in_our_folder_with_our_environment(torpor: Cli, tmp_path: Path) -> None:
    done = torpor("run", "--env", "B=2", "--", "sh", "-c", "pwd; echo $A $B", env={"A": "1"}, cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [str(tmp_path), "1 2"]


def test_the_interposer_goes_before_a_preload_of_the_caller(torpor: Cli) -> None:
    done = torpor("run", "--env", "LD_PRELOAD=/lib/x86_64-linux-gnu/libc.so.6", "--", "printenv", "LD_PRELOAD")
    first, second = done.stdout.decode().strip().split(":")
    assert first == "/run/torpor/job/native/libcuda.so.1"
    assert second == "/lib/x86_64-linux-gnu/libc.so.6"


def test_without_arena_the_job_is_told(torpor: Cli) -> None:
    assert torpor("run", "--no-arena", "--", "printenv", "TORPOR_ARENA").stdout == b"off\n"
    assert torpor("run", "--", "printenv", "TORPOR_ARENA", check=1).stdout == b""


def test_missing_and_unrunnable_programs_end_as_in_a_shell(torpor: Cli, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo")
    missing = torpor("run", "--", "no-such-program", check=127)
    assert b"no-such-program: command not found" in missing.stderr
    unrunnable = torpor("run", "--", str(plain), check=126)
    assert str(plain).encode() in unrunnable.stderr
    assert api.jobs() == []


def test_a_reader_that_leaves_ends_the_job(torpor: Cli) -> None:
    with torpor.start("run", "--name", "endless", "--", "yes") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(timeout=100) == -signal.SIGPIPE
    assert api.job("endless").state is JobState.KILLED


def test_a_program_that_ignores_sigpipe_sees_its_write_fail(torpor: Cli) -> None:
    script = "import sys\ntry:\n    while True: print('x' * 99)\nexcept BrokenPipeError: sys.stderr.close(); raise"
    with torpor.start("run", "--", sys.executable, "-c", script) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=100) in (1, 120)


def test_an_interrupt_at_a_terminal_reaches_all_of_the_job(torpor: Cli) -> None:
    ours, terminal = pty.openpty()
    child = "import signal, sys; signal.signal(2, lambda *_: sys.exit(7)); print(1, flush=True); signal.pause()"
    script = f'trap : INT; {sys.executable} -c "{child}"; echo $?'
    with torpor.start("run", "--", "sh", "-c", script, stdin=terminal) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"7\n"
        assert process.wait(timeout=100) == 0
    os.close(ours)
    os.close(terminal)


def test_a_client_that_is_killed_leaves_the_job_running(torpor: Cli) -> None:
    with torpor.start("run", "--name", "kept", "--", "sh", "-c", "echo on; read line") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        process.kill()
    assert api.job("kept").state is JobState.RUNNING


def test_the_software_gpu_is_named_where_there_is_no_other(torpor: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORPOR_GPU")
    # A library path with nothing in it does not hide a real driver: ask what the host has.
    from torpor import paths

    done = torpor("run", "--", "true")
    assert (b"software GPU" in done.stderr) is not paths.has_gpu()


@pytest.mark.parametrize("way", ["around it", "for the program"])
def test_an_unknown_level_is_refused(torpor: Cli, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    words = ["--env", "TORPOR_VM=on"] if way == "for the program" else []
    if way == "around it":
        monkeypatch.setenv("TORPOR_VM", "on")
    assert b"TORPOR_VM cannot be 'on'" in torpor("run", *words, "--", "true", check=2).stderr
    shown = ["printenv", "TORPOR_VM"]
    assert torpor("run", *words, "--vm", "defer", "--", *shown).stdout == b"defer\n"
    monkeypatch.setenv("TORPOR_VM", "full")
    assert torpor("run", "--", *shown).stdout == b"full\n"
    monkeypatch.delenv("TORPOR_VM")
    assert torpor("run", "--", *shown).stdout == b"answers\n"


def test_an_unknown_gpu_is_refused(torpor: Cli) -> None:
    assert b"names no GPU" in torpor("run", "--gpu", "cpu", "--", "true", check=2).stderr


def test_json_follows_the_output(torpor: Cli) -> None:
    out = torpor("run", "--json", "--name", "j", "--", "sh", "-c", "echo hi; exit 3", check=3).stdout.splitlines()
    assert out[0] == b"hi"
    told = json.loads(out[1])
    assert (told["name"], told["state"], told["exit_code"]) == ("j", "exited", 3)


def test_jobs_do_not_see_each_others_processes(torpor: Cli) -> None:
    torpor("run", "-d", "--name", "other", "--", "sleep", "1000")
    seen = torpor("run", "--", "sh", "-c", "echo $$; cat /proc/[0-9]*/comm").stdout.decode().split()
    assert int(seen[0]) >= 300
    assert "sleep" not in seen[1:]


def test_a_detached_job_outlives_its_starter(torpor: Cli) -> None:
    name = torpor("run", "-d", "--", "sh", "-c", "echo started; exec sleep 1000").stdout.decode().strip()
    eventually(lambda: torpor("logs", name).stdout == b"started\n")
    assert torpor.json("ps")[0]["state"] == "running"
    assert os.getsid(api.job(name).record.supervisor_pid or 0) != os.getsid(0)


def test_standard_input_of_a_detached_job_is_empty(torpor: Cli) -> None:
    torpor("run", "-d", "--name", "reader", "--", "wc", "-c", given=b"abc")
    torpor("wait", "reader")
    assert torpor("logs", "reader").stdout == b"0\n"


def test_the_script_runs_as_module_and_as_command() -> None:
    by_module = subprocess.run([*Cli.command, "--version"], capture_output=True, check=True)
    by_name = subprocess.run([Path(sys.executable).with_name("torpor"), "--version"], capture_output=True, check=True)
    assert by_module.stdout == by_name.stdout
