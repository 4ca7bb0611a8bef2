"""Where everything lives. Nothing else in the package builds these paths (docs/architecture.md lists them)."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

JOB_DIR_IN_JOB = Path("/run/torpor/job")
PINNED_IN_JOB = Path("/run/torpor/pinned")
"""The job's folder as the job itself sees it when it has a mount namespace of its own."""

_SPARE = 1 << 30
"""Bytes of memory that stay free when something passes through it."""

_LIBRARY_DIRS = (
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
)


def home() -> Path:
    """`TORPOR_HOME`, else `$XDG_STATE_HOME/torpor`, else `~/.local/state/torpor`; absolute, perhaps not there yet."""
    chosen = os.environ.get("TORPOR_HOME")
    if chosen:
        return Path(os.path.abspath(chosen))
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "torpor"


def jobs_dir() -> Path:
    return home() / "jobs"


def job_dir(name: str) -> Path:
    return jobs_dir() / name


def images_dir() -> Path:
    return home() / "images"


def dram_dir() -> Path:
    """Images of the `dram` tier: `TORPOR_DRAM`, else `/dev/shm/torpor-<uid>`."""
    chosen = os.environ.get("TORPOR_DRAM")
    return Path(os.path.abspath(chosen)) if chosen else Path(f"/dev/shm/torpor-{os.getuid()}")


def in_dram(path: Path) -> bool:
    """Whether something at `path` would lie in memory, on the file system of the images of the `dram` tier."""
    return _device(path.parent) == _device(dram_dir())


def _device(folder: Path) -> int:
    """The file system of a folder, or of the nearest one above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder.stat().st_dev


def tier_dir(tier: str) -> Path:
    """The folder that holds the images of `disk` or `dram`."""
    return dram_dir() if tier == "dram" else images_dir()


def image_names() -> set[str]:
    """The names of this home's images in both tiers, and of those that are being made."""
    folders = [one for one in (images_dir(), dram_dir()) if one.is_dir()]
    return {path.name.removesuffix(".partial") for folder in folders for path in folder.iterdir()}


def home_mark() -> str:
    """Sixteen digits that tell this home from others that share TORPOR_DRAM with it."""
    return hashlib.blake2s(str(home().resolve()).encode(), digest_size=8).hexdigest()


def room_for(size: int) -> Path:
    """The folder of the tier in which so many bytes have room for a while: memory, else the disk."""
    memory = make_private(dram_dir())
    status = os.statvfs(memory)
    if size + _SPARE <= min(status.f_bavail * status.f_frsize, memory_available()):
        return memory
    make_private(home())
    images_dir().mkdir(exist_ok=True)
    return images_dir()


def memory_available() -> int:
    """Bytes of this host's memory that can be had without taking any from a program."""
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(facts["MemAvailable"].split()[0]) * 1024


def keeper_dir() -> Path:
    return home() / "keeper"


def keeper_socket(backend: str) -> Path:
    """Socket of the keeper for `gpu` or `sim`."""
    return keeper_dir() / f"{backend}.sock"


def keeper_log(backend: str) -> Path:
    return keeper_dir() / f"{backend}.log"


def job_record(name: str) -> Path:
    return job_dir(name) / "job.json"


def job_exit(name: str) -> Path:
    return job_dir(name) / "exit.json"


def job_log(name: str) -> Path:
    return job_dir(name) / "log"


def supervisor_socket(name: str) -> Path:
    return job_dir(name) / "supervisor.sock"


def control_dir(name: str) -> Path:
    """Folder of the interposer's sockets, one per process, named by the pid as the job sees it."""
    return job_dir(name) / "ctl"


def job_profile(name: str) -> Path:
    """Folder of what counted processes leave when they end, one file each."""
    return job_dir(name) / "profile"


def job_native(name: str) -> Path:
    """The job's own copy of the interposer (and of the software GPU under `sim/`), so that upgrades cannot hurt it."""
    return job_dir(name) / "native"


def make_private(folder: Path) -> Path:
    """Make `folder` and what leads to it; the folder itself is for this user only. Returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def let_in(job: str) -> None:
    """Open a job's folder to its own processes, whatever users they become: to pass through it, to load the libraries,
    to make sockets and to leave last words. They list nothing and remove only what is theirs.

    What else is in the folder must be its owner's alone, file by file. Nobody reaches it from outside the job, as
    `home` is closed.
    """
    for folder in (control_dir(job), job_profile(job)):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1733)
    native = job_native(job)
    for folder in (native, *(one for one in native.rglob("*") if one.is_dir())):
        folder.chmod(0o711)
    job_dir(job).chmod(0o711)


def checkout() -> Path | None:
    """The root of the source tree when the package runs from one (editable install), else None."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "native").is_dir() else None


def native_dir() -> Path | None:
    """Folder with the built `libcuda.so.1` (interposer) and `sim/libcuda.so.1` (software GPU), or None.

    `TORPOR_NATIVE` chooses another build. Otherwise they lie in the package; with an editable install the Python
    sources stay in the tree, and the built libraries are where an ordinary install would have put the package.
    """
    chosen = os.environ.get("TORPOR_NATIVE")
    if chosen:
        return Path(os.path.abspath(chosen))
    installed = [Path(folder, "torpor") for folder in sys.path if folder]
    for package in [*map(Path, sys.modules["torpor"].__path__), *installed]:
        native = package / "native"
        if (native / "libcuda.so.1").is_file():
            return native
    return None


def interposer() -> Path | None:
    """The built interposer, or None."""
    native = native_dir()
    return native / "libcuda.so.1" if native else None


def software_gpu() -> Path | None:
    """The built software GPU, or None."""
    native = native_dir()
    return native / "sim" / "libcuda.so.1" if native else None


def kernel_times() -> Path | None:
    """The built library that the driver loads into a job whose kernels are timed, or None."""
    native = native_dir()
    return native / "kernel_times.so" if native else None


def software_cupti() -> Path | None:
    """The software GPU's CUPTI, or None."""
    native = native_dir()
    return native / "sim" / "libcupti.so" if native else None


def criu_limits() -> Path | None:
    """The built library that lets CRIU read the limits of other users' processes, or None."""
    native = native_dir()
    library = native / "criu" / "limits.so" if native else None
    return library if library is not None and library.is_file() else None


def criu_prefixes() -> list[Path]:
    """Where a private CRIU may be, best first: `TORPOR_CRIU`, beside the virtual environment, in the tree, at home."""
    candidates = [Path(sys.prefix).parent / ".criu"]
    root = checkout()
    if root:
        candidates.append(root / ".criu")
    candidates.append(home() / "criu")
    chosen = os.environ.get("TORPOR_CRIU")
    if chosen:
        candidates.insert(0, Path(os.path.abspath(chosen)))
    return list(dict.fromkeys(candidates))


def real_libcuda() -> Path | None:
    """The vendor's `libcuda.so.1` on this host, or None: `LD_LIBRARY_PATH` first, then the usual folders.

    The library is only looked for, not loaded, so this costs microseconds and needs no GPU.
    """
    search = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    native = native_dir()
    for folder in [*search, *_LIBRARY_DIRS]:
        library = Path(folder) / "libcuda.so.1"
        if library.exists() and (native is None or not library.resolve().is_relative_to(native.resolve())):
            return library
    return None


def has_gpu() -> bool:
    """Whether this host has the vendor's driver: its control device and its library."""
    return os.path.exists("/dev/nvidiactl") and real_libcuda() is not None
