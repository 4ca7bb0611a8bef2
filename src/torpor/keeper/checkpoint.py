"""Checkpoint, in order (DESIGN.md): a job into an image; the job ends, or stays as it is."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from torpor import records
from torpor.errors import TorporError
from torpor.keeper import (
    checkpoint_suspended,
    depositing,
    describe,
    dumping,
    heirs,
    jobs,
    preflight,
    residual,
    resume,
)
from torpor.keeper.dumping import Saving
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import CheckpointParams
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.taken import Taken
from torpor.process.criu import Dump
from torpor.process.page_workers import PageWorkers
from torpor.records import JobState, Unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import Deposit

log = logging.getLogger(__name__)


def run(host: Host, params: CheckpointParams, report: Report) -> dict[str, Any]:
    """Any failure before the commit leaves the job exactly as it was, running or suspended, and no image."""
    places = [params.path] if params.store is None else []  # in a store nobody else can have the name
    with ExitStack() as stack:
        stack.callback(host.writeback.wake)  # last of all, and after a failure too: there may be an image
        stack.enter_context(host.flows.begin("checkpoint", params.job, *places))
        _record, state = jobs.load_to_save(host, params.job)
        deposit = None
        if params.store is not None:
            report.store_only(True)
            with report.phase("open store"):
                deposit, params.name = stack.enter_context(depositing.opened(params, params.store))
            report.store_only(False)
            report.when_cancelled(deposit.give_up)
            stack.callback(report.store_only, True)  # the job is as it shall be, and the store is left
        if state is JobState.SUSPENDED:
            return checkpoint_suspended.run(host, params, deposit, report)
        return _run(host, params, deposit, report)


def _run(host: Host, params: CheckpointParams, deposit: Deposit | None, report: Report) -> dict[str, Any]:
    with report.phase("preflight"):
        job = jobs.open_running(host, params.job)
        saving = _preflight(host, job, params, deposit)

    taken = Taken.of(job)
    with PageWorkers() as workers, closing(taken), Dump(job.folder, saving.criu) as dump, Rollback() as undo:
        job.set_state(JobState.CHECKPOINTING, unfinished=Unfinished(verb="checkpoint", image=str(saving.path)))
        undo.push("record", lambda: _runs_again(host, job, taken))
        undo.push("hand the blocks back", lambda: residual.give_back(host, taken))
        heirs.relieve_known(job, report)
        taken.take(params.deadline, report)

        image = saving.make_image(undo, report)
        copy = saving.copy_of(taken, image)
        undo.push("stop the copy", copy.stop)
        copy.start(report)
        residual.put_away(host, job.cuda, params.deadline, undo, report)
        heirs.relieve_late(job)
        manifest = saving.write(image, copy, dump, workers, undo, report)

        try:
            with report.phase("criu end"), step("criu end"):
                dump.commit()
                dump.finish()
            if params.leave_running:
                residual.bring_back(host, job.cuda, None, report)
                taken.give_back(report)
                saving.clear()
                host.flows.settle(job.record, JobState.RUNNING)
        except TorporError as error:
            taken.close()  # a connection that is left open would keep the next one waiting
            _after_commit(host, saving, dump, error)
            raise
    if not params.leave_running:
        saving.clear()
        # Last of all: who sees it asleep may wake it at once.
        host.flows.settle(job.record, JobState.ASLEEP, image=saving.place)
    return dumping.outcome(saving, manifest, copy, report)


def _preflight(host: Host, job: OpenJob, params: CheckpointParams, deposit: Deposit | None) -> Saving:
    cpu_bytes = preflight.cpu_estimate(host, job)
    if deposit is not None:  # such memory goes into a store from where it is
        cpu_bytes = max(0, cpu_bytes - sum(process.hello.pinned.bytes for process in job.cuda))
    path = Path(params.path) if deposit is None else depositing.staging(params.job, cpu_bytes)
    criu, place = dumping.preflight_of(host, job, path, params.target)
    gpu_bytes = sum(process.hello.blocks.bytes for process in job.cuda) if deposit is None else 0
    preflight.check_space(host, place, gpu_bytes, cpu_bytes)
    driver = describe.driver_facts(host, job)
    in_memory = preflight.in_memory(host, place)
    return Saving(host, job, path, criu, driver, in_memory, params.leave_running, params.name, deposit, params.target)


def _runs_again(host: Host, job: OpenJob, taken: Taken) -> None:
    """Not while the job lacks its blocks. A partial image that could not be removed stays on record, for the next
    keeper to try."""
    if not taken.given_back:
        return
    unfinished = job.record.unfinished
    gone = unfinished is None or not Path(f"{unfinished.image}.partial").exists()
    host.flows.settle(job.record, JobState.RUNNING, unfinished=None if gone else unfinished)


def _after_commit(host: Host, saving: Saving, dump: Dump, error: TorporError) -> None:
    """The image stands, but the job was neither ended nor let go as it should: let it go on, if it lives."""
    job, path = saving.job, saving.place
    saving.clear()
    if dump.has_ended_job or records.load_exit(job.record.name) is not None:
        error.message += f"; the image {path} is complete, and the job sleeps in it"
        error.args = (error.message,)
        host.flows.settle(job.record, JobState.ASLEEP, image=path)
        return
    error.message += f"; the image {path} is complete"
    dump.close()
    try:
        jobs.await_criu(job.folder)
        resume.bring_back(host, job.record, Report())
    except TorporError as problem:
        log.exception("after the commit of %s", path)
        error.message += f", and the job did not come back: {problem.message}"
        error.hint = f"`torpor resume {job.record.name}` tries again; the image can be restored in any case"
    else:
        error.message += ", and the job runs on"
    error.args = (error.message,)
