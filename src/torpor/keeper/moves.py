"""Bytes that move while something else goes on: a job's blocks out into segments, an image's segments into blocks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypeVar

from torpor.driver.devices import Device
from torpor.errors import ImageMismatch
from torpor.image.manifest import Block, DeviceFacts, Extent, FileEntry, ProcessEntry, SharedBlock
from torpor.keeper import placement
from torpor.keeper.host import Host
from torpor.keeper.memory import Descriptors, MappedRow
from torpor.keeper.placement import PlacedBlock, Row
from torpor.keeper.report import Report
from torpor.keeper.rollback import each, step
from torpor.keeper.segments import Filler, Saver
from torpor.keeper.taken import Taken

T = TypeVar("T")


def background(name: str, action: Callable[[], T]) -> Future[T]:
    """Run `action` in a thread of its own."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


class Bytes(Protocol):
    """A job's GPU bytes on their way to where they are kept, in the background."""

    names: Mapping[str, Sequence[bytes]]
    """Of chunks that are in a store already, by their streams' labels (torpor.store.plan)."""

    @property
    def entries(self) -> dict[str, FileEntry]:
        """The segments written so far, by path."""

    def start(self, report: Report) -> None: ...

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""

    def stop(self) -> None:
        """Begin nothing further and wait until everything is at rest."""

    def describe(self) -> list[ProcessEntry]:
        """The processes as a manifest lists them."""


class TakenOut(ABC):
    """A job's taken blocks on their way to where they are kept, from `start` on in the background."""

    names: Mapping[str, Sequence[bytes]]
    """Of chunks that are in a store already, by their streams' labels (torpor.store.plan)."""

    def __init__(self, host: Host, taken: Taken) -> None:
        self.names = {}
        self._host = host
        self._taken = taken
        self._stopping = threading.Event()
        by_uuid = [
            (part.process.uuid(block.device), PlacedBlock(part.pid, block.address, block.size, block.device), fd)
            for part in taken.parts
            for block, fd in zip(part.blocks, part.descriptors.numbers(), strict=True)
            if block.owner is None
        ]
        self._rows = placement.rows((uuid, block) for uuid, block, _fd in by_uuid)
        self._descriptors = {(block.pid, block.address): fd for _uuid, block, fd in by_uuid}
        self._future: Future[None] | None = None

    @property
    def entries(self) -> dict[str, FileEntry]:
        """The segments written so far, by path."""
        return {}

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(row.size for row in self._rows)

    def start(self, report: Report) -> None:
        self._future = background("copy out", lambda: self._run(report))

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""
        if self._future is not None:
            self._future.result()

    def stop(self) -> None:
        """Begin nothing further and wait until everything is at rest, whatever came of it."""
        self._stopping.set()
        if self._future is not None:
            self._future.exception()

    def describe(self) -> list[ProcessEntry]:
        """The processes as a manifest lists them."""
        return process_entries(self._host, self._taken, placement.extents(self._rows))

    @abstractmethod
    def _move(self, mapped: dict[str, MappedRow], report: Report) -> None:
        """Keep every byte of the rows, which are mapped by their UUIDs until this returns."""

    def _run(self, report: Report) -> None:
        if not self.size:
            return
        with step("copy"), ExitStack() as mapped:
            rows: dict[str, MappedRow] = {}
            with report.phase("import"):
                for row in self._rows:
                    device = here(self._host, row.uuid)
                    blocks = [(self._descriptors[b.pid, b.address], b.size) for b in row.blocks]
                    rows[row.uuid] = mapped.enter_context(MappedRow.imported(self._host.driver, device, blocks))
            self._move(rows, report)


class CopyOut(TakenOut):
    """Copies them into an image's `gpu/`."""

    def __init__(self, host: Host, taken: Taken, folder: Path, *, in_memory: bool) -> None:
        super().__init__(host, taken)
        self._saver = Saver(host.driver, host.pool, folder, in_memory, stop=self._stopping)

    @property
    def entries(self) -> dict[str, FileEntry]:
        """The segments written so far, by path."""
        return dict(self._saver.entries)

    def _move(self, mapped: dict[str, MappedRow], report: Report) -> None:
        with report.phase("copy", self.size) as phase:
            self._saver.save(mapped, placement.cut(self._rows), phase.move)


