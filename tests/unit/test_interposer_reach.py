"""Every way to the driver leads through the interposer, and arguments arrive as they were sent."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from api.load import answers
from tests.conftest import REPOSITORY
from tests.native.arena.harness import environment
from tests.native.interposer.programs import Programs, programs_fixture

programs = programs_fixture()


def ok(programs: Programs, *words: str | Path, **extra: str) -> None:
    done = programs.run(programs.linked("reach"), *words, environment=programs.environment(**extra))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("way", ["link", "lookup", "runtime", "arguments", "float"])
def test_way(programs: Programs, way: str) -> None:
    ok(programs, way)


@pytest.mark.parametrize("setting", ["off", "answers", "check"])
@pytest.mark.parametrize("way", ["lookup", "again"])
def test_looked_up_and_answered(programs: Programs, way: str, setting: str) -> None:
    ok(programs, way, TORPOR_VM=setting)


@pytest.mark.parametrize("way", ["dlopen", "deepbind", "dlmopen"])
@pytest.mark.parametrize("name", ["libcuda.so", "libcuda.so.1", "path", "version"])
def test_opened_by(programs: Programs, way: str, name: str) -> None:
    versioned = programs.folder / "fake" / "libcuda.so.580.1.2"
    if not versioned.exists():
        shutil.copy(programs.driver, versioned)
    ok(programs, way, {"path": programs.driver, "version": versioned}.get(name, name))


LOOK_UP = """
import ctypes, json, os, sys
from pathlib import Path
from torpor.keeper.control import ControlClient

driver, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
driver.cuInit(0)
assert driver.cuGetProcAddress_v2(b"cuLaunchKernel", ctypes.byref(found), 12000, ctypes.c_uint64(0), None) == 0
assert found.value == ctypes.cast(driver.cuLaunchKernel, ctypes.c_void_p).value
with ControlClient(Path(os.environ["TORPOR_JOB_DIR"]) / "ctl", os.getpid()) as control:
    json.dump(control.hello().unknown_symbols, sys.stdout)
"""


def test_the_software_gpu_says_its_own_addresses(tmp_path: Path) -> None:
    """As the real driver does: what it says is known to be its exports, and ours are handed out for them."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP], env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[]")


EVERY_NAME = """
import ctypes, json, os, sys
from pathlib import Path
from api.load import answers
from torpor.keeper.control import ControlClient

driver, found, status = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
driver.cuInit(0)
with ControlClient(Path(os.environ["TORPOR_JOB_DIR"]) / "ctl", os.getpid()) as control:
    told = []
    for name in answers():
        before = control.hello().vm["answered"]
        for _ in range(65):
            assert not driver.cuGetProcAddress_v2(
                name.encode(), ctypes.byref(found), 13000, ctypes.c_uint64(0), ctypes.byref(status)
            )
        told.append([name, control.hello().vm["answered"] - before])
json.dump(told, sys.stdout)
"""


def test_every_name_is_known(tmp_path: Path) -> None:
    """The interposer finds each name where the generator has put it, and answers from the second time on."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_NAME],
        env=environment(tmp_path, TORPOR_VM="answers"),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [[name, 64] for name in answers()]


def test_a_path_to_nothing_still_fails(programs: Programs) -> None:
    ok(programs, "absent", programs.folder / "nowhere" / "libcuda.so.1")


def test_the_native_program_behaves_alike(programs: Programs) -> None:
    """The same program without the interposer: proves that the checks test the program's view, not ours."""
    environment = {"LD_LIBRARY_PATH": str(programs.driver.parent)}
    for way in ("arguments", "float"):
        assert programs.run(programs.linked("reach"), way, environment=environment).returncode == 0


def test_real_library_is_found_as_the_loader_would(programs: Programs) -> None:
    environment = programs.environment(LD_LIBRARY_PATH=f"/nonexistent:{programs.driver.parent}")
    del environment["TORPOR_REAL_LIBCUDA"]
    done = programs.run(programs.linked("reach"), "link", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_interposer_is_never_taken_for_the_driver(programs: Programs) -> None:
    """Both the loaded file and a copy of it stand in front of the driver on the search path."""
    copy = programs.folder / "copy"
    copy.mkdir()
    shutil.copy(programs.interposer, copy / "libcuda.so.1")
    search = f"{programs.interposer.parent}:{copy}:{programs.driver.parent}"
    environment = programs.environment(LD_LIBRARY_PATH=search)
    del environment["TORPOR_REAL_LIBCUDA"]
    done = programs.run(programs.linked("reach"), "link", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("real", ["missing", "itself", "copy", "text"])
def test_no_usable_driver(programs: Programs, real: str) -> None:
    target = programs.folder / f"real-{real}" / "libcuda.so.1"
    target.parent.mkdir()
    if real == "itself":
        target.symlink_to(programs.interposer)
    elif real == "copy":
        shutil.copy(programs.interposer, target)
    elif real == "text":
        target.write_text("no library")
    environment = programs.environment(TORPOR_REAL_LIBCUDA=str(target))
    done = programs.run(programs.linked("no_driver"), environment=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"torpor: cannot use TORPOR_REAL_LIBCUDA={target}: ")
    assert len(done.stderr.splitlines()) == 1
