"""Resume: a suspended job, or one whose keeper died in the middle of a checkpoint, goes on where it stood."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

from torpor.errors import WrongState
from torpor.keeper import discard, gpu_map, jobs, residual, suspended
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import ResumeParams
from torpor.keeper.moves import CopyIn
from torpor.keeper.report import Report
from torpor.keeper.suspended import Layout
from torpor.keeper.taken import Taken, from_hold, to_return
from torpor.records import JobRecord, JobState


def run(host: Host, params: ResumeParams, report: Report) -> dict[str, Any]:
    """A failure leaves the job suspended, with nothing of its memory lost; it can be tried again."""
    with host.flow("resume", params.job):
        record, state = jobs.load(host, params.job)
        if state not in (JobState.SUSPENDED, JobState.CHECKPOINTING):
            raise WrongState(f"{params.job} is {state}, not suspended")
        in_dram = state is JobState.SUSPENDED and record.suspended_tier == "dram"
        size = _from_dram(host, record, report) if in_dram else _from_hold(host, record, report)
        return {
            "job": params.job,
            "tier": record.suspended_tier,
            "gpu_bytes": size,
            "seconds": report.total(),
            "phases": report.phases,
        }


def _from_hold(host: Host, record: JobRecord, report: Report) -> int:
    """The blocks are still on the GPU, held by the supervisor's descriptors."""
    with report.phase("find processes"):
        job = jobs.open_tree(record)
        job.cuda = jobs.unasked(job)
        with job.supervisor() as supervisor:
            blocks, descriptors = supervisor.fetch()
    with closing(from_hold(job, blocks, descriptors)) as taken:
        residual.bring_back(host, job.cuda, None, report)
        taken.give_back(report)
    _running(job)
    return taken.size


def _from_dram(host: Host, record: JobRecord, report: Report) -> int:
    """The bytes are in pinned segments; the GPU has nothing of them."""
    layout: Layout = suspended.load(record.name)
    folder = suspended.folder(record.name)
    with ExitStack() as stack:
        same = {d.uuid: d.uuid for process in layout.processes for d in process.devices}
        copy = stack.enter_context(closing(CopyIn(host, folder, layout.processes, layout.files, same)))
        gpu_map.check_memory(host.driver, host.backend, copy.bytes_by_gpu())
        with report.phase("find processes"):
            job = jobs.open_away(record, layout.processes)
        copy.start(report)
        residual.bring_back(host, job.cuda, None, report)
        with report.phase("wait for copy"):
            copy.finish()
        taken: Taken = stack.enter_context(closing(to_return(job, layout.processes, copy.export())))
        taken.give_back(report)
    _running(job)
    discard.empty(host.pool, folder)
    return copy.size


def _running(job: OpenJob) -> None:
    job.set_state(JobState.RUNNING, suspended_tier=None)
