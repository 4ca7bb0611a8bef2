"""A job's blocks outside the job: frozen, exported, released, and given back.

Between `take` and `give_back` the job's gates are closed and its device memory belongs to descriptors that the keeper
and the job's supervisor hold. `give_back` works from any point in between, so it is also the way back from a failure.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torpor.errors import StepFailed, TorporError, WrongState
from torpor.image.manifest import ProcessEntry
from torpor.keeper import same_memory
from torpor.keeper.control import BlockRecord, ControlClient
from torpor.keeper.jobs import CudaProcess, OpenJob
from torpor.keeper.memory import Descriptors
from torpor.keeper.report import Report
from torpor.keeper.rollback import each, step
from torpor.process import tree
from torpor.process.loop import is_readable

log = logging.getLogger(__name__)

_END_SECONDS = 5.0
"""How long a process may take to be gone whose control thread has just hung up."""


@dataclass
class TakenProcess:
    """One process's part. `away` once RELEASE may have taken effect; `connection` while one is open; `gone` where the
    process had ended before it could get its blocks back."""

    process: CudaProcess
    connection: ControlClient | None = None
    blocks: list[BlockRecord] = field(default_factory=list)
    descriptors: Descriptors = field(default_factory=Descriptors)
    away: bool = False
    gone: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@dataclass
class Taken:
    """The blocks of all CUDA processes of a job."""

    job: OpenJob
    parts: list[TakenProcess]
    held: bool = False
    given_back: bool = False

    @classmethod
    def of(cls, job: OpenJob) -> Taken:
        """Nothing taken yet."""
        return cls(job, [TakenProcess(process) for process in job.cuda])

    @property
    def _asked(self) -> list[TakenProcess]:
        return [part for part in self.parts if part.process.interposed]

    @property
    def size(self) -> int:
        """Bytes of all blocks, what is shared once."""
        return sum(block.size for part in self.parts for block in part.blocks if block.owner is None)

    def take(self, seconds: float, report: Report) -> None:
        """Freeze every process, bring its blocks out and let it release them; no connection is open afterwards."""
        with report.phase("freeze"):
            each(self._asked, lambda part: self._freeze(part, seconds))
        with report.phase("export"):
            each(self._asked, self._export)
            with step("compare shared memory"):
                self._find_owners()
        with report.phase("hold"):
            self._hold()
        with report.phase("release"):
            each(self._asked, self._release)
            for part in self.parts:
                part.hang_up()

    def give_back(self, report: Report | None = None) -> None:
        """Return every block by its descriptor, open the gates, and let the supervisor's hold go.

        The driver's part of the processes must be back and unlocked. Raises when a process could not get its blocks;
        the others have theirs by then, and the supervisor still holds all descriptors.
        """
        report = report or Report()
        with report.phase("return"):
            each(self._asked, self._return)
        with report.phase("thaw"):
            each(self._asked, self._thaw)
        if self.held:
            with self.job.supervisor() as supervisor:
                supervisor.drop()
            self.held = False
        self.given_back = True
        self.close()

    def look_who_is_gone(self) -> None:
        """Find out which processes have ended meanwhile, as `give_back` does."""
        for part in self.parts:
            part.gone = has_ended(part.process.host_pid, 0)

    def refuse_nobody(self) -> None:
        """WrongState where no process was left, when it was last looked, that could have its blocks."""
        if self.parts and all(part.gone for part in self.parts):
            name = self.job.record.name
            raise WrongState(f"no process of {name} is left that used the GPU", hint="`torpor ps` says how it ended")

    def close(self) -> None:
        """Close the keeper's descriptors and connections."""
        for part in self.parts:
            part.hang_up()
            part.descriptors.close()

    def _freeze(self, part: TakenProcess, seconds: float) -> None:
        part.connection = self._connect(part)
        try:
            part.connection.freeze(seconds)
        except StepFailed as error:
            # Whether it froze cannot be known; that we hang up opens its gate again, whenever it gets to that.
            part.hang_up()
            group = tree.frozen_by(part.process.host_pid)
            if group is None:
                raise
            reason = f"it is frozen by the cgroup {group}"
            raise StepFailed(step="freeze", process=part.pid, reason=reason, hint="thaw it first") from error

    def _export(self, part: TakenProcess) -> None:
        assert part.connection is not None
        part.blocks = part.connection.export(part.descriptors)

    def _find_owners(self) -> None:
        """Of records that are the same memory, the first stands for all."""
        places = [(part, at) for part in self.parts for at, block in enumerate(part.blocks) if block.shared]
        for first, *others in same_memory.groups([part.descriptors.numbers()[at] for part, at in places]):
            owner, at = places[first]
            for other, its_place in (places[position] for position in others):
                block = other.blocks[its_place]
                other.blocks[its_place] = replace(block, owner=(owner.pid, owner.blocks[at].address))

    def _hold(self) -> None:
        blocks = [
            {
                "pid": part.pid,
                "address": block.address,
                "size": block.size,
                "device": block.device,
                "owner": block.owner,
            }
            for part in self.parts
            for block in part.blocks
        ]
        descriptors = [fd for part in self.parts for fd in part.descriptors.numbers()]
        if blocks:
            with step("hold"), self.job.supervisor() as supervisor:
                self.held = True
                supervisor.hold(blocks, descriptors)

    def _release(self, part: TakenProcess) -> None:
        assert part.connection is not None
        part.away = True
        part.connection.release()

    def _return(self, part: TakenProcess) -> None:
        if not part.away:
            return
        part.hang_up()
        try:
            part.connection = self._connect(part)
            # RELEASE may have failed before it did anything: then the blocks are still where they were.
            if part.connection.hello().state == "away":
                part.connection.give_back(part.blocks, part.descriptors.numbers())
        except StepFailed:
            if not has_ended(part.process.host_pid):
                raise
            part.hang_up()  # it was killed; the others are to go on
            part.gone = True
        part.away = False

    def _thaw(self, part: TakenProcess) -> None:
        if part.connection is None:
            return
        try:
            part.connection.thaw()
        except StepFailed:
            if has_ended(part.process.host_pid):
                return  # it went on, and was done before it could answer
            # A process that was never frozen says so; one that stays frozen is a failure.
            if part.connection.hello().state != "running":
                raise
        finally:
            part.hang_up()

    def _connect(self, part: TakenProcess) -> ControlClient:
        return ControlClient(self.job.control_dir, part.pid, is_it=part.process.is_it)


