"""The verbs as typed Python. `import torpor` offers what is here; the command line is a thin layer over it.

Jobs and images are looked up by name each time: several processes may act on them at once, and what a `Job` or an
`Image` tells is what the disk says at that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from torpor import launch, paths, records, writeback
from torpor.errors import KeeperUnavailable, TorporError, UsageError
from torpor.image_handle import Flushed, Image, every_image, find_image
from torpor.job_handle import Job, Outcome, adopted
from torpor.keeper.messages import Progress
from torpor.launch import default_backend
from torpor.process.terminal import Terminal
from torpor.records import DEFAULT_VM, FOR_TESTS_VM, Backend, Vm
from torpor.writeback import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store_handle import ImageInStore, Store


def __getattr__(name: str) -> object:
    # Stores bring numpy with them, which `torpor ps` need not wait for.
    if name not in ("ImageInStore", "Store"):
        raise AttributeError(f"module 'torpor.api' has no attribute {name!r}")
    from torpor import store_handle

    value: object = getattr(store_handle, name)
    return value


__all__ = [
    "Backend",
    "Flushed",
    "Image",
    "ImageInStore",
    "Job",
    "OnProgress",
    "Outcome",
    "Progress",
    "Store",
    "Terminal",
    "checkpoint_process",
    "create_store",
    "default_backend",
    "find",
    "flush",
    "images",
    "job",
    "jobs",
    "keeper_start",
    "keeper_status",
    "keeper_stop",
    "keeper_warm",
    "open_image",
    "open_store",
    "recover",
    "restore",
    "run",
]

OnProgress = Callable[[Progress], None]
"""Called during a verb with each step's start, moved bytes and end; in the calling thread, so it must be quick."""


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    gpu: str | Sequence[int | str] | None = None,
    detach: bool = True,
    arena: bool = True,
    managed: Literal["driver", "host"] = "driver",
    vm: Vm | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    terminal: Terminal | None = None,
) -> Job:
    """Start a program as a job and return at once.

    `argv` is the program and its arguments, as `subprocess` takes them. `gpu` is `"sim"`, ordinals or UUIDs
    (`"0,1"`, `[0, 1]`); by default `TORPOR_GPU`, else all GPUs of the host, else the software GPU. `env` is added to
    this process's environment. With `detach=False` the program gets a standard input, and its output
    waits for somebody to attach (the command line's foreground), so that nothing of it is missed. With `terminal` it
    has a terminal of its own instead of pipes, and whoever attached is in front of it. Managed memory
    (`cuMemAllocManaged`) of the `driver` cannot be saved; with `managed="host"` it is pinned host memory, which can.
    With `vm="answers"` the job answers questions itself that the driver has answered before; with `vm="defer"` another
    thread hands work to the driver as well, where that pays (docs/design/deferral.md); with `vm="full"` launches that
    repeat are handed in as graphs (docs/design/merging.md); with `vm="off"` nothing of this is done. By default
    `TORPOR_VM` of the program's environment says, else `records.DEFAULT_VM`.

    Raises CannotExec (a NotFound with a shell's `exit_code`) when the program cannot be started, UsageError for what
    makes no sense (a bad name, GPU or choice), DriverMissing when a GPU is asked for that is not there.
    """
    for option, chosen, choices in (("managed", managed, ("driver", "host")), ("vm", vm, (*get_args(Vm), None))):
        if chosen not in choices:
            raise UsageError(f"{option} cannot be {chosen!r}", hint=f"choose one of {', '.join(filter(None, choices))}")
    if vm is None:
        asked = {**os.environ, **(env or {})}.get("TORPOR_VM")
        if asked is None:
            vm = DEFAULT_VM
        elif asked not in (*get_args(Vm), *FOR_TESTS_VM):
            raise UsageError(f"TORPOR_VM cannot be {asked!r}", hint=f"choose one of {', '.join(get_args(Vm))}")
    record = launch.start(
        argv,
        name=name,
        gpu=gpu,
        detach=detach,
        arena=arena,
        env={
            **(env or {}),
            **({"TORPOR_MANAGED": "host"} if managed == "host" else {}),
            **({"TORPOR_VM": vm} if vm else {}),
        },
        cwd=os.path.abspath(cwd) if cwd is not None else os.getcwd(),
        terminal=terminal,
    )
    return Job(record)


def job(name: str) -> Job:
    """The job of that name. Raises NotFound."""
    return Job(records.load(name))


def recover() -> None:
    """Where a flow was cut short by its keeper's death and no keeper has been started since, start one; do not wait.

    It brings such jobs to an end that is one: running, suspended, asleep, or gone with nothing left behind. The same
    where an image in memory is to be durable, and is not yet.
    """
    if any(record.unfinished is not None for record in records.every()) or writeback.orders():
        from torpor.keeper.client import start_for_unfinished

        start_for_unfinished()


def jobs() -> list[Job]:
    """All jobs of this user, the oldest first, ended and sleeping ones included."""
    return [Job(record) for record in records.every()]


