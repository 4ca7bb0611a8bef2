"""Resume: a suspended job, or one whose keeper died in the middle of a checkpoint, goes on where it stood."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

from torpor import paths, records
from torpor.errors import WrongState
from torpor.image.manifest import ProcessEntry
from torpor.keeper import discard, gpu_map, jobs, residual, suspended
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import ResumeParams
from torpor.keeper.moves import CopyIn
from torpor.keeper.report import Report
from torpor.keeper.segments import Filler
from torpor.keeper.suspended import Layout
from torpor.keeper.taken import Taken, from_hold, to_return
from torpor.process.client import SupervisorClient
from torpor.records import JobRecord, JobState, Unfinished


def run(host: Host, params: ResumeParams, report: Report) -> dict[str, Any]:
    """A failure leaves the job suspended, with nothing of its memory lost; it can be tried again."""
    with host.flows.begin("resume", params.job):
        record, state = jobs.load(host, params.job)
        if state not in (JobState.SUSPENDED, JobState.CHECKPOINTING):
            raise WrongState(f"{params.job} is {state}, not suspended")
        record.unfinished = record.unfinished or Unfinished(verb="resume")
        records.save(record)
        try:
            size = bring_back(host, record, report)
        except BaseException:
            # It stays suspended. What another flow left is still left.
            if record.unfinished is not None and record.unfinished.verb == "resume":
                host.flows.settle(record, record.state)
            raise
        return {
            "job": params.job,
            "tier": record.suspended_tier,
            "gpu_bytes": size,
            "seconds": report.total(),
            "phases": report.phases,
        }


def bring_back(host: Host, record: JobRecord, report: Report) -> int:
    """The same for a record that is known, inside a flow of the caller's; returns the bytes of GPU memory."""
    jobs.await_criu(paths.job_dir(record.name))
    in_dram = record.state is JobState.SUSPENDED and record.suspended_tier == "dram"
    return _from_dram(host, record, report) if in_dram else _from_hold(host, record, report)


def drop_hold(record: JobRecord) -> None:
    """Let the memory go that a job suspended in `dram` still has on its GPU."""
    with SupervisorClient(paths.job_dir(record.name)) as supervisor:
        supervisor.drop()


def _from_hold(host: Host, record: JobRecord, report: Report) -> int:
    """The blocks are still on the GPU, held by the supervisor's descriptors."""
    with report.phase("find processes"):
        job = jobs.open_tree(record, to_save=False)
        job.cuda = jobs.unasked(host, job)
        with job.supervisor() as supervisor:
            blocks, descriptors = supervisor.fetch()
    report.no_return()
    with closing(from_hold(job, blocks, descriptors)) as taken:
        residual.bring_back(host, job.cuda, None, report)
        taken.give_back(report)
    _running(host, job)
    if suspended.folder(record.name).is_dir():
        discard.empty(host.pool, suspended.folder(record.name))
    taken.refuse_nobody()  # they may well have ended since
    return taken.size


def _from_dram(host: Host, record: JobRecord, report: Report) -> int:
    """The bytes are in pinned segments; the GPU has nothing of them."""
    layout: Layout = suspended.load(record.name)
    folder = suspended.folder(record.name)
    drop_hold(record)
    processes = _living(record, layout.processes)
    with ExitStack() as stack:
        same = {d.uuid: d.uuid for process in processes for d in process.devices}
        filler = Filler(host.driver, host.pool, folder, {entry.path: entry for entry in layout.files})
        copy = stack.enter_context(closing(CopyIn(host, filler, processes, same)))
        gpu_map.check_memory(host.driver, host.backend, copy.bytes_by_gpu())
        with report.phase("find processes"):
            job = jobs.open_away(record, processes, to_save=False)
        copy.start(report)
        report.no_return()
        residual.bring_back(host, job.cuda, None, report)
        with report.phase("wait for copy"):
            copy.finish()
        taken: Taken = stack.enter_context(closing(to_return(job, processes, copy.export())))
        taken.give_back(report)
    _running(host, job)
    discard.empty(host.pool, folder)
    taken.refuse_nobody()
    return copy.size


def _living(record: JobRecord, processes: list[ProcessEntry]) -> list[ProcessEntry]:
    """Without those that were killed meanwhile, as long as no other has a part in their memory."""
    here = {process.pid for process in jobs.open_tree(record, to_save=False).processes}
    living = [process for process in processes if process.pid in here]
    owners = {block.owner[0] for process in living for block in process.shared}
    return living if owners <= here else processes


def _running(host: Host, job: OpenJob) -> None:
    records.remove_partial(job.record.unfinished)
    host.flows.settle(job.record, JobState.RUNNING, suspended_tier=None)
