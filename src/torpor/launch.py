"""Starting a job: its folder, its copy of the native libraries, its environment, and its supervisor."""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torpor import __version__, paths, records
from torpor.errors import DriverMissing, MissingPart, TorporError, UsageError
from torpor.process import limits
from torpor.process.terminal import Terminal
from torpor.records import Backend, JobRecord, JobState, readable

_INJECTION = "CUDA_INJECTION64_PATH"
"""Names the library that the driver loads in cuInit."""

_GPU = re.compile(r"\d+|(GPU|MIG)-[0-9A-Fa-f-]+")


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
    if not isinstance(gpu, Sequence):
        raise UsageError(f"{gpu!r} names no GPU", hint="use a list of them, as [0], or sim")
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


def copy_native(name: str, backend: Backend, *, kernels: bool = False) -> None:
    """Copy the interposer (and the software GPU; with `kernels` what times them) into the job's folder.

    MissingPart when they are not built.
    """
    native = paths.job_native(name)
    wanted = [(paths.interposer(), native / "libcuda.so.1")]
    if backend == "sim":
        wanted.append((paths.software_gpu(), native / "sim" / "libcuda.so.1"))
    if kernels:
        wanted.append((paths.kernel_times(), native / "kernel_times.so"))
    if kernels and backend == "sim":
        wanted.append((paths.software_cupti(), native / "sim" / "libcupti.so"))
    for source, target in wanted:
        if source is None or not source.is_file():
            raise MissingPart(
                "Torpor's native libraries are not built", hint="install the package with `pip install .`"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with limits.lifted(resource.RLIMIT_FSIZE):  # the caller's, which is meant for the job's files
            shutil.copyfile(source, target)
        target.chmod(0o755)


def job_env(record: JobRecord, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the job's program: `base`, and Torpor's own variables on top."""
    folder = paths.JOB_DIR_IN_JOB if record.namespaces else paths.job_dir(record.name)
    env = dict(base)
    env.pop("TORPOR_GPU", None)
    env["TORPOR_JOB_DIR"] = str(folder)
    preload = [str(folder / "native" / "libcuda.so.1"), env.get("LD_PRELOAD", "")]
    env["LD_PRELOAD"] = ":".join(part for part in preload if part)
    if record.backend == "sim":
        env["TORPOR_REAL_LIBCUDA"] = str(folder / "native" / "sim" / "libcuda.so.1")
    elif record.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(record.gpus)
    if records.times_kernels(record):
        env[_INJECTION] = str(folder / "native" / "kernel_times.so")
        if record.backend == "sim" and not env.get("TORPOR_CUPTI"):
            env["TORPOR_CUPTI"] = str(folder / "native" / "sim" / "libcupti.so")
    if not record.arena:
        env["TORPOR_ARENA"] = "off"
    elif record.namespaces:
        env.setdefault("TORPOR_PINNED", str(paths.PINNED_IN_JOB))
    return env


def _surroundings(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment and, on top, what the job is given. UsageError when two tools want to be in the job."""
    base = dict(os.environ)
    if base.pop(records.KERNELS, None):
        base.pop(_INJECTION, None)  # the caller is such a job itself
    base.update(env)
    if base.get(records.KERNELS) and base.get(_INJECTION):
        raise UsageError(
            f"{_INJECTION} is set, and the driver loads one tool at a time",
            hint="unset it, or profile without --kernels",
        )
    return base


def _words(argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A command as strings. UsageError for a string, which would be taken for its characters, and for other things."""
    if isinstance(argv, Sequence) and not isinstance(argv, str | bytes):
        words = [os.fspath(word) if isinstance(word, str | os.PathLike) else None for word in argv]
        if all(isinstance(word, str) for word in words):
            return [word for word in words if word is not None]
    raise UsageError(f"{argv!r} is no command", hint='give a list, as ["python", "train.py"]')


def start(
    argv: Sequence[str | os.PathLike[str]],
    *,
    name: str | None,
    gpu: str | Sequence[int | str] | None,
    detach: bool,
    arena: bool,
    env: Mapping[str, str],
    cwd: str,
    terminal: Terminal | None = None,
) -> JobRecord:
    """Start a job (see `torpor.run`) and return its record. When it cannot be started, nothing of it is left.

    Nor after a Ctrl-C, which waits until the program runs and can be ended: nobody would know it otherwise.
    """
    from torpor.keeper.client import ensure_started
    from torpor.keeper.interruptions import Interruptions
    from torpor.process.namespace import Spec, may_make_namespaces, start_supervisor

    argv = _words(argv)
    if not argv:
        raise UsageError("there is no program to run")
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise UsageError(f"no variable can be {key!r}={value!r}", hint="names and values are strings")
    surroundings = _surroundings(env)
    backend, gpus = choose_gpus(gpu)
    folder = None
    try:
        with Interruptions():  # which raises at its end what came meanwhile
            record = JobRecord(
                name=records.claim(name, argv),
                command=[readable(word) for word in argv],
                cwd=readable(cwd),
                backend=backend,
                env={readable(key): readable(value) for key, value in env.items()},
                gpus=gpus,
                arena=arena,
                namespaces=may_make_namespaces(),
                version=__version__,
            )
            folder = paths.job_dir(record.name)
            records.save(record)
            copy_native(record.name, backend, kernels=records.times_kernels(record))
            paths.job_log(record.name).touch(mode=0o600)
            paths.let_in(record.name)
            # The first checkpoint shall find a keeper that has the driver initialised; the job does not wait for it.
            ensure_started(backend, wait=False)
            record.supervisor_pid = start_supervisor(
                Spec(
                    mode="run",
                    job_dir=str(folder),
                    argv=argv,
                    env=job_env(record, surroundings),
                    cwd=cwd,
                    namespaces=record.namespaces,
                    stdin="null" if detach else "pipe",
                    await_client=not detach,
                    terminal=list(terminal.streams) if terminal else [],
                    attributes=list(terminal.attributes) if terminal else [],
                    window=list(terminal.window) if terminal else [],
                )
            )
            # A job may be over already: then there is no start time, and 0 is no later process's either.
            record.supervisor_start = records.process_start(record.supervisor_pid) or 0
            record.state = JobState.RUNNING
            records.save(record)
    except BaseException:
        if folder is not None:
            _end(folder)
            shutil.rmtree(folder)
        raise
    return record


def _end(folder: Path) -> None:
    """Kill what runs in the job of this folder, if anything does, and wait until its supervisor has ended."""
    from torpor.process.client import SupervisorClient

    with suppress(TorporError, OSError), SupervisorClient(folder) as supervisor:
        supervisor.end()


def adopt(pid: int, *, name: str | None, client: int) -> JobRecord:
    """Make a job of a process that runs already, to be checkpointed; it is not touched. `forget` is the reverse.

    `pid` may be that of a thread. `client` is a process that must not be part of it: who asks. Raises NotFound,
    Refused, NoRights, UsageError.
    """
    from torpor.keeper.client import ensure_started
    from torpor.keeper.interruptions import Interruptions
    from torpor.process import strangers
    from torpor.process.namespace import Spec, start_supervisor

    stranger = strangers.look_at(pid, client)
    backend = default_backend()
    folder = None
    try:
        with Interruptions():  # which raises at its end what came meanwhile
            record = JobRecord(
                name=records.claim(name, stranger.command),
                command=stranger.command,
                cwd=readable(stranger.cwd),
                backend=backend,
                arena=False,
                namespaces=False,
                adopted=stranger.pid,
                interposed=False,
                root=stranger.pid,
                version=__version__,
            )
            folder = paths.job_dir(record.name)
            records.save(record)
            for needed in (paths.job_native(record.name), paths.control_dir(record.name)):
                paths.make_private(needed)
            ensure_started(backend, wait=False)
            record.supervisor_pid = start_supervisor(
                Spec(mode="adopt", job_dir=str(folder), namespaces=False, adopt=stranger.pid)
            )
            record.supervisor_start = records.process_start(record.supervisor_pid) or 0
            record.state = JobState.RUNNING
            records.save(record)
    except BaseException:
        if folder is not None:
            _end(folder)  # the supervisor alone: the process is no child of its
            shutil.rmtree(folder)
        raise
    return record
