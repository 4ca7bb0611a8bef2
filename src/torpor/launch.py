"""Starting a job: its folder, its copy of the native libraries, its environment, and its supervisor."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from torpor import __version__, paths, records
from torpor.errors import DriverMissing, MissingPart, NoRights, NotFound, UsageError
from torpor.records import Backend, JobRecord

_GPU = re.compile(r"\d+|(GPU|MIG)-[0-9A-Fa-f-]+")


def find_program(program: str, search: str) -> Path:
    """The file that `program` names, by the `search` path when it has no slash.

    NotFound when there is none, NoRights when it is there but cannot be executed.
    """
    found = shutil.which(program, path=search)
    if found:
        return Path(found)
    if "/" in program:
        candidates = [Path(program)]
    else:
        candidates = [Path(folder or ".") / program for folder in search.split(":")]
    present = [path for path in candidates if path.exists()]
    if present:
        reason = "is a directory" if present[0].is_dir() else "is not executable"
        raise NoRights(f"{program} {reason}")
    raise NotFound(f"command not found: {program}")


def default_backend() -> Backend:
    """`sim` when `TORPOR_GPU=sim` or the host has no NVIDIA driver, else `gpu`."""
    return "sim" if os.environ.get("TORPOR_GPU") == "sim" or not paths.has_gpu() else "gpu"


def choose_gpus(gpu: str | Sequence[int | str] | None) -> tuple[Backend, list[str]]:
    """The backend and the GPUs (ordinals or UUIDs; empty = all) that `gpu` asks for.

    `None` falls back on `TORPOR_GPU`, then on what the host has. UsageError for anything that names no GPU,
    DriverMissing when a GPU is named and the host has no driver.
    """
    if gpu is None:
        gpu = os.environ.get("TORPOR_GPU") or None
    if gpu is None:
        return default_backend(), []
    wanted = [part.strip() for part in gpu.split(",")] if isinstance(gpu, str) else [str(part) for part in gpu]
    if wanted == ["sim"]:
        return "sim", []
    for one in wanted:
        if not _GPU.fullmatch(one):
            raise UsageError(f"{one!r} names no GPU", hint="use ordinals or UUIDs such as 0,1 or sim")
    if not paths.has_gpu():
        raise DriverMissing(
            "this host has no NVIDIA driver (/dev/nvidiactl and libcuda.so.1)",
            hint="use --gpu sim for the software GPU, or see `torpor doctor`",
        )
    return "gpu", wanted


def copy_native(name: str, backend: Backend) -> None:
    """Copy the interposer (and the software GPU) into the job's folder. MissingPart when they are not built."""
    for source, target in (
        (paths.interposer(), paths.job_native(name) / "libcuda.so.1"),
        *([(paths.software_gpu(), paths.job_native(name) / "sim" / "libcuda.so.1")] if backend == "sim" else []),
    ):
        if source is None or not source.is_file():
            raise MissingPart(
                "Torpor's native libraries are not built", hint="install the package with `pip install .`"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)


def job_env(record: JobRecord, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the job's program: `base`, the record's own variables, and Torpor's on top."""
    folder = paths.JOB_DIR_IN_JOB if record.namespaces else paths.job_dir(record.name)
    env = {**base, **record.env}
    env.pop("TORPOR_GPU", None)
    env["TORPOR_JOB_DIR"] = str(folder)
    preload = [str(folder / "native" / "libcuda.so.1"), env.get("LD_PRELOAD", "")]
    env["LD_PRELOAD"] = ":".join(part for part in preload if part)
    if record.backend == "sim":
        env["TORPOR_REAL_LIBCUDA"] = str(folder / "native" / "sim" / "libcuda.so.1")
    elif record.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(record.gpus)
    if not record.arena:
        env["TORPOR_ARENA"] = "off"
    return env


def make_record(
    argv: Sequence[str],
    *,
    name: str | None,
    backend: Backend,
    gpus: list[str],
    arena: bool,
    env: Mapping[str, str],
    cwd: str,
    namespaces: bool,
) -> JobRecord:
    """Claim a folder for a new job and save its first record."""
    record = JobRecord(
        name=records.claim(name, list(argv)),
        command=list(argv),
        cwd=cwd,
        backend=backend,
        env=dict(env),
        gpus=gpus,
        arena=arena,
        namespaces=namespaces,
        version=__version__,
    )
    records.save(record)
    return record
