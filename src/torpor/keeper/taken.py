"""A job's blocks outside the job: frozen, exported, released, and given back.

Between `take` and `give_back` the job's gates are closed and its device memory belongs to descriptors that the keeper
and the job's supervisor hold. `give_back` works from any point in between, so it is also the way back from a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torpor.errors import StepFailed, TorporError
from torpor.image.manifest import ProcessEntry
from torpor.keeper.control import BlockRecord, ControlClient
from torpor.keeper.jobs import CudaProcess, OpenJob
from torpor.keeper.memory import Descriptors
from torpor.keeper.report import Report
from torpor.keeper.rollback import each, step

log = logging.getLogger(__name__)


@dataclass
class TakenProcess:
    """One process's part. `away` once RELEASE may have taken effect; `connection` while one is open."""

    process: CudaProcess
    connection: ControlClient | None = None
    blocks: list[BlockRecord] = field(default_factory=list)
    descriptors: Descriptors = field(default_factory=Descriptors)
    away: bool = False

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

    @classmethod
    def of(cls, job: OpenJob) -> Taken:
        """Nothing taken yet."""
        return cls(job, [TakenProcess(process) for process in job.cuda])

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for part in self.parts for block in part.blocks)

    def take(self, seconds: float, report: Report) -> None:
        """Freeze every process, bring its blocks out and let it release them; no connection is open afterwards."""
        with report.phase("freeze"):
            each(self.parts, lambda part: self._freeze(part, seconds))
        with report.phase("export"):
            each(self.parts, self._export)
            self._hold()
        with report.phase("release"):
            each(self.parts, self._release)
            for part in self.parts:
                part.hang_up()

    def give_back(self, report: Report | None = None) -> None:
        """Return every block by its descriptor, open the gates, and let the supervisor's hold go.

        The driver's part of the processes must be back and unlocked. Raises when a process could not get its blocks;
        the others have theirs by then, and the supervisor still holds all descriptors.
        """
        report = report or Report()
        with report.phase("return"):
            each(self.parts, self._return)
        with report.phase("thaw"):
            each(self.parts, self._thaw)
        if self.held:
            with self.job.supervisor() as supervisor:
                supervisor.drop()
            self.held = False
        self.close()

    def close(self) -> None:
        """Close the keeper's descriptors and connections."""
        for part in self.parts:
            part.hang_up()
            part.descriptors.close()

    def _freeze(self, part: TakenProcess, seconds: float) -> None:
        part.connection = self._connect(part)
        part.connection.freeze(seconds)

    def _export(self, part: TakenProcess) -> None:
        assert part.connection is not None
        part.blocks = part.connection.export(part.descriptors)

    def _hold(self) -> None:
        blocks = [
            {"pid": part.pid, "address": block.address, "size": block.size, "device": block.device}
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
        part.connection = self._connect(part)
        # RELEASE may have failed before it did anything: then the blocks are still where they were.
        if part.connection.hello().state == "away":
            part.connection.give_back(part.blocks, part.descriptors.numbers())
        part.away = False

    def _thaw(self, part: TakenProcess) -> None:
        if part.connection is None:
            return
        try:
            part.connection.thaw()
        except StepFailed:
            # A process that was never frozen says so; one that stays frozen is a failure.
            if part.connection.hello().state != "running":
                raise
        finally:
            part.hang_up()

    def _connect(self, part: TakenProcess) -> ControlClient:
        return ControlClient(self.job.control_dir, part.pid)


def to_return(job: OpenJob, processes: list[ProcessEntry], descriptors: Mapping[tuple[int, int], int]) -> Taken:
    """Blocks that are ready to be handed in: `descriptors` of each by (pid, address), owned by what this returns."""
    taken = Taken.of(job)
    entries = {process.pid: process for process in processes}
    for part in taken.parts:
        # Ascending addresses, as the process itself lists them.
        blocks = sorted(entries[part.pid].blocks, key=lambda block: block.address)
        part.blocks = [BlockRecord(block.address, block.size, block.device) for block in blocks]
        part.descriptors = Descriptors([descriptors[part.pid, block.address] for block in blocks])
        part.away = True
    return taken


def from_hold(job: OpenJob, blocks: list[dict[str, Any]], descriptors: list[int]) -> Taken:
    """What a supervisor holds for its job; owns the descriptors, also when this raises."""
    owned = Descriptors(descriptors)
    taken = Taken.of(job)
    taken.held = True
    by_pid = {part.pid: part for part in taken.parts}
    gone = {int(block["pid"]) for block in blocks} - set(by_pid)
    if gone:
        owned.close()
        raise TorporError(f"memory of process {min(gone)} is held, but the process is gone")
    split: dict[int, list[int]] = {}
    for block, descriptor in zip(blocks, descriptors, strict=True):
        pid = int(block["pid"])
        by_pid[pid].blocks.append(BlockRecord(int(block["address"]), int(block["size"]), int(block["device"])))
        split.setdefault(pid, []).append(descriptor)
    for part in taken.parts:
        part.descriptors = Descriptors(split.get(part.pid))
        part.away = True
    return taken
