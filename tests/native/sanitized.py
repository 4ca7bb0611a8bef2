"""Builds the software GPU's sources, or a part of them, under a sanitizer; one folder a kind, kept in build/.

A build is as incremental as make's: a source is compiled again when it or a header that it includes has changed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import REPOSITORY

NATIVE = REPOSITORY / "native"
SIMGPU = NATIVE / "simgpu"
PTX = REPOSITORY / "tests/native/ptx"
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", "-fPIC", "-fvisibility=hidden", "-O1", "-g",
         f"-I{NATIVE}", f"-I{SIMGPU}")  # fmt: skip
# As in native/simgpu/CMakeLists.txt, but for the optimisation.
ARITHMETIC = ("-ffp-contract=off", "-fno-trapping-math", "-fwrapv")
SANITIZERS = {
    "thread": ("-fsanitize=thread",),
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "fuzz": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}


def kernel_sources() -> list[Path]:
    """The PTX reader and the executor."""
    return sorted([*(SIMGPU / "ptx").glob("*.cpp"), *(SIMGPU / "exec").glob("*.cpp")])


def all_sources() -> list[Path]:
    """Of the driver; its CUPTI is a library of its own."""
    return sorted(path for path in SIMGPU.rglob("*.cpp") if path.parent.name != "tools")


def _flags(kind: str, source: Path) -> tuple[str, ...]:
    flags = (*FLAGS, *SANITIZERS[kind])
    if source.parent.name in ("ptx", "exec") and SIMGPU in source.parents:
        flags += ARITHMETIC
        if kind == "fuzz":
            flags += ("-fsanitize-coverage=trace-pc",)
    return flags


def _stale(made: Path) -> bool:
    rules = made.with_suffix(".d")
    if not made.exists() or not rules.exists():
        return True
    words = rules.read_text().replace("\\\n", " ").split()[1:]
    age = made.stat().st_mtime_ns
    return any(not Path(word).exists() or Path(word).stat().st_mtime_ns > age for word in words)


def _compile(kind: str, folder: Path, source: Path) -> Path:
    made = folder / (str(source.relative_to(REPOSITORY)).replace("/", "-") + ".o")
    if _stale(made):
        command = [COMPILER, *_flags(kind, source), "-MD", "-MF", str(made.with_suffix(".d")), "-c", str(source)]
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return made


def build(kind: str, name: str, sources: list[Path], *link: str) -> Path:
    """The program or library `name` of these sources, in build/sanitize-<kind>; `link` are words for the linker."""
    folder = Path(os.environ.get("TORPOR_SANITIZE_BUILD") or REPOSITORY / "build") / f"sanitize-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(lambda source: _compile(kind, folder, source), sources))
        made = folder / name
        newest = max(one.stat().st_mtime_ns for one in objects)
        if not made.exists() or made.stat().st_mtime_ns < newest:
            command = [COMPILER, *SANITIZERS[kind], "-pthread", *map(str, objects), *link, "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return made


def library(kind: str) -> Path:
    """The software GPU."""
    return build(kind, "libcuda.so.1", all_sources(), "-shared", "-Wl,-soname,libcuda.so.1",
                 f"-Wl,--version-script={SIMGPU / 'exports.map'}")  # fmt: skip


def bridge(kind: str) -> Path:
    """The PTX reader and executor behind the interface for tests."""
    sources = [*kernel_sources(), PTX / "bridge.cpp", SIMGPU / "own_thread.cpp"]
    return build(kind, "libtorpor_ptx_bridge.so", sources, "-shared")


def fuzzer() -> Path:
    """The mutation driver of the PTX reader (tests/native/ptx/fuzz.cpp)."""
    return build("fuzz", "fuzz", [*kernel_sources(), PTX / "fuzz.cpp", SIMGPU / "own_thread.cpp"])
