"""What has come to a job since it was opened: its processes as they are by now."""

from __future__ import annotations

from torpor.driver import ProcessState
from torpor.errors import StepFailed
from torpor.keeper import elf
from torpor.keeper.control import sockets_in
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob, refuse_hidden
from torpor.process import tree


def processes_now(job: OpenJob) -> tree.Tree:
    """The job's processes as they are by now, without a CRIU that works in them. NoRights as from `jobs.open_tree`."""
    assert job.record.supervisor_pid is not None
    if job.record.adopted is not None:
        found = tree.below(job.record.supervisor_pid, job.record.adopted)
    else:
        with job.supervisor() as supervisor:
            criu = supervisor.info().criu
        found = tree.read(job.record.supervisor_pid, job.root, frozenset({criu} if criu else ()))
    refuse_hidden(job.record.name, found)
    return found


def refuse(host: Host, job: OpenJob) -> tree.Tree:
    """The job's processes as they are by now. StepFailed when one has begun to use the driver since `job` was opened.

    CRIU must hold the job still.
    """
    now = processes_now(job)
    known = {process.pid for process in job.cuda}
    listening = set(sockets_in(job.control_dir))
    for one in now.processes:
        if one.inner in known:
            continue
        began = one.inner in listening or one.uses_gpu
        # The software GPU leaves no trace for CRIU to stumble over, and can be asked about a process that stands still.
        if not began and host.backend == "sim" and elf.mapped_files(one.pid, "libcuda.so"):
            began = host.checkpointing.state(one.pid) is not ProcessState.NONE
        if began:
            raise StepFailed(
                step="criu dump",
                process=one.inner,
                reason=f"{one.comm} began to use the GPU during the checkpoint",
                hint="try again",
                details={"retry": True},
            )
    return now
