"""However a program or a library reaches the driver, it is recorded, or refused as not fully intercepted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import eventually
from torpor import paths
from torpor.errors import Refused
from torpor.records import JobState

SOURCES = Path(__file__).with_name("reached")
CALLED = Path(__file__).with_name("called_symbols.txt")
DRIVER_NAME = re.compile(r"cu[A-Z]\w*")


def compiled(output: Path, source: str, *options: str | Path) -> Path:
    command = [os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-o", output, SOURCES / source, *options, "-ldl"]
    subprocess.run(list(map(str, command)), check=True)
    return output


def libraries() -> tuple[Path, Path]:
    """The built interposer and software GPU."""
    ours, driver = paths.interposer(), paths.software_gpu()
    assert ours is not None
    assert driver is not None
    return ours, driver


def test_a_library_finds_its_own_names_in_its_dependency(tmp_path: Path) -> None:
    """By RTLD_NEXT, a fresh handle and one that was there; with a name of ours and one that nobody exports."""
    shared = ("-shared", "-fPIC")
    compiled(tmp_path / "libdependency.so", "chain.c", *shared, "-DDEPENDENCY")
    compiled(tmp_path / "libwrapper.so", "chain.c", *shared, f"-L{tmp_path}", "-Wl,--no-as-needed", "-ldependency")
    caller = compiled(tmp_path / "caller", "caller.c")
    elsewhere = tmp_path / "elsewhere" / "libcuda.so.1"
    elsewhere.parent.mkdir()
    shutil.copy(libraries()[0], elsewhere)
    found = []
    for preload in ({}, {"LD_PRELOAD": str(elsewhere)}):
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path), **preload}
        found.append(subprocess.run([caller], env=env, capture_output=True, text=True, check=True, timeout=100).stdout)
    assert found == ["100 101 102 200 201 202 \n"] * 2


def dynamic_symbols(library: Path) -> Iterator[tuple[str, str, bool]]:
    """(name, version or "", defined) of a library's dynamic symbols; none of a file that is no library."""
    told = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True, check=False).stdout
    for line in told.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
            name, _, version = fields[7].partition("@")
            yield name, version.lstrip("@"), fields[6] != "UND"


def wanted(library: Path) -> set[tuple[str, str]]:
    """What a library wants of the driver, by name and version node."""
    return {
        (name, version)
        for name, version, defined in dynamic_symbols(library)
        if not defined and DRIVER_NAME.fullmatch(name)
    }


def offered() -> set[tuple[str, str]]:
    return {(name, version) for name, version, defined in dynamic_symbols(libraries()[0]) if defined}


def installed() -> list[Path]:
    """Every library that the environment's packages brought, and what the C programs of tests link to."""
    folder = Path(sysconfig.get_paths()["platlib"])
    return [path for path in sorted(folder.rglob("*.so*")) if path.is_file() and "torpor" not in path.parts]


def test_installed_libraries_find_all_their_symbols(tmp_path: Path) -> None:
    """What they want of the driver by name and version is what we export; what one wants in vain is found out."""
    has = offered()
    control = compiled(tmp_path / "ways", "ways.c", "-DWAY=0", "-Wno-all", libraries()[0])
    assert {name for name, _ in wanted(control)} >= {"cuInit", "cuMemAlloc_v2", "cuMemcpyDtoH_v2"}
    assert wanted(control) - has == set()
    (tmp_path / "vain.c").write_text("extern int cuNobodyHasThis(void); int f(void) { return cuNobodyHasThis(); }\n")
    vain = tmp_path / "vain.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", vain, tmp_path / "vain.c"], check=True)
    assert wanted(vain) - has == {("cuNobodyHasThis", "")}
    everything = installed()
    assert len(everything) > 20
    missing = {path.name: left for path in everything if (left := wanted(path) - has)}
    assert missing == {}


def test_what_frameworks_called_is_exported() -> None:
    names = [line for line in CALLED.read_text().splitlines() if not line.startswith("#")]
    assert len(names) > 300
    assert sorted(set(names) - {name for name, _ in offered()}) == []


def test_the_library_needs_the_c_library_alone_and_nothing_private() -> None:
    """So that it loads wherever a C library of its version or a newer one is."""
    versions = {version for _, version, defined in dynamic_symbols(libraries()[0]) if not defined and version}
    assert versions
    assert [one for one in versions if not re.fullmatch(r"GLIBC_2\.\d+(\.\d+)?( \(\d+\))?", one)] == []


WAYS = {"linked": 0, "path": 1, "deepbind": 2}
PAST = {"namespace": 3, "both": 4}


def built(way: str, folder: Path) -> Path:
    link = [libraries()[0]] if way == "linked" else []
    return compiled(folder / "ways", "ways.c", f"-DWAY={(WAYS | PAST)[way]}", "-w", *link)


def started(program: list[str], **env: str) -> torpor.Job:
    job = torpor.run(program, name="reached", gpu="sim", env={**rounds.ENVIRONMENT, **env})
    eventually(lambda: rounds.output(job) or job.state is not JobState.RUNNING)
    return job


def natively(program: list[str]) -> list[str]:
    _, driver = libraries()
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver.parent), "DRIVER": str(driver)}
    return subprocess.run(program, env=env, capture_output=True, text=True, check=True, timeout=100).stdout.splitlines()


@pytest.mark.criu
@pytest.mark.parametrize("way", WAYS)
def test_it_is_recorded(home: Path, tmp_path: Path, way: str) -> None:
    del home
    program = [str(built(way, tmp_path)), str(tmp_path / "go")]
    job = started(program)
    image = job.checkpoint(tier="dram")
    [process] = image.manifest.processes
    assert process.interposed
    assert sum(block.size for block in process.blocks) > 0
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert rounds.output(woken) == natively(program) == ["ready", "77"]


@pytest.mark.criu
@pytest.mark.parametrize("way", PAST)
def test_what_goes_past_us_is_refused(home: Path, tmp_path: Path, way: str) -> None:
    """A driver in a namespace of the loader's own, alone and beside the one that we see."""
    del home
    program = [str(built(way, tmp_path)), str(tmp_path / "go")]
    job = started(program)
    with pytest.raises(Refused, match="not fully intercepted") as caught:
        job.checkpoint()
    assert caught.value.details["process"] == 300
    assert job.state is JobState.RUNNING
    (tmp_path / "go").touch()
    assert job.wait(100)
    assert rounds.output(job) == natively(program) == ["ready", "77"]


@pytest.mark.criu
def test_the_runtime_in_a_program_of_its_own(home: Path, tmp_path: Path) -> None:
    """A statically linked CUDA runtime, as in cuda-bindings: it opens the driver itself and asks it for all else."""
    del home
    code = (
        "import os, sys, time\nfrom cuda.bindings import runtime\n"
        "print(runtime.cudaGetDeviceCount()[0].name, runtime.cudaDriverGetVersion(), flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "print(runtime.cudaGetDeviceCount()[0].name, flush=True)\n"
    )
    program = [sys.executable, "-c", code, str(tmp_path / "go")]
    job = started(program)
    image = job.checkpoint(tier="dram")
    [process] = image.manifest.processes
    assert process.interposed
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert rounds.output(woken) == natively(program)
