"""Where a row of the fault matrix is played: a home with a job that counts, an old image of it, and a keeper."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import REPOSITORY, Cli, end_everything, eventually, start_keeper
from tests.faults import criu
from tests.flow import walking
from torpor import api, errors, paths
from torpor.process.client import SupervisorClient
from torpor.process.criu import find_criu
from torpor.records import LIVE_STATES, JobState

COUNT = REPOSITORY / "examples" / "count.py"
PAIR = Path(__file__).with_name("pair.py")
PAGES = 6
"""MiB of the trail that the counter checks: it wraps around after as many ticks."""

TICKS = PAGES + 2
SETTLE_SECONDS = 100.0


class Lost(AssertionError):
    """What no row may come to."""


class Scene:
    """One home. Rows that leave the job alive share it; `renew` starts over where one does not."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
        self.dram = Path(tempfile.mkdtemp(prefix="tf-", dir="/dev/shm"))
        self.place = self.home / "place"
        self.place.mkdir()
        self.torpor = Cli()
        self._before = {name: os.environ.get(name) for name in _VARIABLES}
        real = find_criu().argv
        os.environ.update(
            TORPOR_HOME=str(self.home),
            TORPOR_DRAM=str(self.dram),
            TORPOR_GPU="sim",
            TORPOR_SIM_DIR=str(self.home),
            TORPOR_POOL="192M",
            TORPOR_CRIU=str(criu.install(self.home, real)),
        )
        self.job: api.Job
        self.old: api.Image
        self._number = 0
        self._job_fault: str | None = None
        self._is_good = True

    def close(self) -> None:
        self.gate.touch()
        eventually(lambda: not (api.keeper_status("sim") or {}).get("busy"))
        end_everything(self.home)
        shutil.rmtree(self.home)
        shutil.rmtree(self.dram)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    @property
    def gate(self) -> Path:
        return self.home / "gate"

    def prepare(self, tier: str, job_fault: str | None = None, pair: bool = False) -> None:
        """A running job with an old image of this tier; the one that is there where it still serves.

        With `pair` it is one of two processes, and the fault is the second's.
        """
        self.gate.unlink(missing_ok=True)
        alive = hasattr(self, "job") and job_fault is None and self._job_fault is None
        if alive and self.job.state is JobState.RUNNING and self.old.manifest.tier == tier:
            return
        self._forget()
        if not self._is_good:
            self.keeper({})  # a fault of the last row's that stays is none of this one's
        self._number += 1
        env = {"TORPOR_SIM_FAULT": job_fault} if job_fault else {}
        argv = [sys.executable, str(COUNT), "--mib", str(PAGES), "--delay", "0.005"]
        if pair:
            argv = [sys.executable, str(PAIR), str(PAGES)]
        self._job_fault = job_fault
        if job_fault is not None:
            # Its old image is that of one without the fault: taking it would strike already.
            api.run(argv, name=f"elder{self._number}", gpu="sim")
            elder = api.job(f"elder{self._number}")
            self._runs_on(elder)
            self.old = elder.checkpoint(tier=tier, to=self._old_path(tier))
            elder.remove()
        self.job = api.run(argv, name=f"count{self._number}", gpu="sim", env=env)
        self._runs_on(self.job)
        if job_fault is None:
            self.old = self.job.checkpoint(leave_running=True, tier=tier, to=self._old_path(tier))

    def _old_path(self, tier: str) -> Path:
        path = paths.tier_dir(tier) / "old"
        if path.exists():
            api.open_image(path).remove()
        return path

    def _forget(self) -> None:
        for job in api.jobs():
            if job.state in LIVE_STATES:
                with SupervisorClient(paths.job_dir(job.name)) as supervisor:
                    supervisor.end()
            eventually(lambda job=job: job.state not in LIVE_STATES)
            job.remove()
        for image in api.images():
            image.remove()

    def keeper(self, env: Mapping[str, str], prefix: tuple[str, ...] = ()) -> None:
        """A fresh keeper with this in its environment, its driver and pool ready."""
        start_keeper(self.home, env, prefix)
        self._is_good = not env
        eventually(lambda: (api.keeper_status("sim") or {}).get("ready"))

    # What is found afterwards.

    def judge(self, job: api.Job, before: dict[str, object]) -> str:
        """How the job stands, shown by making it run to its next ticks with all its memory; Lost otherwise."""
        api.recover()
        eventually(self.settled, seconds=SETTLE_SECONDS)
        self.old.verify()
        state = job.state
        if state is JobState.RUNNING and self._runs_on(job, must=False):
            outcome = "runs on"
        elif state in (JobState.SUSPENDED, JobState.CHECKPOINTING):
            self.keeper({})
            try:
                job.resume()
                self._runs_on(job)
                outcome = "suspended"
            except (errors.StepFailed, errors.NoSpace):
                # The driver has lost the job for good: what `torpor kill` is for.
                with SupervisorClient(paths.job_dir(job.name)) as supervisor:
                    supervisor.end()
                outcome = self._restores()
            except errors.WrongState:
                if job.state is not JobState.KILLED:
                    raise
                outcome = self._restores()  # its end had not been told yet
        elif state is JobState.ASLEEP:
            image = job.image or self._stored(job)
            if image is None:
                raise Lost(f"{job.name} is asleep without an image")
            image.verify()
            self._wake(image)
            outcome = "asleep"
        else:
            outcome = self._restores()
        self._nothing_left(before)
        return outcome

    def settled(self) -> bool:
        """Whether a keeper is there and has nothing more to do."""
        try:
            status = api.keeper_status("sim")
            return bool(status and status["ready"] and status["recovered"] and not status["busy"])
        except errors.KeeperUnavailable:
            return False

    def _restores(self) -> str:
        self._wake(self.old)
        return "restores"

    def _stored(self, job: api.Job) -> api.ImageInStore | None:
        """Its image, where that is in a store."""
        name = job.record.image or ""
        found = api.find(name) if "@" in name else None
        return None if isinstance(found, api.Image) else found

    def _wake(self, image: api.Image | api.ImageInStore) -> None:
        """Restore an image as another job, see it run on, and end it."""
        copy = api.restore(image, name="copy")
        self._runs_on(copy)
        self.end_job(copy)

    def end_job(self, job: api.Job) -> None:
        with SupervisorClient(paths.job_dir(job.name)) as supervisor:
            supervisor.end()
        eventually(lambda: job.state not in LIVE_STATES)
        job.remove()

    def _runs_on(self, job: api.Job, must: bool = True) -> bool:
        """Whether the job counts on by as many ticks as check every page, one after the other."""
        start = len(self._ticks(job))
        end = time.monotonic() + SETTLE_SECONDS / 2
        while len(self._ticks(job)) < start + TICKS and time.monotonic() < end and job.state is JobState.RUNNING:
            time.sleep(0.005)
        ticks = self._ticks(job)
        good = len(ticks) >= start + TICKS and ticks == list(range(1, len(ticks) + 1))
        if must and not good:
            log = b"".join(job.logs()).decode()[-300:]
            raise Lost(f"{job.name} is {job.state} and does not count on from {ticks[start - 1 : start]}: {log}")
        return good

    def _ticks(self, job: api.Job) -> list[int]:
        return [int(n) for n in re.findall(rb"^count (\d+)$", b"".join(job.logs()), re.MULTILINE)]

    def _nothing_left(self, before: dict[str, object]) -> None:
        """No process, mount, partial image, held descriptor or segment more than the job's own."""

        def left() -> dict[str, object]:
            alive = [one for one in api.jobs() if one.state in LIVE_STATES]
            held = 0
            known: set[int] = set()
            for one in alive:
                with SupervisorClient(paths.job_dir(one.name)) as supervisor:
                    held += supervisor.info().held if one.state is JobState.RUNNING else 0
                known |= _tree(one.record.supervisor_pid or 0)
            found = {
                "processes": walking.processes_of(self.home) - known,
                "partial": [*self.home.rglob("*.partial"), *self.dram.rglob("*.partial")],
                "aside": list((self.home / "jobs").glob(".*")),
                "held": held,
                "suspended": [
                    folder.name
                    for folder in (self.dram / ".jobs").glob("*/*")
                    if api.job(folder.name).state is not JobState.SUSPENDED
                ],
                "mounts": walking.traces(self.home)["mounts"] != before["mounts"],
            }
            return {what: value for what, value in found.items() if value}

        def still() -> dict[str, object]:
            try:
                return left()
            except (FileNotFoundError, errors.NotFound) as error:  # what vanishes while we look is on its way out
                return {"vanishing": error}

        try:
            eventually(lambda: not still(), seconds=SETTLE_SECONDS / 2)
        except AssertionError:
            raise Lost(f"left behind: {left()}") from None


_VARIABLES = ("TORPOR_HOME", "TORPOR_DRAM", "TORPOR_GPU", "TORPOR_SIM_DIR", "TORPOR_POOL", "TORPOR_CRIU")


def _tree(pid: int) -> set[int]:
    found, pending = set(), [pid]
    while pending:
        one = pending.pop()
        found.add(one)
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                pending += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found
