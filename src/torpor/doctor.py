"""What this host offers Torpor, one check at a time, each with what to do where it fails."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from torpor import paths
from torpor.errors import TorporError

DRIVER_LEAST = 12080
"""CUDA 12.8, as `cuDriverGetVersion` gives it: the release of driver 570, the first with the checkpoint calls used."""

CHECKPOINT_SYMBOLS = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")

CAP_SYS_RESOURCE = 24
"""CRIU needs it to give a job back limits that are above those of the restoring process."""

SPACE_LEAST = 1 << 30

MEMORY = ("tmpfs", "ramfs")
"""File systems whose files are memory."""


class Check(msgspec.Struct, kw_only=True):
    """`level`: `ok`; `note` for what Torpor can do without; `fail`. `fix` says what to do where it is not ok."""

    name: str
    level: Literal["ok", "note", "fail"]
    found: str
    fix: str | None = None


def examine() -> Iterator[Check]:
    """Run every check, in the order in which a reader wants them. Changes nothing on the host."""
    checks: list[Callable[[], Check]] = [
        interposer,
        software_gpu,
        driver,
        checkpoint_symbols,
        criu,
        kernel,
        rights,
        lambda: space("home", paths.home(), "TORPOR_HOME"),
        dram,
    ]
    for check in checks:
        yield check()


def interposer() -> Check:
    return _built("interposer", paths.interposer())


def software_gpu() -> Check:
    return _built("software GPU", paths.software_gpu())


def _built(name: str, library: Path | None) -> Check:
    if library is not None and library.is_file():
        return Check(name=name, level="ok", found=str(library))
    return Check(name=name, level="fail", found="not built", fix="install the package again: pip install .")


def driver() -> Check:
    library = paths.real_libcuda()
    if not Path("/dev/nvidiactl").exists() or library is None:
        missing = "libcuda.so.1" if library is None else "/dev/nvidiactl"
        return Check(
            name="driver",
            level="note",
            found=f"no NVIDIA driver ({missing} is missing); jobs get the software GPU",
            fix="install NVIDIA's driver 570 or newer to use a GPU",
        )
    version = ctypes.c_int()
    status = ctypes.CDLL(str(library)).cuDriverGetVersion(ctypes.byref(version))
    module = re.search(r"Module.*?\s(\d+\.\d+[\d.]*)\s", _read("/proc/driver/nvidia/version"))
    release = module[1] if module else "unknown release"
    found = f"{release}, CUDA {version.value // 1000}.{version.value % 1000 // 10}, {library}"
    if status != 0 or version.value < DRIVER_LEAST:
        return Check(name="driver", level="fail", found=found, fix="install NVIDIA's driver 570 or newer")
    return Check(name="driver", level="ok", found=found)


def checkpoint_symbols() -> Check:
    library = paths.real_libcuda() if paths.has_gpu() else paths.software_gpu()
    if library is None or not library.is_file():
        return Check(name="checkpoint calls", level="fail", found="no driver to ask", fix="install the package again")
    loaded = ctypes.CDLL(str(library))
    missing = [name for name in CHECKPOINT_SYMBOLS if not hasattr(loaded, f"cuCheckpointProcess{name}")]
    if missing:
        return Check(
            name="checkpoint calls",
            level="fail",
            found="missing " + ", ".join(f"cuCheckpointProcess{name}" for name in missing),
            fix="install NVIDIA's driver 570 or newer",
        )
    return Check(name="checkpoint calls", level="ok", found=f"all {len(CHECKPOINT_SYMBOLS)} in {library}")


def criu() -> Check:
    from torpor.process import probe
    from torpor.process.criu import find_criu

    try:
        found = find_criu()
    except TorporError as error:
        return Check(name="CRIU", level="fail", found=error.message, fix=error.hint)
    complaints = probe.check(found)
    if complaints:
        return Check(
            name="CRIU",
            level="fail",
            found=f"{found.version} {found.path} says: {complaints[0]}",
            fix="`criu check` tells what this kernel or container lacks",
        )
    return Check(name="CRIU", level="ok", found=f"{found.version} {found.path}")


def kernel() -> Check:
    release = os.uname().release
    needed = {
        "PID namespaces": Path("/proc/self/ns/pid"),
        "mount namespaces": Path("/proc/self/ns/mnt"),
        "a settable last pid (CONFIG_CHECKPOINT_RESTORE)": Path("/proc/sys/kernel/ns_last_pid"),
        "children lists (CONFIG_PROC_CHILDREN)": Path("/proc/thread-self/children"),
    }
    missing = [name for name, path in needed.items() if not path.exists()]
    if missing:
        return Check(
            name="kernel", level="fail", found=f"{release} lacks {', '.join(missing)}", fix="use a kernel with them"
        )
    return Check(name="kernel", level="ok", found=f"{release}, {len(needed)} features")


def rights() -> Check:
    from torpor.process.namespace import effective_capabilities
    from torpor.process.probe import CAPABILITIES, missing_capabilities

    held = effective_capabilities()
    missing = [f"{name} ({CAPABILITIES[name][1]})" for name in missing_capabilities(held)]
    if missing:
        return Check(
            name="rights",
            level="fail",
            found=f"lacking {', '.join(missing)}",
            fix="run as root, or in a container started with these capabilities",
        )
    if not held >> CAP_SYS_RESOURCE & 1:
        return Check(
            name="rights",
            level="note",
            found=f"{len(CAPABILITIES)} capabilities held; lacking CAP_SYS_RESOURCE",
            fix="jobs that raise their own resource limits need it to be restored",
        )
    return Check(name="rights", level="ok", found=f"{len(CAPABILITIES) + 1} capabilities held")


def dram() -> Check:
    """Free bytes where the keeper's memory is, and whether it is memory."""
    folder = paths.dram_dir()
    check = space("dram", folder, "TORPOR_DRAM")
    kind = file_system(_nearest(folder))
    if check.level == "ok" and kind not in MEMORY:
        check.level, check.found = "note", f"{folder} is on a disk ({kind or 'of an unknown kind'})"
        check.fix = "set TORPOR_DRAM to a folder of a tmpfs: images on its disk count as in memory, not as durable"
    return check


def file_system(place: Path) -> str:
    """The kind of file system that `place` is on, as the kernel calls it; empty when it does not say."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = [line.split(" ") for line in _read("/proc/self/mountinfo").splitlines()]
    return next((words[words.index("-") + 1] for words in lines if words[2] == number), "")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


def space(name: str, folder: Path, variable: str) -> Check:
    """Free bytes where images go; the folder may still have to be made."""
    present = _nearest(folder)
    free = shutil.disk_usage(present).free
    found = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if not os.access(present, os.W_OK):
        return Check(name=name, level="fail", found=f"{present} cannot be written", fix=f"set {variable} elsewhere")
    if free < SPACE_LEAST:
        return Check(name=name, level="fail", found=found, fix=f"free some, or set {variable} elsewhere")
    return Check(name=name, level="ok", found=found)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
