"""Suspend: the job's process stays, its GPU memory rests in `hbm` or `dram`, its contexts in its own host memory."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from torpor.errors import NoSpace
from torpor.keeper import describe, discard, heirs, jobs, preflight, residual, suspended
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import SuspendParams
from torpor.keeper.moves import CopyOut, process_entries
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.suspended import Layout
from torpor.keeper.taken import Taken
from torpor.records import JobState, Unfinished


def run(host: Host, params: SuspendParams, report: Report) -> dict[str, Any]:
    """Any failure leaves the job running exactly as it was."""
    with host.flows.begin("suspend", params.job):
        with report.phase("preflight"):
            job = jobs.open_running(host, params.job)
            if job.cuda:
                _ = host.checkpointing  # raises when this driver lacks the calls
            driver = describe.driver_facts(host, job)
            preflight.refuse_unsavable(job)
            if params.tier == "dram":
                _check_space(host, job)

        taken = Taken.of(job)
        with closing(taken), Rollback() as undo:
            job.set_state(JobState.CHECKPOINTING, unfinished=Unfinished(verb="suspend"))
            undo.push("record", lambda: _runs_again(host, job, taken))
            undo.push("hand the blocks back", lambda: residual.give_back(host, taken))
            heirs.relieve_known(job, report)
            taken.take(params.deadline, report)
            copy = None
            with step("make a place"):
                folder = suspended.make(params.job)
            undo.push("remove the copy", lambda: discard.empty(host.pool, folder))
            if params.tier == "dram":
                copy = CopyOut(host, taken, folder, in_memory=True)
                undo.push("stop the copy", copy.stop)
                copy.start(report)
            residual.put_away(host, job.cuda, params.deadline, undo, report)
            heirs.relieve_late(job)
            if copy is not None:
                with report.phase("wait for copy"):
                    copy.finish()
            with report.phase("save the layout"), step("save the layout"):
                processes = copy.describe() if copy is not None else process_entries(host, taken)
                files = sorted(copy.entries.values(), key=lambda entry: entry.path) if copy is not None else []
                suspended.save(params.job, Layout(processes=processes, files=files, driver=driver))
            taken.look_who_is_gone()
            taken.refuse_nobody()
            report.no_return()
            job.set_state(JobState.SUSPENDED, suspended_tier=params.tier)
            undo.done()
            if copy is not None and taken.held:
                # Only now may the memory on the GPU go.
                with report.phase("drop"), step("drop"), job.supervisor() as supervisor:
                    supervisor.drop()
                taken.held = False
            host.flows.settle(job.record, JobState.SUSPENDED)
            taken.look_who_is_gone()
            taken.refuse_nobody()
        return {
            "job": params.job,
            "tier": params.tier,
            "gpu_bytes": taken.size,
            "seconds": report.total(),
            "phases": report.phases,
        }


def _runs_again(host: Host, job: OpenJob, taken: Taken) -> None:
    if taken.given_back:
        host.flows.settle(job.record, JobState.RUNNING)


def _check_space(host: Host, job: OpenJob) -> None:
    gpu_bytes = sum(process.hello.blocks.bytes for process in job.cuda)
    try:
        preflight.check_space(host, host.pool.folder, gpu_bytes, 0)
    except NoSpace as error:
        error.hint = "free host memory, or suspend with --tier hbm"
        raise
