"""Bytes that move while something else goes on: a job's blocks out into segments, an image's segments into blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from torpor.driver.devices import Device
from torpor.errors import ImageMismatch
from torpor.image.manifest import Block, DeviceFacts, FileEntry, ProcessEntry
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


class CopyOut:
    """Copies a job's taken blocks into an image's `gpu/`, from `start` on in the background."""

    def __init__(self, host: Host, taken: Taken, folder: Path, *, in_memory: bool) -> None:
        self._host = host
        self._taken = taken
        self._saver = Saver(host.driver, host.pool, folder, in_memory)
        by_uuid = [
            (part.process.uuid(block.device), PlacedBlock(part.pid, block.address, block.size, block.device), fd)
            for part in taken.parts
            for block, fd in zip(part.blocks, part.descriptors.numbers(), strict=True)
        ]
        self._rows = placement.rows((uuid, block) for uuid, block, _fd in by_uuid)
        self._descriptors = {(block.pid, block.address): fd for _uuid, block, fd in by_uuid}
        self._future: Future[None] | None = None

    @property
    def entries(self) -> dict[str, FileEntry]:
        """The segments written so far, by path."""
        return dict(self._saver.entries)

    def start(self, report: Report) -> None:
        self._future = background("copy out", lambda: self._copy(report))

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""
        if self._future is not None:
            self._future.result()

    def stop(self) -> None:
        """Begin nothing further and wait until everything is at rest, whatever came of it."""
        self._saver.stop.set()
        if self._future is not None:
            self._future.exception()

    def describe(self) -> list[ProcessEntry]:
        """The processes as a manifest lists them."""
        extents = placement.extents(self._rows)
        return [
            ProcessEntry(
                pid=part.pid,
                devices=part.process.device_facts(self._host.driver),
                blocks=[
                    Block(
                        address=block.address,
                        size=block.size,
                        device=block.device,
                        extents=extents[part.pid, block.address],
                    )
                    for block in part.blocks
                ],
            )
            for part in self._taken.parts
        ]

    def _copy(self, report: Report) -> None:
        total = sum(row.size for row in self._rows)
        if not total:
            return
        with step("copy"), ExitStack() as mapped:
            rows: dict[str, MappedRow] = {}
            with report.phase("import"):
                for row in self._rows:
                    device = here(self._host, row.uuid)
                    blocks = [(self._descriptors[b.pid, b.address], b.size) for b in row.blocks]
                    rows[row.uuid] = mapped.enter_context(MappedRow.imported(self._host.driver, device, blocks))
            with report.phase("copy", total) as phase:
                self._saver.save(rows, placement.cut(self._rows), phase.move)


class CopyIn:
    """Makes blocks on this host's GPUs and fills them from segments, from `start` on in the background.

    `moved` maps the UUIDs that the processes knew to those of this host. The rows stay mapped until `close`.
    """

    def __init__(
        self,
        host: Host,
        folder: Path,
        processes: list[ProcessEntry],
        files: list[FileEntry],
        moved: Mapping[str, str],
    ) -> None:
        self._host = host
        self._filler = Filler(host.driver, host.pool, folder, {entry.path: entry for entry in files})
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


def uuid_of(devices: list[DeviceFacts], ordinal: int) -> str:
    """The UUID of a process's device by its own ordinal."""
    return next(device.uuid for device in devices if device.ordinal == ordinal)


def here(host: Host, uuid: str) -> Device:
    """This host's device with that UUID; ImageMismatch when there is none."""
    device = host.driver.by_uuid(uuid)
    if device is None:
        raise ImageMismatch(f"this host has no GPU {uuid}", hint="use --gpu-map OLD=NEW")
    return device
