"""A job as a flow opens it: its record, its supervisor, its process tree, and what each CUDA process says of itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from torpor import paths, records
from torpor.driver import ProcessState
from torpor.driver.devices import Driver
from torpor.errors import NoRights, Refused, StepFailed, TorporError, WrongState
from torpor.image.manifest import DeviceFacts, ProcessEntry
from torpor.keeper import elf, past_us
from torpor.keeper.control import BlockCounts, ControlClient, DeviceId, Hello, sockets_in
from torpor.keeper.host import Host
from torpor.keeper.rollback import each
from torpor.process import held, inherited, inside, tree
from torpor.process.client import Info, SupervisorClient
from torpor.records import LIVE_STATES, JobRecord, JobState

END_SECONDS = 30.0
CRIU_SECONDS = 600.0
"""Longest waits for a killed job's end, and for a CRIU that is without its keeper."""

LISTEN_SECONDS = 3.0
"""Longest time between a process's cuInit and its control socket."""


@dataclass(frozen=True)
class JobProcess:
    """A process by its pid as the job sees it (`pid`) and on the host."""

    pid: int
    host_pid: int
    command: str
    uses_gpu: bool

    def is_it(self, host_pid: int) -> bool:
        return host_pid == self.host_pid

    def memory(self) -> int:
        """Bytes of memory that is its own or shared, not those of mapped files: roughly what CRIU will write."""
        try:
            facts = tree.status(self.host_pid)
        except OSError:
            return 0
        return sum(int(facts[key].split()[0]) << 10 for key in ("RssAnon", "RssShmem") if key in facts)


@dataclass(frozen=True)
class CudaProcess(JobProcess):
    """A process that has initialised the driver, and what it said of itself."""

    hello: Hello
    interposed: bool = True
    """Whether our library is in it. If not it cannot be asked anything, and the driver has all of its state."""

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
    """A live job. `cuda` are those of `processes` that use the driver, in the order of their pids.

    `heirs` do not, but have inherited GPU device files of one that does (`keeper/heirs.py`).
    """

    record: JobRecord
    info: Info
    root: int
    processes: list[JobProcess] = field(default_factory=list)
    cuda: list[CudaProcess] = field(default_factory=list)
    heirs: list[tree.Process] = field(default_factory=list)
    tree: tuple[tree.Process, ...] = ()

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


def end(record: JobRecord) -> None:
    """Kill everything in a job, and return when its supervisor is gone too."""
    try:
        with SupervisorClient(paths.job_dir(record.name), timeout=END_SECONDS) as supervisor:
            supervisor.end()
    except TorporError:
        return  # it ended by itself


def await_criu(job_dir: Path) -> None:
    """Return when no CRIU works in the job any more: one whose keeper died lets the job's processes go by itself."""
    limit = time.monotonic() + CRIU_SECONDS
    while True:
        with SupervisorClient(job_dir) as supervisor:
            if supervisor.info().criu is None:
                return
        if time.monotonic() > limit:
            raise StepFailed(step="find processes", reason=f"CRIU has been at work for {CRIU_SECONDS:g} s")
        time.sleep(0.02)


def load(host: Host, name: str) -> tuple[JobRecord, JobState]:
    """The record of a job of this keeper's backend, and its state; NotFound, WrongState."""
    record = records.load(name)
    if record.backend != host.backend:
        raise WrongState(f"{name} runs on {record.backend}, this keeper serves {host.backend}")
    return record, records.state(record)


def load_to_save(host: Host, name: str) -> tuple[JobRecord, JobState]:
    """As `load`, for what puts the driver's checkpoint to use: WrongState for a job that has CUPTI in it."""
    record, state = load(host, name)
    if state in LIVE_STATES and records.times_kernels(record):
        raise WrongState(
            f"{name} has its kernels timed: with CUPTI at work inside, nobody knows whether it can be saved",
            hint="let it end, and run it without `torpor profile --kernels` to checkpoint or suspend it",
        )
    return record, state


def open_running(host: Host, name: str) -> OpenJob:
    """A job that runs, every CUDA process greeted and in the state `running`; WrongState, Refused, NoRights."""
    record, state = load_to_save(host, name)
    if state is JobState.SUSPENDED:
        raise WrongState(f"{name} is suspended", hint=f"resume it first: `torpor resume {name}`")
    if state is JobState.CHECKPOINTING:
        raise WrongState(
            f"{name} was left in the middle of a checkpoint", hint=f"bring it back: `torpor resume {name}`"
        )
    if state is not JobState.RUNNING:
        raise WrongState(f"{name} is {state}", hint="`torpor ps` says what became of it")
    job = open_live(host, record)
    for process in job.cuda:
        if process.hello.state != "running":
            raise WrongState(f"process {process.pid} of {name} is {process.hello.state}", hint=f"torpor resume {name}")
    return job


