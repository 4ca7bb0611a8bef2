"""A job as its user handles it: state, output, signals, and the verbs that put it to sleep."""

from __future__ import annotations

import os
import shutil
import signal as signals
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from torpor import paths, records
from torpor.errors import TorporError, UsageError, WrongState
from torpor.image_handle import Image, free_image_path, open_image
from torpor.process.loop import is_readable
from torpor.records import LIVE_STATES, JobRecord, JobState
from torpor.writeback import Target, course_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.keeper.messages import Progress
    from torpor.process.client import Attachment

END_SECONDS = 10.0
"""How long a supervisor may take to end what is left of its job."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a suspend or resume did: bytes of GPU memory moved, and the seconds of each step."""

    bytes: int = 0
    phases: dict[str, float] = {}


class Job:
    """One job, by the record it had when it was looked up; `state` and `exit_code` are always fresh."""

    def __init__(self, record: JobRecord) -> None:
        self._record = record

    def __repr__(self) -> str:
        return f"<torpor.Job {self.name}: {self.state}>"

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def record(self) -> JobRecord:
        return self._record

    @property
    def state(self) -> JobState:
        """The job's state now. Raises NotFound when the job has been removed."""
        self._record = records.load(self.name)
        return records.state(self._record)

    @property
    def exit_code(self) -> int | None:
        """As a shell gives it: the program's own, 128 + n after signal n, None while it has not ended."""
        ended = records.load_exit(self.name)
        if ended is None:
            return None
        return 128 + ended.signal if ended.signal is not None else ended.exit_code

    @property
    def image(self) -> Image | None:
        """The image that the job came from or, when asleep, went into; None when there is none any more."""
        self._record = records.load(self.name)
        path = self._record.image
        return open_image(Path(path)) if path and (Path(path) / "manifest.json").is_file() else None

    def describe_state(self) -> str:
        """The state for people: `exited (0)`, `killed (SIGTERM)`, `suspended (hbm)`, else the word alone."""
        state = self.state
        ended = records.load_exit(self.name)
        if state is JobState.EXITED and ended is not None:
            return f"exited ({ended.exit_code})"
        if state is JobState.KILLED and ended is not None and ended.signal is not None:
            return f"killed ({signals.Signals(ended.signal).name})"
        if state is JobState.SUSPENDED:
            return f"suspended ({self._record.suspended_tier})"
        if state is JobState.ASLEEP and self._record.image is not None:
            course = course_of(Path(self._record.image))
            return f"{state} ({course.describe()})" if course is not None else str(state)
        return str(state)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: the record's fields, with the state of now and the exit code."""
        state = self.state
        data: dict[str, Any] = msgspec.to_builtins(self._record)
        return {**data, "state": str(state), "exit_code": self.exit_code}

    def checkpoint(
        self,
        leave_running: bool = False,
        to: str | os.PathLike[str] | None = None,
        tier: Literal["disk", "dram"] | str = "disk",
        deadline: float = 30.0,
        progress: Callable[[Progress], None] | None = None,
        target: Target | None = None,
    ) -> Image:
        """Save the job, running or suspended, into an image and, unless `leave_running`, end it.

        `to` is the folder that the image becomes; by default one is made up among the images of the tier. With
        `tier="disk"` it is durable when this returns. With `tier="dram"` it is whole in memory then; if `to` is a
        folder elsewhere the keeper writes it there afterwards, and `Image.flush` waits for that. (`target` is another
        such place: `Store.begin_checkpoint`.)

        `deadline` is how long the job may take to come to rest, in seconds. Raises WrongState, Refused, NoSpace,
        NoRights, MissingPart, FreezeTimeout, StepFailed; after any of these the job runs on, or is as suspended as it
        was, and no partial image is left.
        """
        path = Path(os.path.abspath(to)) if to is not None else free_image_path(self.name, tier)
        if to is not None:
            records.check_name(path.name)
            if tier == "dram" and not paths.in_dram(path):
                target = Target(name=path.name, path=str(path))
                path = free_image_path(self.name, tier)
        self._ask(
            "checkpoint",
            {
                "job": self.name,
                "name": path.name,
                "path": str(path),
                "tier": tier,
                "target": msgspec.to_builtins(target),
                "leave_running": leave_running,
                "deadline": deadline,
            },
            progress,
        )
        return open_image(path)

    def checkpoint_into(
        self,
        store: str,
        name: str | None = None,
        leave_running: bool = False,
        deadline: float = 30.0,
        progress: Callable[[Progress], None] | None = None,
        env: Mapping[str, str] | None = None,
        key: bytes | None = None,
    ) -> dict[str, Any]:
        """Save the job into an image in the store at `store`; `Store.checkpoint` is for users.

        `name` is the image's; by default the first `<job>-<n>` that is free there, and among this user's images.
        `env` are the variables that open the store (`Store.opening`), `key` is an encrypted one's (`Repository`).

        The image is never a folder: of the GPU's bytes only chunks that the store lacks are moved. Returns what the
        keeper says of it. Errors as for `checkpoint`, and those of the store; the job is then as it was.
        """
        params = {"job": self.name, "store": store, "leave_running": leave_running, "deadline": deadline}
        named = {"name": name or f"{self.name}-1", "or_next": name is None}
        return self._call("checkpoint", {**params, **named, "env": dict(env or {}), "key": key}, progress)

    def suspend(
        self,
        tier: Literal["hbm", "dram"] | str = "dram",
        deadline: float = 30.0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Outcome:
        """Stop the job's GPU work and take its GPU memory; its process stays. Errors as for `checkpoint`.

        `dram` moves the bytes to host memory and frees the GPU's; `hbm` leaves them on the GPU with the keeper.
        """
        return self._ask("suspend", {"job": self.name, "tier": tier, "deadline": deadline}, progress)

    def resume(self, progress: Callable[[Progress], None] | None = None) -> Outcome:
        """Let a suspended job go on where it stood. Raises WrongState, StepFailed."""
        left = self.state is JobState.CHECKPOINTING
        try:
            return self._ask("resume", {"job": self.name}, progress)
        except WrongState:
            # A keeper that was started for this has brought the job back before it was asked.
            if left and self.state is JobState.RUNNING:
                return Outcome()
            raise

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended, sleeps in an image or is lost; False when `timeout` seconds went by first."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.state in LIVE_STATES:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._await_supervisor(left)
        return True

    def attach(self) -> Attachment:
        """The job's streams: output from now on, and input where it has any. Raises WrongState when it has ended."""
        from torpor.process.client import SupervisorClient

        return SupervisorClient(paths.job_dir(self.name)).attach()

    def is_on_terminal(self) -> bool:
        """Whether its input is a terminal, before whoever attaches. Raises WrongState when it has ended."""
        from torpor.process.client import SupervisorClient

        with SupervisorClient(paths.job_dir(self.name)) as supervisor:
            return (supervisor.info().stdio["stdin"] or "").startswith("tty[")

    def kill(self, signal: int = signals.SIGTERM, group: bool = False) -> None:
        """Send a signal to the job's root process, or to its process group. Raises WrongState when it has ended,
        UsageError for what is no signal's number."""
        from torpor.process.client import SupervisorClient

        if not isinstance(signal, int) or not 0 < signal < signals.NSIG:
            raise UsageError(f"{signal!r} is no number of a signal", hint="use one of the module `signal`, as SIGTERM")
        state = self.state
        if state not in LIVE_STATES:
            raise WrongState(f"{self.name} is {state}, there is nothing to send a signal to")
        with SupervisorClient(paths.job_dir(self.name)) as supervisor:
            supervisor.signal(signal, group)

    def logs(self, follow: bool = False) -> Iterator[bytes]:
        """What the job has written to its standard output and error, in pieces; with `follow` until it ends."""
        with paths.job_log(self.name).open("rb") as log:
            while True:
                live = follow and self.state in LIVE_STATES
                while chunk := log.read(1 << 16):
                    yield chunk
                if not live:
                    return
                time.sleep(0.05)

    def remove(self) -> None:
        """Forget a job that has ended or sleeps. Its image stays. Raises WrongState while it lives.

        Processes that the job's first one left behind are ended: without the job nothing could reach them.
        """
        state = self.state
        if state in LIVE_STATES:
            raise WrongState(f"{self.name} is {state}", hint=f"end it first: `torpor kill {self.name}`")
        self._end_what_is_left()
        records.remove_partial(self._record.unfinished)
        folder = paths.job_dir(self.name)
        aside = folder.with_name(f".{self.name}.removed-{os.getpid()}")
        folder.rename(aside)
        shutil.rmtree(aside)

    def let_go(self) -> None:
        """Forget a job that is a process of the host, and leave the process alone. Not while it is being checkpointed.

        A job that is stuck in a checkpoint stays: `resume` is for it. So does one that sleeps, which can be restored.
        """
        if self.state in (JobState.CHECKPOINTING, JobState.SUSPENDED, JobState.ASLEEP):
            return
        self._end_what_is_left()
        shutil.rmtree(paths.job_dir(self.name))

    def _end_what_is_left(self) -> None:
        from torpor.process.client import SupervisorClient

        if not records.supervisor_alive(self._record):
            return
        try:
            with SupervisorClient(paths.job_dir(self.name)) as supervisor:
                supervisor.shutdown()
        except TorporError:
            pass  # it ended by itself in between
        end = time.monotonic() + END_SECONDS
        while records.supervisor_alive(self._record):
            if time.monotonic() > end:
                raise WrongState(f"processes of {self.name} do not end", hint=f"pid {self._record.supervisor_pid}")
            time.sleep(0.01)

    def _ask(self, verb: str, params: dict[str, Any], progress: Callable[[Progress], None] | None) -> Outcome:
        result = self._call(verb, params, progress)
        return Outcome(bytes=int(result.get("gpu_bytes", 0)), phases=dict(result.get("phases", {})))

    def _call(self, verb: str, params: dict[str, Any], progress: Callable[[Progress], None] | None) -> dict[str, Any]:
        from torpor.keeper.client import KeeperClient, ensure_started

        state = self.state
        if state not in LIVE_STATES:
            hint = "`torpor restore` its image first" if state is JobState.ASLEEP else None
            raise WrongState(f"{self.name} is {state}, no {verb} is possible", hint=hint)
        ensure_started(self._record.backend)
        return KeeperClient(self._record.backend).call(verb, params, on_progress=progress)

    def _await_supervisor(self, seconds: float | None) -> None:
        """Wait for the supervisor's end, for `seconds` at most; short turns while there is no supervisor yet."""
        pid = self._record.supervisor_pid
        if pid is None or not records.supervisor_alive(self._record):
            time.sleep(0.02)
            return
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            # The pid may name another process by now, and the job may come to an end by its record alone: look again.
            is_readable(handle, 1.0 if seconds is None else min(seconds, 1.0))
        finally:
            os.close(handle)


@contextmanager
def adopted(pid: int, name: str | None = None, *, leave_running: bool = False) -> Iterator[Job]:
    """A process that Torpor did not start, and its descendants, as a job for the block, which takes a checkpoint of it.

    Raises NotFound when there is no such process, Refused when it cannot be saved. The job is forgotten when the block
    fails, and after it if it is to be left running; else it sleeps from then on.
    """
    from torpor import launch

    job = Job(launch.adopt(pid, name=name, client=os.getpid()))
    try:
        yield job
    except BaseException:
        job.let_go()
        raise
    if leave_running:
        job.let_go()