def has_ended(pid: int, seconds: float = _END_SECONDS) -> bool:
    """Whether the process with this host pid has ended, or does so within seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return is_readable(handle, seconds)
    finally:
        os.close(handle)


def to_return(job: OpenJob, processes: list[ProcessEntry], descriptors: Mapping[tuple[int, int], int]) -> Taken:
    """Blocks that are ready to be handed in: `descriptors` of each by (pid, address), owned by what this returns."""
    taken = Taken.of(job)
    entries = {process.pid: process for process in processes}
    for part in taken.parts:
        # Ascending addresses, as the process itself lists them.
        blocks = sorted(entries[part.pid].blocks, key=lambda block: block.address)
        part.blocks = [BlockRecord(block.address, block.size, block.device) for block in blocks]
        part.descriptors = Descriptors([descriptors[part.pid, block.address] for block in blocks])
        for other in entries[part.pid].shared:
            part.blocks.append(BlockRecord(other.address, other.size, other.device, True, other.owner))
            part.descriptors.extend([os.dup(descriptors[other.owner])])
        part.away = True
    return taken


def from_hold(job: OpenJob, blocks: list[dict[str, Any]], descriptors: list[int]) -> Taken:
    """What a supervisor holds for its job; owns the descriptors, also when this raises."""
    owned = Descriptors(descriptors)
    taken = Taken.of(job)
    taken.held = True
    by_pid = {part.pid: part for part in taken.parts}
    gone = {int(block["pid"]) for block in blocks} - set(by_pid)
    silent = gone & {process.pid for process in job.processes}
    if silent:
        owned.close()
        raise TorporError(f"memory of process {min(silent)} is held, but the process cannot be reached")
    split: dict[int, list[int]] = {}
    for block, descriptor in zip(blocks, descriptors, strict=True):
        pid = int(block["pid"])
        if pid in gone:  # it was killed, and its memory goes with it; the others are to go on
            os.close(descriptor)
            continue
        owner = block.get("owner")
        shared_with = None if owner is None else (int(owner[0]), int(owner[1]))
        size, device = int(block["size"]), int(block["device"])
        by_pid[pid].blocks.append(BlockRecord(int(block["address"]), size, device, owner is not None, shared_with))
        split.setdefault(pid, []).append(descriptor)
    for part in taken.parts:
        part.descriptors = Descriptors(split.get(part.pid))
        part.away = True
    return taken
