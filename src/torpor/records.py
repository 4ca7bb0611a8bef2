"""A job's record: `jobs/<name>/job.json`, replaced atomically, and the state that follows from it.

The record says what was last done to the job; whether its supervisor lives and `exit.json` say what became of it
since. `state()` combines the three, so a crash of anything can never leave a job looking alive.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from torpor import paths
from torpor.errors import NO_SPACE, NoRights, NotFound, TorporError, UsageError

Backend = Literal["gpu", "sim"]

Vm = Literal["off", "answers", "defer", "full"]
"""What is done with driver calls (docs/design/deferral.md); each level does what those before it do."""

FOR_TESTS_VM = ("check", "always", "always-full")
"""What `TORPOR_VM` may say besides: answers compared with the driver's; everything at the first chance."""

DEFAULT_VM: Vm = "answers"
"""The highest level that the figures of docs/results/h200.md support."""

KERNELS = "TORPOR_KERNELS"
"""Given to a job whose kernels are timed one by one (docs/design/profile.md): CUPTI is then at work inside."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class JobState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CHECKPOINTING = "checkpointing"
    EXITED = "exited"
    KILLED = "killed"
    ASLEEP = "asleep"
    LOST = "lost"


LIVE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED, JobState.CHECKPOINTING})

COMMIT_SECONDS = 60.0
"""How long after its dump a dead job counts as being checkpointed; a keeper that finishes says `asleep` by then."""


class Unfinished(msgspec.Struct, kw_only=True):
    """A flow that has begun and not ended: what a keeper needs to bring the job back when the one at work has died.

    `image` is where the flow writes its image, or which one it restores; `aside` is where a restore put the folder of
    the sleeping job of the same name. An image on its way into a store is `stored` (`IMAGE@STORE`) as soon as `proof`
    is there, and what is left at `image` is of no use any more: a file of the store or, where that is no folder of
    this host, an object of it, by its name. `names` are paths in /dev/shm that are there for the dump alone.
    """

    verb: Literal["checkpoint", "suspend", "resume", "restore"]
    image: str | None = None
    aside: str | None = None
    stored: str | None = None
    proof: str | None = None
    names: list[str] = []


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=False):
    """Times are seconds since the epoch; pids are those of the host.

    `state` is the last one recorded (`JobState` value); read `state(record)` instead. `env` holds the variables that
    the job was given on top of its caller's. `supervisor_start` is the supervisor's start time in clock ticks since
    boot (field 22 of /proc/<pid>/stat), which tells it from a later process with the same pid. `image` is the path of
    the image that the job was restored from or, when asleep, went into; `IMAGE@STORE` for one in a store. `adopted` is
    the pid of a process that Torpor did not start; `interposed` says whether the job's processes have our library
    between themselves and the driver.
    `unfinished` is set for as long as a flow is under way.
    """

    name: str
    command: list[str]
    cwd: str
    backend: Backend
    state: JobState = JobState.STARTING
    env: dict[str, str] = {}
    gpus: list[str] = []
    arena: bool = True
    adopted: int | None = None
    interposed: bool = True
    namespaces: bool = True
    created: float = msgspec.field(default_factory=time.time)
    supervisor_pid: int | None = None
    supervisor_start: int | None = None
    root: int | None = None
    image: str | None = None
    suspended_tier: Literal["hbm", "dram"] | None = None
    unfinished: Unfinished | None = None
    version: str = ""


class ExitRecord(msgspec.Struct, kw_only=True):
    """`jobs/<name>/exit.json`, written by the supervisor when the job's root process ends: one of the first two is set.

    `checkpointed` says that a finished dump ended it; whether there is an image is for the job's record to say.
    """

    exit_code: int | None = None
    signal: int | None = None
    ended: float = 0.0
    checkpointed: bool = False


def times_kernels(record: JobRecord) -> bool:
    """Whether the job was started such that CUPTI times its kernels."""
    return bool(record.env.get(KERNELS))


def check_name(name: str) -> str:
    """`name` itself; UsageError when it cannot name a job or an image."""
    if not _NAME.fullmatch(name) or name.endswith(".partial"):
        raise UsageError(
            f"{name!r} is not a name for a job or an image",
            hint="use up to 63 letters, digits, '.', '_' and '-', starting with a letter or digit",
        )
    return name


def claim(name: str | None, command: list[str]) -> str:
    """Make a new job folder and return its name: `name`, or the program's with the first free number.

    Raises UsageError when `name` is taken or not a name.
    """
    paths.make_private(paths.home())
    paths.jobs_dir().mkdir(exist_ok=True)
    if name is not None:
        if not _make(check_name(name)):
            raise UsageError(f"a job named {name!r} exists", hint=f"choose another --name, or `torpor rm {name}`")
        return name
    stem = default_stem(command)
    number = 1
    while not _make(f"{stem}-{number}"):
        number += 1
    return f"{stem}-{number}"


def readable(text: str) -> str:
    """A word of the system as a record can have it: what is no character, as in names that are no UTF-8, is escaped."""
    return text.encode(errors="backslashreplace").decode()


def default_stem(command: list[str]) -> str:
    """A word for the command: the script's name when an interpreter runs one, else the program's."""
    program = Path(command[0]).name if command else "job"
    if re.fullmatch(r"(python|pypy|bash|sh|dash|node|perl|ruby)[0-9.]*", program):
        scripts = [arg for arg in command[1:] if not arg.startswith("-") and re.search(r"\.\w+$", arg)]
        program = Path(scripts[0]).stem if scripts else program
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", program).strip("-_")[:48]
    return stem or "job"


def _make(name: str) -> bool:
    try:
        paths.job_dir(name).mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` such that a reader, or a crash, sees the old file or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write that found no room does not say where
        raise


def save(record: JobRecord) -> None:
    """Write the record; the job's folder must exist. On a full disk it takes the place of the old one, if there is one:
    what has been done to a job must not go unsaid."""
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    path = paths.job_record(record.name)
    try:
        write_atomically(path, data)
    except OSError as error:
        if error.errno not in NO_SPACE or not _overwrite(path, data):
            raise


def _overwrite(path: Path, data: bytes) -> bool:
    """Write `data` into the room that a file has, at once and as long as the file was; whether that could be done."""
    try:
        with path.open("r+b", buffering=0) as file:
            before = file.read()
            if len(data) > os.fstat(file.fileno()).st_blocks * 512:
                return False
            try:
                os.pwrite(file.fileno(), data.ljust(len(before)), 0)
                os.fsync(file.fileno())
            except OSError:
                os.pwrite(file.fileno(), before, 0)
                file.truncate(len(before))
                raise
    except OSError:
        return False
    return True


def load(name: str) -> JobRecord:
    """The record of a job; NotFound when there is none, TorporError when it cannot be read."""
    path = paths.job_record(check_name(name))
    try:
        return msgspec.json.decode(path.read_bytes(), type=JobRecord)
    except FileNotFoundError:
        raise NotFound(f"no job named {name!r}", hint="`torpor ps` lists the jobs") from None
    except PermissionError as error:
        raise NoRights(f"{path} belongs to another user", hint="run torpor as that user, or as root") from error
    except msgspec.DecodeError as error:
        raise TorporError(f"{path} is not a job record: {error}") from error


def every() -> list[JobRecord]:
    """The records of all jobs, the oldest first. Folders that are being made or removed are passed over."""
    records = []
    try:
        names = sorted(entry.name for entry in os.scandir(paths.jobs_dir()))
    except FileNotFoundError:
        return []
    for name in names:
        try:
            records.append(load(name))
        except (NotFound, UsageError):
            continue
    return sorted(records, key=lambda record: record.created)


def load_exit(name: str) -> ExitRecord | None:
    """How the job's root process ended, or None while nobody has recorded it."""
    try:
        return msgspec.json.decode(paths.job_exit(name).read_bytes(), type=ExitRecord)
    except FileNotFoundError:
        return None


