"""A job as a flow opens it: its record, its supervisor, its process tree, and what each CUDA process says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torpor import paths, records
from torpor.driver.devices import Driver
from torpor.errors import NoRights, Refused, StepFailed, TorporError, WrongState
from torpor.image.manifest import DeviceFacts, ProcessEntry
from torpor.keeper.control import BlockCounts, ControlClient, DeviceId, Hello, sockets_in
from torpor.keeper.host import Host
from torpor.keeper.rollback import each
from torpor.process import tree
from torpor.process.client import Info, SupervisorClient
from torpor.records import JobRecord, JobState


@dataclass(frozen=True)
class JobProcess:
    """A process by its pid as the job sees it (`pid`) and on the host."""

    pid: int
    host_pid: int
    command: str
    uses_gpu: bool

    def memory(self) -> int:
        """Bytes of memory that is its own or shared, not those of mapped files: roughly what CRIU will write."""
        total = 0
        try:
            for line in Path(f"/proc/{self.host_pid}/status").read_text().splitlines():
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total += int(line.split()[1]) * 1024
        except OSError:
            return 0
        return total


@dataclass(frozen=True)
class CudaProcess(JobProcess):
    """A process that has initialised the driver, and what it said of itself."""

    hello: Hello

    def uuid(self, ordinal: int) -> str:
        """UUID of a device by the process's own ordinal."""
        return next(device.uuid for device in self.hello.devices if device.ordinal == ordinal)

    def device_facts(self, driver: Driver) -> list[DeviceFacts]:
        """The devices it sees, with what this host knows of them."""
        known = {device.uuid: device for device in driver.devices}
        return [
            DeviceFacts(
                ordinal=seen.ordinal,
                uuid=seen.uuid,
                name=known[seen.uuid].name,
                arch=known[seen.uuid].arch,
                memory=known[seen.uuid].memory,
            )
            for seen in self.hello.devices
            if seen.uuid in known
        ]


@dataclass
class OpenJob:
    """A live job. `cuda` are those of `processes` that use the driver, in the order of their pids."""

    record: JobRecord
    info: Info
    root: int
    processes: list[JobProcess] = field(default_factory=list)
    cuda: list[CudaProcess] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return paths.job_dir(self.record.name)

    @property
    def control_dir(self) -> Path:
        return paths.control_dir(self.record.name)

    def supervisor(self) -> SupervisorClient:
        """A new connection to its supervisor."""
        return SupervisorClient(self.folder)

    def set_state(self, state: JobState, **changes: object) -> None:
        """Record a new state, and further fields of the record."""
        self.record.state = state
        for name, value in changes.items():
            setattr(self.record, name, value)
        records.save(self.record)


def load(host: Host, name: str) -> tuple[JobRecord, JobState]:
    """The record of a job of this keeper's backend, and its state; NotFound, WrongState."""
    record = records.load(name)
    if record.backend != host.backend:
        raise WrongState(f"{name} runs on {record.backend}, this keeper serves {host.backend}")
    return record, records.state(record)


def open_running(host: Host, name: str) -> OpenJob:
    """A job that runs, every CUDA process greeted and in the state `running`; WrongState, Refused, NoRights."""
    record, state = load(host, name)
    if state is JobState.SUSPENDED:
        raise WrongState(f"{name} is suspended", hint=f"resume it first: `torpor resume {name}`")
    if state is JobState.CHECKPOINTING:
        raise WrongState(
            f"{name} was left in the middle of a checkpoint", hint=f"bring it back: `torpor resume {name}`"
        )
    if state is not JobState.RUNNING:
        raise WrongState(f"{name} is {state}", hint="`torpor ps` says what became of it")
    job = open_live(record)
    for process in job.cuda:
        if process.hello.state != "running":
            raise WrongState(f"process {process.pid} of {name} is {process.hello.state}", hint=f"torpor resume {name}")
    return job


def open_live(record: JobRecord) -> OpenJob:
    """A job whose supervisor lives, whatever the state of its processes, each CUDA process greeted."""
    job = open_tree(record)
    _check_thawed(job)
    job.cuda = each(_with_sockets(job), lambda process: _greet(job, process))
    _check_holders(job)
    return job