class CopyIn:
    """Makes blocks on this host's GPUs and has `filler` fill them, from `start` on in the background.

    `moved` maps the UUIDs that the processes knew to those of this host. The rows stay mapped until `close`.
    """

    def __init__(
        self,
        host: Host,
        filler: Filler,
        processes: list[ProcessEntry],
        moved: Mapping[str, str],
    ) -> None:
        self._host = host
        self._filler = filler
        blocks = sorted(
            ((process, block) for process in processes for block in process.blocks),
            key=lambda pair: pair[1].extents[0],
        )
        self._rows: list[Row] = placement.rows(
            (
                moved[uuid_of(process.devices, block.device)],
                PlacedBlock(process.pid, block.address, block.size, block.device),
            )
            for process, block in blocks
        )
        self._extents = {(process.pid, block.address): block.extents for process, block in blocks}
        self._mapped: dict[str, MappedRow] = {}
        self._future: Future[None] | None = None

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(row.size for row in self._rows)

    def bytes_by_gpu(self) -> dict[str, int]:
        """Bytes that each GPU of this host gets."""
        return {row.uuid: row.size for row in self._rows}

    def in_memory(self) -> bool:
        """Whether the bytes are in memory that the copy can use as it is."""
        return self._filler.in_memory()

    def start(self, report: Report) -> None:
        self._future = background("copy in", lambda: self._copy(report))

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""
        if self._future is not None:
            self._future.result()

    def export(self) -> dict[tuple[int, int], int]:
        """A new descriptor of each block, by (pid, address); the caller owns them."""
        exported: dict[tuple[int, int], int] = {}
        for row in self._rows:
            descriptors = Descriptors(self._mapped[row.uuid].export())
            for block, descriptor in zip(row.blocks, descriptors.numbers(), strict=True):
                exported[block.pid, block.address] = descriptor
        return exported

    def close(self) -> None:
        """Stop, and let the rows go; blocks that a job has by now stay."""
        self._filler.stop.set()
        if self._future is not None:
            self._future.exception()
        for row in self._mapped.values():
            row.close()
        self._mapped.clear()

    def _copy(self, report: Report) -> None:
        if not self.size:
            return
        with step("copy"):
            with report.phase("create blocks"):
                each(self._rows, self._create)
            with report.phase("copy", self.size) as phase:
                assembled = placement.assemble(self._rows, self._extents)
                self._filler.fill(self._mapped, assembled, phase.move)

    def _create(self, row: Row) -> None:
        device = here(self._host, row.uuid)
        sizes = [block.size for block in row.blocks]
        self._mapped[row.uuid] = MappedRow.created(self._host.driver, device, sizes)


def process_entries(
    host: Host, taken: Taken, extents: Mapping[tuple[int, int], list[Extent]] | None = None
) -> list[ProcessEntry]:
    """The processes as a manifest lists them; `extents` of each block by (pid, address), None: nowhere yet."""
    return [
        ProcessEntry(
            pid=part.pid,
            devices=part.process.device_facts(host.driver),
            blocks=[
                Block(
                    address=block.address,
                    size=block.size,
                    device=block.device,
                    extents=[] if extents is None else extents[part.pid, block.address],
                )
                for block in part.blocks
                if block.owner is None
            ],
            shared=[
                SharedBlock(address=block.address, size=block.size, device=block.device, owner=block.owner)
                for block in part.blocks
                if block.owner is not None
            ],
            interposed=part.process.interposed,
        )
        for part in taken.parts
    ]


def uuid_of(devices: list[DeviceFacts], ordinal: int) -> str:
    """The UUID of a process's device by its own ordinal."""
    return next(device.uuid for device in devices if device.ordinal == ordinal)


def here(host: Host, uuid: str) -> Device:
    """This host's device with that UUID; ImageMismatch when there is none."""
    device = host.driver.by_uuid(uuid)
    if device is None:
        raise ImageMismatch(f"this host has no GPU {uuid}", hint="use --gpu-map OLD=NEW")
    return device