def open_image(name: str | os.PathLike[str]) -> Image:
    """The image of that name, or at that path. Raises NotFound; ImageDamaged when its manifest cannot be read."""
    return find_image(name)


def images() -> list[Image]:
    """The images in this user's folders of both tiers, the oldest first. Images elsewhere are found by path only."""
    return images_and_unreadable()[0]


def images_and_unreadable() -> tuple[list[Image], list[tuple[Image, TorporError]]]:
    """The same, and those that are damaged or need a newer Torpor, each with the error that says so."""
    return every_image()


def open_store(url: str | None = None, *, limit: str | None = None) -> Store:
    """The store at a folder or URL, by default that of `TORPOR_STORE`. Raises NotFound, UsageError, ImageDamaged.

    `limit` bounds the bytes per second each way, as `200MB/s`; by default `TORPOR_LIMIT` does. The key of an encrypted
    store comes from `TORPOR_KEY_FILE` or `TORPOR_KEY_COMMAND`; NoRights when it is not the store's.
    """
    from torpor import store_handle

    return store_handle.open_store(url, limit=limit)


def create_store(
    url: str | None = None,
    *,
    chunk: int | None = None,
    encrypt: bool = False,
    key_file: str | os.PathLike[str] | None = None,
    key_command: str | None = None,
) -> Store:
    """Make an empty store with chunks of `chunk` bytes (512 KiB by default). UsageError when it cannot be there.

    With `encrypt` it is encrypted: with the key in `key_file` (made where it is not there), or that `key_command`
    prints, by default with the one by which `open_store` would open it.
    """
    from torpor import store_handle
    from torpor.store.repository import CHUNK

    return store_handle.create_store(
        url, chunk=chunk or CHUNK, encrypt=encrypt, key_file=key_file, key_command=key_command
    )


def find(name: str | os.PathLike[str]) -> Image | ImageInStore:
    """An image as `open_image` finds it, or as `IMAGE@STORE` (`IMAGE@` in the store of `TORPOR_STORE`)."""
    if "@" not in os.fspath(name):
        return find_image(name)
    from torpor import store_handle

    return store_handle.find(name)


def flush(name: str | os.PathLike[str], progress: OnProgress | None = None) -> Flushed:
    """Wait until the image of that name or place is durable, and say where; done at once where it is.

    Errors as for `Image.flush`, and NotFound.
    """
    path = paths.dram_dir() / name
    found = Image(path) if writeback.course_of(path) is not None else find(name)
    return found.flush(progress) if isinstance(found, Image) else Flushed(f"{found.name}@{found.store.url}", None)


def restore(
    source: Image | ImageInStore | str | os.PathLike[str],
    *,
    name: str | None = None,
    gpu_map: Mapping[str, str] | None = None,
    progress: OnProgress | None = None,
) -> Job:
    """Wake a job from an image and return it running. The image stays and can be restored again.

    It may have ended by then: one that came back and ended by itself with exit code 0 is returned as well.
    Of an image in a store every chunk is checked on its way to the GPU; what is not the GPU's passes through memory, or
    the disk where that has no room. `name` defaults to the job's old name where that is free. `gpu_map` pairs the
    image's GPUs with this host's, each by ordinal or UUID.
    Raises ImageDamaged, ImageMismatch, StepFailed; then no process is left behind.
    """
    found = find(source) if isinstance(source, str | os.PathLike) else source
    if isinstance(found, Image):
        with found.reading():
            return _restore(found.backend, {"image": str(found.path)}, name, gpu_map, progress)
    source_name = f"{found.name}@{found.store.url}"
    store = found.store
    where = {"image": found.id, "store": store.url, "env": store.opening(), "key": store.repository.store_key}
    return _restore(found.backend, {**where, "source": source_name}, name, gpu_map, progress)


def _restore(
    backend: Backend,
    where: Mapping[str, Any],
    name: str | None,
    gpu_map: Mapping[str, str] | None,
    progress: OnProgress | None,
) -> Job:
    from torpor.keeper.client import KeeperClient, ensure_started

    ensure_started(backend)
    result = KeeperClient(backend).call(
        "restore",
        {**where, "name": name, "gpu_map": dict(gpu_map or {})},
        on_progress=progress,
    )
    return job(str(result["job"]))


def checkpoint_process(
    pid: int,
    *,
    name: str | None = None,
    leave_running: bool = False,
    to: str | os.PathLike[str] | None = None,
    tier: str = "disk",
    deadline: float = 30.0,
    progress: OnProgress | None = None,
    target: Target | None = None,
) -> Image:
    """Save a process that Torpor did not start, and all its descendants, into an image as `Job.checkpoint` does.

    All of its GPU state goes through the driver's own checkpoint, at the driver's speed. `name` is that of the job
    which the image wakes as. Raises NotFound when there is no such process, Refused when it cannot be saved, and what
    `Job.checkpoint` raises; the process runs on then.
    """
    with adopted(pid, name, leave_running=leave_running) as job:
        return job.checkpoint(leave_running, to=to, tier=tier, deadline=deadline, progress=progress, target=target)


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