def open_away(record: JobRecord, processes: list[ProcessEntry]) -> OpenJob:
    """A job whose CUDA processes cannot be asked, since the driver has them checkpointed: `processes` speak for them.

    StepFailed when one of them is gone.
    """
    job = open_tree(record)
    hellos = {process.pid: _said(process) for process in processes}
    job.cuda = [_known(one, hellos[one.pid]) for one in job.processes if one.pid in hellos]
    missing = set(hellos) - {one.pid for one in job.cuda}
    if missing:
        raise StepFailed(step="find processes", process=min(missing), reason="the process is gone")
    return job


def _check_thawed(job: OpenJob) -> None:
    for process in job.processes:
        group = tree.frozen_by(process.host_pid)
        if group is not None:
            raise WrongState(
                f"process {process.pid} of {job.record.name} is frozen by the cgroup {group}", hint="thaw it first"
            )


def _said(process: ProcessEntry) -> Hello:
    sizes = [block.size for block in process.blocks]
    return Hello(
        protocol=1,
        pid=process.pid,
        state="away",
        arena=bool(sizes),
        driver_version=0,
        devices=[DeviceId(device.ordinal, device.uuid) for device in process.devices],
        blocks=BlockCounts(count=len(sizes), bytes=sum(sizes), largest=max(sizes, default=0)),
    )


def unasked(job: OpenJob) -> list[CudaProcess]:
    """The job's CUDA processes, known by their sockets alone: they may be in no state to answer."""
    return [
        _known(process, Hello(0, process.pid, "away", True, 0, [], BlockCounts())) for process in _with_sockets(job)
    ]


def open_tree(record: JobRecord) -> OpenJob:
    """The job's supervisor and process tree; nobody is asked anything. `cuda` is empty.

    WrongState when the job has ended, Refused when a process left the tree, NoRights.
    """
    if record.supervisor_pid is None:
        raise WrongState(f"{record.name} has no supervisor yet", hint="try again in a moment")
    with SupervisorClient(paths.job_dir(record.name)) as supervisor:
        info = supervisor.info()
    if info.state != "running" or info.root is None:
        raise WrongState(f"{record.name} is {info.state}", hint="`torpor ps` says what became of it")
    try:
        found = tree.read(record.supervisor_pid, info.root)
    except PermissionError as error:
        raise NoRights(f"the processes of {record.name} cannot be looked at: {error}", hint="run as root") from error
    if found.root is None:
        raise WrongState(f"{record.name} has just ended")
    if found.strays:
        stray = found.strays[0]
        raise Refused(
            f"process {stray.inner} ({stray.comm}) of {record.name} has left the job's process tree",
            hint="daemons that detach from their parent are not saved; let them run in the foreground",
            details={"process": stray.inner, "resource": "stray"},
        )
    processes = [JobProcess(one.inner, one.pid, one.comm, one.uses_gpu) for one in found.processes]
    return OpenJob(record, info, info.root, processes)


def _with_sockets(job: OpenJob) -> list[JobProcess]:
    listening = set(sockets_in(job.control_dir))
    return [process for process in sorted(job.processes, key=lambda p: p.pid) if process.pid in listening]


def _greet(job: OpenJob, process: JobProcess) -> CudaProcess:
    with ControlClient(job.control_dir, process.pid) as control:
        hello = control.hello()
    if hello.pid != process.pid:
        raise TorporError(f"the socket of process {process.pid} belongs to process {hello.pid}")
    return _known(process, hello)


def _known(process: JobProcess, hello: Hello) -> CudaProcess:
    return CudaProcess(process.pid, process.host_pid, process.command, process.uses_gpu, hello)


def _check_holders(job: OpenJob) -> None:
    """A process with GPU devices open that never initialised the driver (a fork, mostly) would stop CRIU."""
    cuda = {process.pid for process in job.cuda}
    for process in job.processes:
        if process.pid not in cuda and process.uses_gpu:
            raise Refused(
                f"process {process.pid} ({process.command}) has GPU devices open but does not use CUDA itself",
                hint="it was probably forked after its parent initialised CUDA; start such workers with spawn",
                details={"process": process.pid, "resource": "gpu-device"},
            )