def open_live(host: Host, record: JobRecord) -> OpenJob:
    """A job whose supervisor lives, whatever the state of its processes, each CUDA process greeted."""
    job = open_tree(record)
    _check_thawed(job)
    job.cuda = each(_with_sockets(job), lambda process: _greet(job, process))
    if not record.interposed:
        job.cuda += _known_to_driver(host, job)
    _check_holders(host, job)
    return job


def open_away(record: JobRecord, processes: list[ProcessEntry], *, to_save: bool = True) -> OpenJob:
    """A job whose CUDA processes cannot be asked, since the driver has them checkpointed: `processes` speak for them.

    StepFailed when one of them is gone. `to_save` as for `open_tree`.
    """
    job = open_tree(record, to_save=to_save)
    said = {process.pid: process for process in processes}
    job.cuda = [
        _known(one, _said(said[one.pid]), interposed=said[one.pid].interposed)
        for one in job.processes
        if one.pid in said
    ]
    missing = set(said) - {one.pid for one in job.cuda}
    if missing:
        raise StepFailed(step="find processes", process=min(missing), reason="the process is gone")
    return job


def open_suspended(record: JobRecord, processes: list[ProcessEntry]) -> OpenJob:
    """A suspended job, its CUDA processes as they were when it was suspended.

    WrongState when one is gone, or another has begun to use the GPU since; the job's CPU side runs on, after all.
    """
    name = record.name
    try:
        job = open_away(record, processes)
    except StepFailed as error:
        raise WrongState(f"process {error.details.get('process')} of {name}, which used the GPU, has ended") from error
    _check_thawed(job)
    known = {process.pid for process in job.cuda}
    listening = set(sockets_in(job.control_dir))
    for process in job.processes:
        if process.pid not in known and (process.pid in listening or process.uses_gpu):
            raise WrongState(
                f"process {process.pid} ({process.command}) of {name} began to use the GPU after it was suspended",
                hint=f"resume it first: `torpor resume {name}`",
                details={"process": process.pid},
            )
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


def unasked(host: Host, job: OpenJob) -> list[CudaProcess]:
    """The job's CUDA processes, known by their sockets and the driver alone: they may be in no state to answer."""
    found = [
        _known(process, Hello(0, process.pid, "away", True, 0, [], BlockCounts())) for process in _with_sockets(job)
    ]
    return found if job.record.interposed else found + _known_to_driver(host, job)


def open_tree(record: JobRecord, *, to_save: bool = True) -> OpenJob:
    """The job's supervisor and process tree; nobody is asked anything. `cuda` is empty.

    WrongState when the job has ended. With `to_save` Refused when a process left the tree, and NoRights when one may
    not be looked at; without, `processes` are all that there are: any may have memory to be given back.
    """
    if record.supervisor_pid is None:
        raise WrongState(f"{record.name} has no supervisor yet", hint="try again in a moment")
    with SupervisorClient(paths.job_dir(record.name)) as supervisor:
        info = supervisor.info()
    if info.state != "running" or info.root is None:
        raise WrongState(f"{record.name} is {info.state}", hint="`torpor ps` says what became of it")
    root = info.root
    try:
        if record.adopted is not None:
            found = tree.below(record.supervisor_pid, record.adopted)
            info = replace(info, stdio=held.streams(found.processes))
        else:
            found = tree.read(record.supervisor_pid, root)
    except PermissionError as error:
        raise _no_rights(record.name, f"a process ({error.filename})") from error
    if found.root is None:
        raise WrongState(f"{record.name} has just ended")
    if to_save:
        refuse_hidden(record.name, found)
    else:
        found = replace(found, processes=(*found.processes, *found.strays), strays=())
    if found.strays:
        stray = found.strays[0]
        raise Refused(
            f"process {stray.inner} ({stray.comm}) of {record.name} has left the job's process tree",
            hint="daemons that detach from their parent are not saved; let them run in the foreground",
            details={"process": stray.inner, "resource": "stray"},
        )
    processes = [JobProcess(one.inner, one.pid, one.comm, bool(one.uses_gpu)) for one in found.processes]
    return OpenJob(record, info, root, processes, tree=found.processes)


