"""Whether a job can be put away, found out before anything of it is touched."""

from __future__ import annotations

import os
from pathlib import Path

from torpor.errors import NoRights, NoSpace, Refused, UsageError
from torpor.keeper.host import Host
from torpor.keeper.jobs import CudaProcess, OpenJob
from torpor.process.client import Info

CONTEXT_BYTES = 600 << 20
"""Host memory that the vendor's checkpoint of one otherwise empty context takes (measured: docs/design/keeper.md)."""

_UNSAVABLE = {
    "managed": (
        "managed memory (cuMemAllocManaged)",
        "let the program use device memory; frameworks have a switch for it",
    ),
    "ipc_imported": (
        "device memory of another process, opened by IPC handle",
        "let the program close it (cuIpcCloseMemHandle) first",
    ),
    "vmm_imported": (
        "device memory imported by descriptor",
        "let the program release it first",
    ),
    "multicast": ("multicast objects (NVLink SHARP)", "start the program with NCCL_NVLS_ENABLE=0"),
    "external": (
        "memory or semaphores imported from graphics or another API",
        "let the program release them first",
    ),
}


def refuse_unsavable(job: OpenJob) -> None:
    """Refused, naming the first thing that neither the driver nor CRIU nor we can save."""
    for process in job.cuda:
        hello = process.hello
        for kind, (what, hint) in _UNSAVABLE.items():
            count = hello.residual.get(kind, 0)
            if count:
                raise _refused(process, f"it holds {what} ({count})", hint, kind)
        if hello.capturing:
            raise _refused(process, "it is capturing a CUDA graph", "try again when the capture has ended", "capturing")


def refuse_unsent(info: Info) -> None:
    """Refused while input that was given to the job waits outside it: no image would have it."""
    if info.unsent_input:
        raise Refused(
            f"{info.unsent_input} bytes of input wait for the job to read them",
            hint="try again when the job has read its input",
            details={"resource": "unsent-input"},
        )


def check_place(path: Path) -> Path:
    """Whether an image can be made at `path`; returns the nearest folder above it that exists."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists", hint="choose another place, or remove it first")
    parent = path.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"{parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise NoRights(f"no right to write in {parent}", hint="choose another place with --to")
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        raise NoRights(f"{parent} is on a file system that is read-only", hint="choose another place with --to")
    return parent


def check_space(host: Host, place: Path, gpu_bytes: int, cpu_bytes: int) -> None:
    """NoSpace when the estimate does not fit on the file system of `place`. Both are bytes."""
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    needed = gpu_bytes + cpu_bytes
    if in_memory(host, place):
        # The pool's segments lie there already and become the image's.
        needed = max(0, gpu_bytes - host.pool.figures().free) + cpu_bytes
    if needed > free:
        raise NoSpace(
            f"the image needs about {_gib(needed)}, and {place} has {_gib(free)} free",
            hint="free space there, or choose another place with --to",
            details={"needed": needed, "free": free, "path": str(place)},
        )


def cpu_estimate(host: Host, job: OpenJob) -> int:
    """Bytes that CRIU's files will take: the tree's own memory and, on a GPU, what the driver adds per context."""
    total = 0
    for process in job.processes:
        total += process.memory()
    if host.backend == "gpu":
        total += CONTEXT_BYTES * len(job.cuda)
    else:
        # The software GPU's device memory is shared memory of the process, and leaves it before the dump.
        total = max(0, total - sum(process.hello.blocks.bytes for process in job.cuda))
    return total


def in_memory(host: Host, place: Path) -> bool:
    """Whether an image below `place` can be made of the pool's own files."""
    return place.stat().st_dev == host.pool.folder.stat().st_dev


def _refused(process: CudaProcess, what: str, hint: str, kind: str) -> Refused:
    return Refused(
        f"process {process.pid} ({process.command}) cannot be saved: {what}",
        hint=hint,
        details={"process": process.pid, "resource": kind},
    )


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"
