"""Whether a job can be put away, found out before anything of it is touched."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from torpor import paths, writeback
from torpor.errors import ImageMismatch, NoRights, NoSpace, Refused, UsageError
from torpor.keeper.host import Host
from torpor.keeper.jobs import CudaProcess, OpenJob
from torpor.process import addresses, credentials, pinned, probe, refusals
from torpor.process.client import Info
from torpor.process.namespace import effective_capabilities
from torpor.writeback import Target

CONTEXT_BYTES = 600 << 20
"""Host memory that the vendor's checkpoint of one otherwise empty context takes (measured: docs/design/keeper.md)."""

_DESCRIPTORS = 256
"""Those that supervisor and CRIU have open beside the job's pinned memory."""

_UNSAVABLE = {
    "managed": (
        "managed memory (cuMemAllocManaged)",
        "start it with `torpor run --managed host` (then it is pinned host memory), or let it use device memory",
    ),
    "managed_variables": (
        "variables declared __managed__",
        "the driver cannot save them, and no option can: declare them __device__ and copy, or allocate managed memory "
        "and start the program with `torpor run --managed host`",
    ),
    "ipc_imported": (
        "an event, a pool or device memory of another process, opened by IPC handle",
        "let the program close it first; memory can stay open when both processes belong to the job",
    ),
    "vmm_imported": (
        "device memory imported by descriptor from a process outside of the job",
        "let the program release it first, or start both processes in one job",
    ),
    "sharing_lost": (
        "device memory shared with another process, without the descriptor by which to know it",
        "raise the limit of open files (ulimit -n) if it is low, and let the program leave high descriptors alone",
    ),
    "multicast": ("multicast objects (NVLink SHARP)", "start the program with NCCL_NVLS_ENABLE=0"),
    "external": (
        "memory or semaphores imported from graphics or another API",
        "let the program release them first",
    ),
}

_SECOND_DRIVER = "dlmopen(libcuda.so.1)"
"""Among unknown symbols: what the interposer calls a driver in a namespace of the loader's own."""


def refuse_unsavable(job: OpenJob) -> None:
    """Refused, naming the first thing that neither the driver nor CRIU nor we can save."""
    for process in job.cuda:
        hello = process.hello
        for kind, (what, hint) in _UNSAVABLE.items():
            count = hello.residual.get(kind, 0)
            if count:
                raise _refused(process, f"it holds {what} ({count})", hint, kind)
        if _SECOND_DRIVER in hello.unknown_symbols:
            what = "it has opened a second driver (dlmopen), which is not fully intercepted"
            raise _refused(process, what, "let it open libcuda.so.1 by dlopen", "not-intercepted")
        if hello.capturing:
            raise _refused(process, "it is capturing a CUDA graph", "try again when the capture has ended", "capturing")
    given = job.cuda[0].hello.residual.get("ipc_exported", 0) if len(job.cuda) == 1 else 0
    if given:
        # Nobody else in the job could have opened it; within a job, whoever did is refused above.
        what = (
            f"it gave out the IPC handle of an event ({given}), which only a process outside of the job can have opened"
        )
        hint = "let the program destroy the event first, or start both processes in one job"
        raise _refused(job.cuda[0], what, hint, "ipc_exported")


def refuse_host_kinds(job: OpenJob) -> None:
    """Refused, naming the first thing of the host that CRIU could not bring back."""
    assert job.record.supervisor_pid is not None
    stdio = {key for key in job.info.stdio.values() if key}
    without = {process.host_pid for process in job.cuda} | {process.pid for process in job.heirs}
    refusals.refuse(job.tree, job.record.supervisor_pid, stdio, without)


def check_rights(mask: int | None = None) -> None:
    """NoRights when this keeper (or who has the capabilities of `mask`) lacks what every restore needs; names each."""
    missing = [name for name in probe.missing_capabilities(mask) if name in probe.NEEDED_TO_RESTORE]
    if missing:
        wants = "; ".join(f"{name} to {probe.CAPABILITIES[name][1]}" for name in missing)
        raise NoRights(
            f"the keeper lacks capabilities that a restore needs: {wants}",
            hint="stop it (`torpor keeper stop`) and start it with them; root has them",
            details={"missing": missing},
        )