def refuse_hidden(name: str, found: tree.Tree) -> None:
    """NoRights when this keeper may not look at all of a job: what it does not see would be missing in its image."""
    if found.hidden is not None:
        raise _no_rights(name, found.hidden)


def _no_rights(name: str, what: str) -> NoRights:
    return NoRights(
        f"{what} of {name} may not be looked at",
        hint="the keeper needs CAP_SYS_PTRACE, or the job's user and all of its capabilities",
    )


def _with_sockets(job: OpenJob) -> list[JobProcess]:
    listening = set(sockets_in(job.control_dir))
    return [process for process in sorted(job.processes, key=lambda p: p.pid) if process.pid in listening]


def _greet(job: OpenJob, process: JobProcess) -> CudaProcess:
    with ControlClient(job.control_dir, process.pid, is_it=process.is_it) as control:
        hello = control.hello()
    if hello.pid != process.pid:
        raise TorporError(f"the socket of process {process.pid} belongs to process {hello.pid}")
    return _known(process, hello)


def _known_to_driver(host: Host, job: OpenJob) -> list[CudaProcess]:
    """Processes without our library of which the driver says that they use it."""
    seen = {process.pid for process in job.cuda}
    candidates = [
        process
        for process in job.processes  # parents before their children
        if process.pid not in seen and (process.uses_gpu or elf.mapped_files(process.host_pid, "libcuda.so"))
    ]
    if not candidates:
        return []
    devices = [DeviceId(device.ordinal, device.uuid) for device in host.driver.devices]
    read = {one.inner: one for one in job.tree}
    found: list[CudaProcess] = []
    for process in candidates:
        givers = [read[one.pid] for one in (*job.cuda, *found)]
        if process.uses_gpu and inside.is_possible() and inherited.only_inherited(read[process.pid], givers):
            continue  # a forked child, which has nothing of its own to be asked for
        if host.checkpointing.state(process.host_pid) is not ProcessState.NONE:
            hello = Hello(1, process.pid, "running", False, host.driver.version, devices, BlockCounts())
            found.append(_known(process, hello, interposed=False))
    return sorted(found, key=lambda one: one.pid)


def _known(process: JobProcess, hello: Hello, *, interposed: bool = True) -> CudaProcess:
    return CudaProcess(process.pid, process.host_pid, process.command, process.uses_gpu, hello, interposed)


def _check_holders(host: Host, job: OpenJob) -> None:
    """A process that uses the driver past us, or has opened its devices by itself, stops CRIU; heirs are noted."""
    cuda = {process.pid for process in job.cuda}
    givers = [one for one in job.tree if one.inner in cuda]
    for process in job.processes:
        if process.pid in cuda:
            continue
        mine = next(one for one in job.tree if one.inner == process.pid)
        # First: the driver need not be asked about a process that has nothing of its own.
        if process.uses_gpu and inside.is_possible() and inherited.only_inherited(mine, givers):
            job.heirs.append(mine)
            continue
        if _goes_past_us(host, job, process):
            raise Refused(
                f"process {process.pid} ({process.command}) uses the driver without Torpor's library: "
                "it is not fully intercepted",
                hint=past_us.why(process.host_pid, _own_library(job)),
                details={"process": process.pid, "resource": "not-intercepted"},
            )
        if process.uses_gpu:
            raise Refused(
                f"process {process.pid} ({process.command}) has GPU devices open but does not use CUDA",
                hint="it uses them for something else (graphics, monitoring): let it run outside of the job",
                details={"process": process.pid, "resource": "gpu-device"},
            )


def _own_library(job: OpenJob) -> Path:
    """As the job sees it."""
    return (paths.JOB_DIR_IN_JOB if job.record.namespaces else job.folder) / "native" / "libcuda.so.1"


def _goes_past_us(host: Host, job: OpenJob, process: JobProcess) -> bool:
    if not job.record.interposed:
        return False
    own = str(_own_library(job))
    mapped = elf.mapped_files(process.host_pid, "libcuda.so")
    if not mapped or mapped == [own]:
        return False
    if own in mapped and host.backend == "gpu" and not process.uses_gpu:
        return False  # a driver at work has its devices open
    active = host.checkpointing.state(process.host_pid) is not ProcessState.NONE
    if own in mapped:
        # Through us it will listen in a moment; else it has a driver of its own, opened by dlmopen.
        return active and not _listens(job, process)
    return process.uses_gpu or active


def _listens(job: OpenJob, process: JobProcess) -> bool:
    limit = time.monotonic() + LISTEN_SECONDS
    while process.pid not in sockets_in(job.control_dir):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True
