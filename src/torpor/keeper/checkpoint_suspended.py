"""A suspended job into an image: its GPU part is away already, so only bytes at rest and a still process are saved.

The record goes on saying `suspended` until the commit, and a failure changes nothing: whoever comes next, this keeper
or another, finds the job as suspended as before. With `leave_running` it also stays so afterwards.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from torpor import records
from torpor.errors import TorporError, WrongState
from torpor.keeper import depositing, discard, dumping, jobs, preflight, suspended
from torpor.keeper.carry import Carry
from torpor.keeper.dumping import Saving
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import CheckpointParams
from torpor.keeper.moves import Bytes
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.suspended import Layout
from torpor.keeper.taken import Taken, from_hold
from torpor.process.criu import Dump
from torpor.process.page_workers import PageWorkers
from torpor.records import JobState, Unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import Deposit


def run(host: Host, params: CheckpointParams, deposit: Deposit | None, report: Report) -> dict[str, Any]:
    """Inside the caller's flow; any failure before the commit leaves the job suspended as it was, and no image."""
    with report.phase("preflight"):
        record, _state = jobs.load(host, params.job)
        layout = suspended.load(params.job)
        job = jobs.open_suspended(record, layout.processes)
        saving = _preflight(host, job, layout, params, deposit)

    with ExitStack() as stack:
        workers = stack.enter_context(PageWorkers())
        dump = stack.enter_context(Dump(job.folder, saving.criu))
        undo = stack.enter_context(Rollback())
        job.set_state(JobState.SUSPENDED, unfinished=Unfinished(verb="checkpoint", image=str(saving.path)))
        undo.push("record", lambda: _stays(host, job))
        image = saving.make_image(undo, report)
        data: Bytes
        if record.suspended_tier == "dram":
            data = Carry(host.pool, layout, suspended.folder(params.job), image.partial, in_memory=saving.in_memory)
        else:
            taken = stack.enter_context(closing(_held(job, report)))
            data = saving.copy_of(taken, image)
        undo.push("stop the copy", data.stop)
        data.start(report)
        manifest = saving.write(image, data, dump, workers, undo, report)
        try:
            with report.phase("criu end"), step("criu end"):
                dump.commit()
                dump.finish()
            if params.leave_running:
                saving.clear()
                host.flows.settle(job.record, JobState.SUSPENDED)
        except TorporError as error:
            _after_commit(host, saving, dump, error)
            raise
    if not params.leave_running:
        saving.clear()
        discard.empty(host.pool, suspended.folder(params.job))
        # Last of all: who sees it asleep may wake it at once.
        _sleeps(host, job, saving.place)
    return dumping.outcome(saving, manifest, data, report)


def _preflight(host: Host, job: OpenJob, layout: Layout, params: CheckpointParams, deposit: Deposit | None) -> Saving:
    cpu_bytes = sum(process.memory() for process in job.processes)
    path = Path(params.path) if deposit is None else depositing.staging(params.job, cpu_bytes)
    criu, place = dumping.preflight_of(host, job, path, params.target)
    in_memory = preflight.in_memory(host, place)
    # Bytes that are in memory already become the image's as they are.
    in_dram = job.record.suspended_tier == "dram"
    to_come = not in_memory if in_dram else deposit is None
    gpu_bytes = sum(process.hello.blocks.bytes for process in job.cuda) if to_come else 0
    preflight.check_space(host, place, gpu_bytes, cpu_bytes)
    return Saving(
        host, job, path, criu, layout.driver, in_memory, params.leave_running, params.name, deposit, params.target
    )


def _held(job: OpenJob, report: Report) -> Taken:
    with report.phase("fetch"), step("fetch"):
        with job.supervisor() as supervisor:
            blocks, descriptors = supervisor.fetch()
        taken = from_hold(job, blocks, descriptors)
        for part in taken.parts:
            wanted = part.process.hello.blocks.count
            if sum(block.owner is None for block in part.blocks) != wanted:
                taken.close()
                raise WrongState(
                    f"not all {wanted} blocks of process {part.pid} are held any more",
                    hint="the job has ended, or another keeper has resumed it",
                )
        return taken


def _stays(host: Host, job: OpenJob) -> None:
    """As before; a partial image that could not be removed stays on record, for the next keeper to try."""
    unfinished = job.record.unfinished
    gone = unfinished is None or not Path(f"{unfinished.image}.partial").exists()
    host.flows.settle(job.record, JobState.SUSPENDED, unfinished=None if gone else unfinished)


def _sleeps(host: Host, job: OpenJob, image: str) -> None:
    host.flows.settle(job.record, JobState.ASLEEP, image=image, suspended_tier=None)


def _after_commit(host: Host, saving: Saving, dump: Dump, error: TorporError) -> None:
    """The image stands, but CRIU did not do its part: the job sleeps where it was ended, else it stays suspended."""
    job, path = saving.job, saving.place
    saving.clear()
    dump.close()
    try:
        jobs.await_criu(job.folder)
    except WrongState:
        pass  # it has ended
    if dump.has_ended_job or records.load_exit(job.record.name) is not None:
        _sleeps(host, job, path)
        fate = "the job sleeps in it"
    else:
        host.flows.settle(job.record, JobState.SUSPENDED)
        fate = "the job is still suspended"
    error.message += f"; the image {path} is complete, and {fate}"
    error.args = (error.message,)