def check_capabilities(image: Path, mask: int | None = None) -> None:
    """NoRights when a process of the image has capabilities that this keeper (or `mask`) lacks: CRIU could not give
    them back, and would not end. The image's files must have been verified.
    """
    have = effective_capabilities() if mask is None else mask
    missing = credentials.names(credentials.capabilities(image / "cpu") & ~have)
    if missing:
        raise NoRights(
            f"processes of the job have capabilities that the keeper lacks and cannot give back: {', '.join(missing)}",
            hint="stop it (`torpor keeper stop`) and start it with them, as the job was started",
            details={"missing": missing},
        )


def check_addresses(image: Path) -> None:
    """ImageMismatch when a socket of the image is bound to an address that this host does not have; names the first.

    The image's files must have been verified.
    """
    for one in addresses.missing(image / "cpu"):
        raise ImageMismatch(
            f"a socket of the job is bound to {one.address} (port {one.port}), an address that this host does not have",
            hint="restore on a host that has it, or let the program listen on all addresses",
            details={"address": one.address, "port": one.port},
        )


def check_descriptors(image: Path) -> None:
    """NoRights when those that a restore of this image has open at once are more than this keeper may have.

    The supervisor that it starts may have as many; CRIU takes all files of pinned memory from there. The image's files
    must have been verified.
    """
    files, (_soft, most) = len(pinned.read_index(image)), resource.getrlimit(resource.RLIMIT_NOFILE)
    if files + _DESCRIPTORS > most:
        raise NoRights(
            f"the job's pinned host memory is in {files} files, and the keeper may have no more than {most} open",
            hint="raise the limit (`ulimit -Hn`, RLIMIT_NOFILE) of the keeper and start it again, or start it with "
            "CAP_SYS_RESOURCE",
            details={"files": files, "limit": most},
        )


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


def check_target(path: Path, target: Target) -> None:
    """Whether an image at `path`, in memory, can go to the target later; what a store says is for its writer to see."""
    if not writeback.is_ordinary(path):
        raise UsageError(f"{path} is not among the images in memory of {paths.dram_dir()}")
    if target.path is not None:
        check_place(Path(target.path))


def check_space(host: Host, place: Path, gpu_bytes: int, cpu_bytes: int) -> None:
    """NoSpace when the estimate does not fit on the file system of `place`. Both are bytes."""
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    needed = gpu_bytes + cpu_bytes
    if in_memory(host, place):
        # The pool's segments lie there already and become the image's.
        needed = max(0, gpu_bytes - host.pool.figures().free) + cpu_bytes
        free = min(free, paths.memory_available())  # its file system promises more than there may be
    if needed > free:
        raise NoSpace(
            f"the image needs about {_gib(needed)}, and {place} has {_gib(free)} free",
            hint="free space there, or choose another place with --to",
            details={"needed": needed, "free": free, "path": str(place)},
        )


def cpu_estimate(host: Host, job: OpenJob) -> int:
    """Bytes that everything but GPU memory will take: the tree's own memory and, on a GPU, what the driver adds per
    context; the job's libraries and its log."""
    total = 0
    for process in job.processes:
        total += process.memory()
    if host.backend == "gpu":
        total += CONTEXT_BYTES * len(job.cuda)
    else:
        # The software GPU's device memory is shared memory of the process, and leaves it before the dump.
        total = max(0, total - sum(process.hello.blocks.bytes for process in job.cuda))
    return total + _size(job.folder / "native") + _size(job.folder / "log")


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; 0 where there is none."""
    if path.is_dir():
        return sum(_size(Path(folder) / name) for folder, _folders, names in os.walk(path) for name in names)
    try:
        return path.stat().st_size
    except OSError:
        return 0


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
