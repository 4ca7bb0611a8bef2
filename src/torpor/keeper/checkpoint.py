"""Checkpoint, in order (DESIGN.md): a job into an image; the job ends, or runs on."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

from torpor.errors import NoRights
from torpor.image.writer import ImageWriter
from torpor.keeper import describe, discard, jobs, preflight, residual
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.messages import CheckpointParams
from torpor.keeper.moves import CopyOut
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.taken import Taken
from torpor.process import zero_pages
from torpor.process.client import Info
from torpor.process.criu import Criu, Dump, find_criu
from torpor.records import JobState

log = logging.getLogger(__name__)

DUMP_SECONDS = 600.0
"""Longest wait for CRIU to write the process images."""


def run(host: Host, params: CheckpointParams, report: Report) -> dict[str, Any]:
    """Any failure before the commit leaves the job running exactly as it was, and no image."""
    path = Path(params.path)
    with host.flow("checkpoint", params.job, params.path):
        with report.phase("preflight"):
            job = jobs.open_running(host, params.job)
            criu, in_memory = _preflight(host, job, path)
            driver = describe.driver_facts(host, job)

        taken = Taken.of(job)
        with closing(taken), Dump(job.folder, criu) as dump, Rollback() as undo:
            job.set_state(JobState.CHECKPOINTING)
            undo.push("record", lambda: job.set_state(JobState.RUNNING))
            undo.push("hand the blocks back", taken.give_back)
            taken.take(params.deadline, report)

            with step("image"):
                image = ImageWriter(path, "dram" if in_memory else "disk")
            undo.push("remove the image", lambda: discard.empty(host.pool, image.partial))
            copy = CopyOut(host, taken, image.partial, in_memory=in_memory)
            undo.push("stop the copy", copy.stop)
            copy.start(report)
            residual.put_away(host, job.cuda, params.deadline, undo, report)

            with report.phase("criu dump"), step("criu dump"):
                dump.start(image.cpu, leave_running=params.leave_running)
                undo.push("criu", lambda: _roll_back(dump))
                image.add_native(job.folder / "native")
                dump.wait_written(DUMP_SECONDS)
            if not in_memory:  # in memory, the time that it takes is worth more than the space that it saves
                with report.phase("drop zero pages"), step("drop zero pages"):
                    zero_pages.drop(image.cpu)
            with report.phase("wait for copy"):
                copy.finish()

            # Everything of the job is written, and it stands still in CRIU's hands until the verdict.
            with report.phase("commit"), step("commit"):
                job.info = _settled(job)
                image.add_log(job.folder / "log")
                files = image.list_files(copy.entries)
                image.sync()
                processes = copy.describe()
                manifest = describe.manifest(job, image, processes, files, driver, report.phases, criu)
                image.commit(manifest)
            undo.done()

            with report.phase("criu end"), step("criu end"):
                dump.commit()
                dump.finish()
            if params.leave_running:
                residual.bring_back(host, job.cuda, None, report)
                taken.give_back(report)
                job.set_state(JobState.RUNNING)
            else:
                job.set_state(JobState.ASLEEP, image=str(path))
        return {
            "image": str(path),
            "job": params.job,
            "tier": manifest.tier,
            "gpu_bytes": manifest.gpu_bytes,
            "cpu_bytes": manifest.cpu_bytes,
            "seconds": report.total(),
            "phases": report.phases,
        }


def _preflight(host: Host, job: OpenJob, path: Path) -> tuple[Criu, bool]:
    criu = find_criu()
    if not job.record.namespaces:
        raise NoRights(
            f"{job.record.name} runs without namespaces of its own, so it could not be restored",
            hint="start it as root, or with CAP_SYS_ADMIN",
        )
    if job.cuda:
        _ = host.checkpointing  # raises when this driver lacks the calls
    preflight.refuse_unsavable(job)
    preflight.refuse_unsent(job.info)
    place = preflight.check_place(path)
    gpu_bytes = sum(process.hello.blocks.bytes for process in job.cuda)
    preflight.check_space(host, place, gpu_bytes, preflight.cpu_estimate(host, job))
    return criu, preflight.in_memory(host, place)


def _roll_back(dump: Dump) -> None:
    dump.roll_back("an earlier step failed")
    dump.finish()


def _settled(job: OpenJob) -> Info:
    """How the job's streams stand, once the supervisor has brought all that the job wrote into its log."""
    with job.supervisor() as supervisor:
        info = supervisor.info()
    preflight.refuse_unsent(info)
    return info
