"""The verbs as typed Python. `import torpor` offers what is here; the command line is a thin layer over it.

Jobs and images are looked up by name each time: several processes may act on them at once, and what a `Job` or an
`Image` tells is what the disk says at that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torpor import launch, records
from torpor.errors import KeeperUnavailable
from torpor.image_handle import Image, every_image, find_image
from torpor.job_handle import Job, Outcome
from torpor.keeper.messages import Progress
from torpor.launch import default_backend
from torpor.records import Backend

__all__ = [
    "Backend",
    "Image",
    "Job",
    "OnProgress",
    "Outcome",
    "Progress",
    "default_backend",
    "images",
    "job",
    "jobs",
    "keeper_start",
    "keeper_status",
    "keeper_stop",
    "keeper_warm",
    "open_image",
    "restore",
    "run",
]

OnProgress = Callable[[Progress], None]
"""Called during a verb with each step's start, moved bytes and end; in the calling thread, so it must be quick."""


def run(
    argv: Sequence[str],
    *,
    name: str | None = None,
    gpu: str | Sequence[int | str] | None = None,
    detach: bool = True,
    arena: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Job:
    """Start a program as a job and return at once.

    `argv` is the program and its arguments, as `subprocess` takes them. `gpu` is `"sim"`, ordinals or UUIDs
    (`"0,1"`, `[0, 1]`); by default `TORPOR_GPU`, else all GPUs of the host, else the software GPU. `env` is added to
    this process's environment. With `detach=False` the program gets a standard input, and its output
    waits for somebody to attach (the command line's foreground), so that nothing of it is missed.

    Raises CannotExec (a NotFound with a shell's `exit_code`) when the program cannot be started, UsageError for a bad
    name or GPU, DriverMissing when a GPU is asked for that is not there.
    """
    record = launch.start(
        argv,
        name=name,
        gpu=gpu,
        detach=detach,
        arena=arena,
        env=dict(env or {}),
        cwd=os.path.abspath(cwd) if cwd is not None else os.getcwd(),
    )
    return Job(record)


def job(name: str) -> Job:
    """The job of that name. Raises NotFound."""
    return Job(records.load(name))


def jobs() -> list[Job]:
    """All jobs of this user, the oldest first, ended and sleeping ones included."""
    return [Job(record) for record in records.every()]


def open_image(name: str | os.PathLike[str]) -> Image:
    """The image of that name, or at that path. Raises NotFound; ImageDamaged when its manifest cannot be read."""
    return find_image(name)


def images() -> list[Image]:
    """The images in this user's folders of both tiers, the oldest first. Images elsewhere are found by path only."""
    return every_image()


def restore(
    source: Image | str | os.PathLike[str],
    *,
    name: str | None = None,
    gpu_map: Mapping[str, str] | None = None,
    progress: OnProgress | None = None,
) -> Job:
    """Wake a job from an image and return it running. The image stays and can be restored again.

    `name` defaults to the job's old name where that is free. `gpu_map` pairs the image's GPUs with this host's, each
    by ordinal or UUID. Raises ImageDamaged, ImageMismatch, StepFailed; then no process is left behind.
    """
    from torpor.keeper.client import KeeperClient, ensure_started

    found = source if isinstance(source, Image) else find_image(source)
    backend = found.backend
    ensure_started(backend)
    result = KeeperClient(backend).call(
        "restore",
        {"image": str(found.path), "name": name, "gpu_map": dict(gpu_map or {})},
        on_progress=progress,
    )
    return job(str(result["job"]))


def keeper_status(backend: Backend) -> dict[str, Any] | None:
    """What the keeper of `backend` says of itself, or None when none runs."""
    from torpor.keeper.client import KeeperClient, listens

    return KeeperClient(backend).call("status") if listens(backend) else None


def keeper_start(backend: Backend) -> None:
    """Start the keeper unless it runs; returns when it answers. Raises KeeperUnavailable, DriverMissing."""
    from torpor.keeper.client import ensure_started

    ensure_started(backend)


def keeper_stop(backend: Backend) -> bool:
    """Stop the keeper; False when none ran. Jobs run on, and a suspended one's memory stays held for it."""
    from torpor.keeper.client import KeeperClient, listens

    if not listens(backend):
        return False
    try:
        KeeperClient(backend).call("stop")
    except KeeperUnavailable:
        if listens(backend):
            raise
    return True


def keeper_warm(backend: Backend, size: int) -> dict[str, Any]:
    """Have `size` bytes of pinned memory ready in the keeper; starts it by need."""
    from torpor.keeper.client import KeeperClient, ensure_started

    ensure_started(backend)
    return KeeperClient(backend).call("warm", {"bytes": size})
