"""How the programs of bench/ end: by Ctrl-C, by a word that makes no sense, by a reader that left."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, REPOSITORY, Started, eventually
from torpor import paths

BENCH = REPOSITORY / "bench"
JOBS = ("decode_loop", "eager_loop", "hold", "weights")
"""What others of them run as jobs."""
SOFTWARE_GPU = paths.software_gpu() or Path()  # the driver of those that would start themselves again for it
SHARED = ("driver_calls", "machine", "script")
LONG = {
    "again": ("--program", "count", "--cycles", "1000"),
    "count_cost": ("--rounds", "1000000"),
    "cycle": ("--gib", "0", "--repeat", "1000"),
    "device_hash": ("--sim", "--mib", "16", "--copy-mib", "1", "--repeat", "100000"),
    "evidence": ("{out}", "load"),
    "into_store": ("--gib", "0.01", "--repeat", "1000"),
    "levels": ("--groups", "1000", "--kinds", "mark"),
    "load": ("--threads", "2", "--every", "0"),
    "one_call": ("--turns", "1000"),
    "overhead": ("--kinds", "mark", "--groups", "1000"),
    "pools": ("--gib", "0.25", "--kinds", "alloc", "--repeat", "1000"),
    "sift": ("--sim", "--gib", "0.004", "--pool-mib", "64", "--chunk-kib", "256", "--repeat", "100000"),
    "simgpu_kernels": ("--repeat", "100000"),
    "store": ("--mib", "16", "--repeat", "100000"),
}
"""Each, such that it goes on until it is broken off."""


def programs() -> list[str]:
    return sorted(file.stem for file in BENCH.glob("*.py") if file.stem not in SHARED)


def test_all_are_known() -> None:
    assert programs() == sorted([*LONG, *JOBS])


@pytest.mark.parametrize("name", programs())
def test_each_begins_and_ends_in_the_one_way(name: str) -> None:
    body = ast.parse((BENCH / f"{name}.py").read_text()).body
    assert [ast.unparse(one) for one in body[1:3]] == ["from __future__ import annotations", "import script"]
    assert ast.unparse(body[-1]).endswith("    main()" if name in JOBS else "    script.run(main)")


def left_behind(home: Path, temporary: Path) -> list[str]:
    """Homes of runs, what lies among temporary files, and programs that were told of this home."""
    memory = Path(os.environ["TORPOR_DRAM"])
    found = [*home.glob("*bench-*"), *memory.parent.glob(f"{memory.name}-bench-*"), *temporary.iterdir()]
    return [str(path) for path in found] + [f"{pid}: {command}" for pid, command in programs_of(temporary)]


def programs_of(temporary: Path) -> list[tuple[int, str]]:
    """Pids and command lines of what has this TMPDIR."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"TMPDIR={temporary}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            continue  # it has just ended
    return found


def has_begun(temporary: Path) -> bool:
    return any(temporary.iterdir()) or len(programs_of(temporary)) > 1


def catches(pid: int, number: int) -> bool:
    """Whether a program that has not ended has a handler for it."""
    [mask] = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigCgt" in line]
    return bool(int(mask, 16) >> (number - 1) & 1)


