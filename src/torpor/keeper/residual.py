"""The driver's part of a job: lock and checkpoint every process, restore and unlock every process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from torpor.driver import ProcessState
from torpor.errors import StepFailed
from torpor.keeper.host import Host
from torpor.keeper.jobs import CudaProcess
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, each, step
from torpor.keeper.taken import Taken, has_ended

log = logging.getLogger(__name__)


def put_away(
    host: Host,
    processes: Sequence[CudaProcess],
    seconds: float,
    undo: Rollback,
    report: Report,
) -> None:
    """Lock all processes, then checkpoint all; `seconds` bound each lock. Pushes its own undoing first."""
    if not processes:
        return
    calls = host.checkpointing

    def lock(process: CudaProcess) -> None:
        with step("driver lock", process.pid):
            calls.lock(process.host_pid, seconds)

    def checkpoint(process: CudaProcess) -> None:
        with step("driver checkpoint", process.pid):
            calls.checkpoint(process.host_pid)

    undo.push("driver restore", lambda: bring_back(host, processes, None, Report()))
    with report.phase("driver lock"):
        each(processes, lock)
    with report.phase("driver checkpoint"):
        each(processes, checkpoint)


def give_back(host: Host, taken: Taken) -> None:
    """As `taken.give_back`, in rolling back: a process that the driver did not let go could not answer, so say so."""
    for process in taken.job.cuda:
        state = host.checkpointing.state(process.host_pid)
        if state in (ProcessState.LOCKED, ProcessState.CHECKPOINTED, ProcessState.FAILED):
            raise StepFailed(step="return", process=process.pid, reason=f"the driver still has it {state.value}")
    taken.give_back()


def bring_back(
    host: Host,
    processes: Sequence[CudaProcess],
    moved: Mapping[str, str] | None,
    report: Report,
) -> None:
    """Restore and unlock whichever processes are checkpointed or locked; `moved` maps old GPU UUIDs to new ones."""
    if not processes:
        return
    calls = host.checkpointing

    def restore(process: CudaProcess) -> None:
        with step("driver restore", process.pid):
            state = calls.state(process.host_pid)
            if state is ProcessState.CHECKPOINTED:
                calls.restore(process.host_pid, moved)
            elif state is ProcessState.NONE and len(processes) > 1 and has_ended(process.host_pid):
                log.warning("process %d has ended; the others are brought back", process.pid)
            elif state in (ProcessState.FAILED, ProcessState.NONE):
                raise StepFailed(
                    step="driver restore",
                    process=process.pid,
                    reason=f"the driver says that the process is {state.value}",
                )

    def unlock(process: CudaProcess) -> None:
        with step("driver unlock", process.pid):
            if calls.state(process.host_pid) is ProcessState.LOCKED:
                calls.unlock(process.host_pid)

    with report.phase("driver restore"):
        each(processes, restore)
    with report.phase("driver unlock"):
        each(processes, unlock)
