"""What a keeper does first: whatever a flow of a dead keeper left half done is brought to an end.

There is one keeper per home and driver, so a record that has an `unfinished` flow when a keeper starts belongs to one
that died. docs/design/faults.md says what becomes of each.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from torpor import paths, records
from torpor.driver import ProcessState
from torpor.errors import TorporError, WrongState
from torpor.keeper import depositing, jobs, restore, resume
from torpor.keeper.control import ControlClient
from torpor.keeper.host import Host
from torpor.keeper.report import Report
from torpor.records import JobRecord, JobState, Unfinished

log = logging.getLogger(__name__)


def run(host: Host) -> None:
    """Recover every job of this keeper's driver. One that cannot be recovered stays as it is, and the log says why."""
    for record in records.every():
        if record.backend != host.backend:
            continue
        if record.unfinished is None and not _left_in_checkpoint(record):
            depositing.forget(record.name)  # a keeper that died here had come so far
            continue
        try:
            with host.flows.begin("recovery", record.name):
                outcome = _recover(host, records.load(record.name))
        except Exception as error:  # the others must be looked after all the same
            log.exception("recovery of %s", record.name)
            outcome = f"failed: {error}"
        log.info("recovery of %s: %s", record.name, outcome)
    _bring_back_asides()


def _left_in_checkpoint(record: JobRecord) -> bool:
    return records.state(record) is JobState.CHECKPOINTING


def _recover(host: Host, record: JobRecord) -> str:
    unfinished = record.unfinished or Unfinished(verb="checkpoint")
    if unfinished.verb == "restore":
        return _after_restore(host, record, unfinished)
    outcome = _after_flow(host, record, unfinished)
    depositing.forget(record.name)
    return outcome


def _after_flow(host: Host, record: JobRecord, unfinished: Unfinished) -> str:
    if _lives(record):
        if record.state is JobState.SUSPENDED and unfinished.verb in ("suspend", "checkpoint"):
            if unfinished.verb == "suspend" and record.suspended_tier == "dram":
                resume.drop_hold(record)  # all that was left to do
            records.remove_partial(unfinished)
            outcome = "it is suspended"
        else:
            resume.bring_back(host, record, Report())
            return "it runs on"
    elif image := records.unrecorded_image(record) or _in_bucket(record, unfinished):
        record.state, record.image = JobState.ASLEEP, image
        outcome = f"it sleeps in {image}"
        records.remove_partial(unfinished)
    else:
        outcome = "it has ended"
        records.remove_partial(unfinished)
    host.flows.settle(record, record.state)
    return outcome


def _in_bucket(record: JobRecord, unfinished: Unfinished) -> str | None:
    """The image of a job that ended by itself, perhaps with its host, when that may have been in the store already."""
    if unfinished.stored is None or unfinished.proof is None or Path(unfinished.proof).is_absolute():
        return None
    return unfinished.stored if depositing.is_there(record.name, unfinished.stored, unfinished.proof) else None


def _lives(record: JobRecord) -> bool:
    """Whether the job is still there, once a CRIU whose keeper died has let it go or ended it."""
    if not records.supervisor_alive(record) or records.load_exit(record.name) is not None:
        return False
    try:
        jobs.await_criu(paths.job_dir(record.name))
    except WrongState:
        return False  # CRIU had been told to end it
    return records.load_exit(record.name) is None


def _after_restore(host: Host, record: JobRecord, unfinished: Unfinished) -> str:
    if _runs(host, record):
        host.flows.settle(record, JobState.RUNNING)
        if unfinished.aside is not None:
            shutil.rmtree(unfinished.aside, ignore_errors=True)
        return "it had been restored"
    jobs.end(record)
    shutil.rmtree(paths.job_dir(record.name))
    return "what there was of its restore has been removed"


def _runs(host: Host, record: JobRecord) -> bool:
    """Whether everything of a restored job is at work: nothing but its record was left to do."""
    try:
        job = jobs.open_tree(record, to_save=False)
        processes = jobs.unasked(host, job)
        if any(host.checkpointing.state(one.host_pid) is not ProcessState.RUNNING for one in processes):
            return False
        for process in processes:
            with ControlClient(job.control_dir, process.pid, is_it=process.is_it) as control:
                if control.hello().state != "running":
                    return False
    except TorporError:
        return False
    return True


def _bring_back_asides() -> None:
    """A sleeping job's folder that made room for its restore takes its place again, unless the restored job has it."""
    folder = paths.jobs_dir()
    for aside in sorted(folder.glob(f".*{restore.ASIDE}*")) if folder.is_dir() else []:
        name = aside.name[1:].rpartition(restore.ASIDE)[0]
        if paths.job_record(name).is_file():
            shutil.rmtree(aside, ignore_errors=True)
            continue
        shutil.rmtree(paths.job_dir(name), ignore_errors=True)
        aside.rename(paths.job_dir(name))
        log.info("recovery of %s: it sleeps as before", name)