def started(name: str, tmp_path: Path, *words: str) -> Started:
    """The program with a TMPDIR of its own, in a session of its own."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    words = tuple(word.replace("{out}", str(tmp_path / "out")) for word in words)
    return Started(
        [sys.executable, str(BENCH / f"{name}.py"), *words],
        env={**os.environ, "TMPDIR": str(temporary), "LD_LIBRARY_PATH": str(SOFTWARE_GPU.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", LONG)
def test_broken_off_it_says_so_and_leaves_nothing(home: Path, tmp_path: Path, name: str, number: int) -> None:
    """Once it has begun: it has started something or, where it starts nothing, heeds signals."""
    temporary = tmp_path / "temporary"
    alone = name in ("device_hash", "sift", "simgpu_kernels")
    with started(name, tmp_path, *LONG[name]) as process:
        eventually(lambda: catches(process.pid, signal.SIGTERM) and (alone or has_begun(temporary)))
        process.send_signal(number)
        errors = process.communicate(timeout=PATIENCE)[1].decode()
    assert (process.returncode, errors.splitlines()[-1:]) == (130, [f"{name}.py: broken off"]), errors
    assert "Traceback" not in errors
    assert left_behind(home, temporary) == []


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("levels", ("--groups", "0"), "'0' is no whole number from 1"),
        ("pools", ("--gib", "nan"), "'nan' is no number from 0"),
        ("cycle", ("--gib", "1e300"), "'1e300' is no number from 0"),
        ("again", ("--cycles", "1"), "'1' is no whole number from 2"),
        ("load", ("--out", "/nowhere/found.json"), "cannot be written: No such file or directory"),
        ("into_store", ("--folder", "/proc"), "nothing can be written into '/proc'"),
        ("hold", ("alloc", "-1"), "'-1' is no number from 0"),
        ("weights", (), "required: GIB"),
        ("sift", ("--sim", "--chunk-kib", "3"), "'3' is no power of two"),
        ("simgpu_kernels", ("--elements", "0"), "'0' is no power of two"),
        ("device_hash", ("--sim", "--piece-mib", "0"), "'0' is no number from 0.00390625"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(
    home: Path, tmp_path: Path, name: str, words: tuple[str, ...], told: str
) -> None:
    with started(name, tmp_path, *words) as process:
        errors = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 2 and told in errors and "Traceback" not in errors, errors
    assert list(home.iterdir()) == []


def test_an_error_is_told_as_a_verb_tells_it(home: Path, tmp_path: Path) -> None:
    with started("one_call", tmp_path, "--ways", "native", "--call", "nothing", "--turns", "1") as process:
        errors = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 1 and "native: `taskset" in errors and "Traceback" not in errors, errors
    no_compiler = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, str(BENCH / "overhead.py")], env=no_compiler, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (9, "torpor: there is no compiler `cc`\n  install gcc or clang\n")
    assert left_behind(home, tmp_path / "temporary") == []


@pytest.mark.parametrize("error", ["Cancelled('rolled back')", "StepFailed(step='a', reason='b')", "SystemExit('c')"])
@pytest.mark.parametrize("heard", [True, False])
def test_what_fails_by_being_broken_off_has_not_failed(error: str, heard: bool) -> None:
    """As a checkpoint does that hears of Ctrl-C in time."""
    program = (
        f"import contextlib, os, signal, sys; sys.path.insert(0, {str(BENCH)!r}); import script\n"
        "from torpor.errors import Cancelled, StepFailed\n"
        "def main():\n"
        f"    with contextlib.suppress(KeyboardInterrupt): {heard} and os.kill(os.getpid(), signal.SIGINT)\n"
        f"    raise {error}\n"
        "script.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = (done.returncode, done.stderr) == (130, "bench: broken off\n")
    assert told == heard and "Traceback" not in done.stderr, done.stderr


def test_a_reader_that_left_is_no_error(tmp_path: Path) -> None:
    with started("evidence", tmp_path, "--list") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(PATIENCE), process.stderr.read()) == (141, b"")


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(BENCH / "levels.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "has no module 'torpor'" in done.stderr and "Traceback" not in done.stderr


def test_a_job_that_wakes_soon_has_a_name_of_its_own(home: Path, tmp_path: Path) -> None:
    """However many cycles there are in a second."""
    with started("again", tmp_path, "--program", "count", "--cycles", "3") as process:
        said, errors = (each.decode() for each in process.communicate(timeout=PATIENCE * 2))
    assert process.returncode in (0, 1) and errors == "", errors  # what is held may differ on a busy machine
    assert said.count("\n| 3 | ") == 2 and "other lines" not in said
    assert left_behind(home, tmp_path / "temporary") == []