def process_start(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def supervisor_alive(record: JobRecord) -> bool:
    """Whether the very supervisor that the record names is alive."""
    if record.supervisor_pid is None:
        return False
    start = process_start(record.supervisor_pid)
    return start is not None and (record.supervisor_start in (None, start))


def state(record: JobRecord) -> JobState:
    """The job's state now. A recorded live state counts only while its supervisor lives."""
    if record.state not in LIVE_STATES:
        return record.state
    ended = load_exit(record.name)
    if ended is not None and ended.checkpointed:
        if time.time() - ended.ended < COMMIT_SECONDS:
            return JobState.CHECKPOINTING
        return JobState.ASLEEP if unrecorded_image(record) else JobState.LOST
    if ended is not None:
        return JobState.KILLED if ended.signal is not None else JobState.EXITED
    if record.supervisor_pid is None and record.state is JobState.STARTING:
        return JobState.STARTING if time.time() - record.created < 60 else JobState.LOST
    return record.state if supervisor_alive(record) else JobState.LOST


def unrecorded_image(record: JobRecord) -> str | None:
    """The image that a checkpoint finished without the record saying so: its keeper died in between."""
    unfinished = record.unfinished
    if unfinished is None or unfinished.verb != "checkpoint" or unfinished.image is None:
        return None
    if unfinished.proof is not None and _is_proven(unfinished.proof, record):
        return unfinished.stored
    return unfinished.image if (Path(unfinished.image) / "manifest.json").is_file() else None


def _is_proven(proof: str, record: JobRecord) -> bool:
    """Whether the image is in its store. Nobody tells CRIU to end a job before it is; without that evidence, one in a
    bucket can only be looked for (the next keeper does)."""
    if Path(proof).is_absolute():
        return Path(proof).is_file()
    ended = load_exit(record.name)
    return ended is not None and ended.checkpointed


def image_moved(old: str, new: str) -> None:
    """Where a job sleeps in the image that was at `old`, say that it is at `new`."""
    for record in every():
        if record.image == old and state(record) is JobState.ASLEEP:
            record.image = new
            with suppress(FileNotFoundError):  # the job has just been removed
                save(record)


def remove_partial(unfinished: Unfinished | None) -> None:
    """Remove what there is of an image that will never be finished."""
    if unfinished is not None and unfinished.verb == "checkpoint" and unfinished.image is not None:
        shutil.rmtree(f"{unfinished.image}.partial", ignore_errors=True)
        for name in unfinished.names:
            Path(name).unlink(missing_ok=True)
