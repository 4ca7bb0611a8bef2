"""Looks at a job again and again while its calls are counted; each look renews the lease on which they are."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from torpor import paths, records
from torpor.driver.utilisation import Utilisation
from torpor.errors import KeeperUnavailable, NotFound, TorporError, UsageError, WrongState
from torpor.job_handle import Job
from torpor.keeper.client import KeeperClient, ensure_started
from torpor.keeper.control import Counted, Level
from torpor.profiling import kernels as timing
from torpor.profiling.plain_file import read_plain
from torpor.profiling.recording import Recording
from torpor.records import LIVE_STATES, JobState

_LONGEST_WORD = 1 << 20
"""Bytes of a process's last word, which is a packet of the control protocol, that are read at most."""

LEASE_SECONDS = 15.0
"""How long a job goes on counting when nobody looks any more: if we are killed, that is when it ends."""

INTERVAL_SECONDS = 0.25

PATIENCE_SECONDS = 5.0
"""How long a look may take before the job is left alone; and one before a signal, until a keeper is there."""

LONG_PATIENCE_SECONDS = 30.0
"""The same for the first look and the last one, without which there is no profile."""


class Sampler:
    """Counts a job's calls from `begin` to `end`, in a thread of its own.

    With `own`, the job is one that was started with `environment()`: it counts from its first call on. So it is with
    `kernels`, which has CUPTI time each kernel, copy and fill; such a job cannot be checkpointed or suspended.
    """

    def __init__(
        self,
        *,
        level: Level = Level.COUNTS,
        interval: float = INTERVAL_SECONDS,
        own: bool = False,
        kernels: bool = False,
    ) -> None:
        self._level = level
        self._interval = interval
        self._own = own or kernels
        self._kernels = kernels
        self._times: timing.KernelTimes | None = None
        self._owner = secrets.randbits(63) | 1
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._begun = time.monotonic()
        self._looked = False
        self._old: set[str] = set()
        self._utilisation: Utilisation | None = None
        self._thread = threading.Thread(target=self._run, name="profile", daemon=True)

    def environment(self) -> dict[str, str]:
        """What a job is to be started with so that it counts from the beginning."""
        return {
            "TORPOR_PROFILE": f"{self._level.name.lower()}:{self._owner}",
            **({records.KERNELS: "on"} if self._kernels else {}),
        }

    def begin(self, job: Job) -> None:
        """Start counting and looking. Raises WrongState, KeeperUnavailable where a running job cannot be counted,
        UsageError for timing kernels of a job that was not started for that."""
        if self._kernels and not records.times_kernels(job.record):
            raise UsageError(
                f"{job.name} was started without timing its kernels", hint="start it with the sampler's environment()"
            )
        self._job = job
        self._times = timing.KernelTimes(paths.job_profile(job.name)) if self._kernels else None
        self.recording = Recording(job.name, self._level.name.lower())
        self._begun = time.monotonic()
        self.recording.mark(0.0)
        if not self._own:
            if job.state not in LIVE_STATES:
                raise WrongState(f"{job.name} is {job.state}", hint="`torpor ps` says what became of it")
            ensure_started(job.record.backend)
            self._old = {path.name for path in self._words()}
            self._look(self._level, LONG_PATIENCE_SECONDS, strict=True)
        self._thread.start()

    def look_now(self) -> None:
        """One more look at once, for when the job is about to end; a failure does not matter."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._look(Level.AS_IT_IS)
            except KeeperUnavailable:
                if time.monotonic() > end:
                    return None
                time.sleep(0.02)
            except TorporError:
                return None

    @property
    def lives(self) -> bool:
        """Whether the job is there and has not ended."""
        return self._state() in LIVE_STATES

    def end(self) -> Recording:
        """Count no more, and return what was seen, also after a `begin` that was interrupted."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._job.exit_code is None or self._state() is JobState.ASLEEP:  # which may go on counting when it wakes
            try:
                self._look(Level.OFF, LONG_PATIENCE_SECONDS)
            except TorporError as error:
                if self.lives:
                    self.recording.notes.append(f"the last look failed: {error.message}")
        self.recording.seconds = time.monotonic() - self._begun
        for path in self._words():
            if path.name not in self._old:
                self._hear(path)
        self._see_gpus([])
        live = [process for process in self.recording.processes if not process.ended]
        over = not self.lives
        if over:
            for process in live:
                process.whole = False
        self.recording.mark(self.recording.seconds, last=True)
        if self._times is not None:
            self._times.settle(self.recording, self._begun, over=over)
            if over:
                self._times.remove()
        return self.recording

    def _state(self) -> JobState | None:
        """None when it has been removed; what was seen of it until then is still worth telling."""
        try:
            return self._job.state
        except NotFound:
            return None

    def _run(self) -> None:
        missing = 0.0
        while not self._stop.wait(self._interval):
            try:
                self._look(self._level)
                missing = 0.0
            except KeeperUnavailable:
                # It is on its way; or it is gone, and without one the lease would end.
                missing += self._interval
                if missing > PATIENCE_SECONDS:
                    with suppress(TorporError):
                        ensure_started(self._job.record.backend)
            except NotFound:
                return
            except WrongState:
                if self._job.exit_code is not None:
                    return
            except TorporError as error:
                if error.message not in self.recording.notes:
                    self.recording.notes.append(error.message)

    def _look(self, level: Level, patience: float = PATIENCE_SECONDS, *, strict: bool = False) -> None:
        with self._lock:
            found = KeeperClient(self._job.record.backend).call(
                "profile",
                {
                    "job": self._job.name,
                    "level": int(level),
                    "lease": LEASE_SECONDS,
                    "owner": self._owner,
                    "patience": patience,
                },
            )
            silent = dict(found["silent"])
            if strict and silent:
                raise WrongState(
                    f"process {next(iter(silent))} of {self._job.name}: {next(iter(silent.values()))}",
                    hint="one profile of a job at a time; a lease that nobody renews ends by itself",
                )
            for pid, message in silent.items():
                note = f"process {pid}: {message}"
                if note not in self.recording.notes:
                    self.recording.notes.append(note)
            counted = msgspec.convert(found["processes"], list[Counted])
            first = not self._looked and not self._own
            self._looked = self._looked or bool(counted)
            self.recording.see(counted, first)
            self._see_gpus(counted)
            if self._times is not None:
                self._times.look()
            self.recording.mark(time.monotonic() - self._begun)

    def _see_gpus(self, counted: list[Counted]) -> None:
        recording = self.recording
        if recording.ask_the_driver() or self._job.record.backend != "gpu":
            return
        seen = sorted({device.uuid for one in counted for device in one.devices})
        if seen and self._utilisation is None:
            self._utilisation = Utilisation(seen)
            recording.source = self._utilisation.source
        if self._utilisation is not None:
            for uuid, seconds in self._utilisation.busy().items():
                recording.busy[uuid] = recording.busy.get(uuid, 0.0) + seconds

    def _words(self) -> list[Path]:
        folder = paths.job_profile(self._job.name)
        found = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return [path for path in found if not path.name.endswith(timing.SUFFIX)]

    def _hear(self, path: Path) -> None:
        try:
            word = msgspec.json.decode(read_plain(path, _LONGEST_WORD), type=Counted)
            path.unlink()
        except (OSError, msgspec.DecodeError) as error:
            self.recording.notes.append(f"{path.name} cannot be read: {error}")
            return
        self.recording.hear(word)
