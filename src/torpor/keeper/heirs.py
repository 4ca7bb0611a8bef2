"""Children that have inherited a CUDA process's device files, relieved of them before CRIU looks.

Those that are there at the preflight first of all: they are known by their parent's open files, which the driver is
about to close. Those that were forked since then once it has: from then on nobody can inherit any. There is nothing to
undo: what an heir had was of no use to it, and a job that is rolled back finds it as able as before
(docs/design/criu.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from torpor.errors import StepFailed
from torpor.keeper import newcomers
from torpor.keeper.jobs import OpenJob
from torpor.keeper.report import Report
from torpor.keeper.rollback import step
from torpor.process import inherited
from torpor.process.tree import Process


def relieve_known(job: OpenJob, report: Report) -> None:
    """Those that the preflight found. StepFailed, with a process, when one is not rid of them."""
    if job.heirs:
        with report.phase("relieve"):
            _relieve(job.heirs)


def relieve_late(job: OpenJob) -> None:
    """Those that came after it; the driver must have checkpointed the CUDA processes by now.

    StepFailed, too, when a process has opened devices by itself meanwhile.
    """
    if not job.cuda:
        return
    known = {process.pid for process in job.cuda}
    before = {one.pid for one in job.tree}
    givers = [one for one in job.tree if one.inner in known]
    late = [one for one in newcomers.processes_now(job).processes if one.inner not in known and one.uses_gpu]
    for one in late:
        # What it has cannot be compared any more; but it has it from its fork, or opened it in these few moments.
        if one.pid in before or not inherited.is_forked_from(one, givers):
            raise _not_rid(one.inner, f"{one.comm} has opened GPU devices during the checkpoint")
    _relieve(late)


def _relieve(heirs: Sequence[Process]) -> None:
    for one in heirs:
        with step("relieve", one.inner):
            try:
                inherited.relieve(one)
            except ProcessLookupError:
                continue  # it has ended
    for one in inherited.still_held(heirs):
        raise _not_rid(one.inner, f"{one.comm} still has GPU devices open")


def _not_rid(process: int, reason: str) -> StepFailed:
    return StepFailed(step="relieve", process=process, reason=reason, hint="try again", details={"retry": True})
