"""A row of blocks in the keeper: handles imported or made, mapped end to end at one address of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from torpor.driver import vmm
from torpor.driver.devices import Device, Driver

_Source = Callable[[], int]


class Descriptors:
    """File descriptors that are closed exactly once: one by one with `pop_all`'s new owner, or all by `close`."""

    def __init__(self, descriptors: list[int] | None = None) -> None:
        self._open = list(descriptors or [])

    def __len__(self) -> int:
        return len(self._open)

    def extend(self, descriptors: list[int]) -> None:
        self._open.extend(descriptors)

    def numbers(self) -> list[int]:
        """The descriptors, still owned by this."""
        return list(self._open)

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MappedRow:
    """Device memory of the keeper, readable and writable by `device` at `base`, `size` bytes.

    Closing unmaps it and gives the handles up; the memory lives on where a descriptor or another process holds it.
    """

    def __init__(self, driver: Driver, device: Device) -> None:
        self.device = device
        self.base = 0
        self.size = 0
        self.handles: list[int] = []
        self._driver = driver
        self._undo = ExitStack()

    @classmethod
    def imported(cls, driver: Driver, device: Device, blocks: list[tuple[int, int]]) -> MappedRow:
        """Map the memory behind descriptors, given as (descriptor, size); the descriptors stay the caller's."""
        row = cls(driver, device)
        return row._fill([(partial(vmm.import_descriptor, fd), size) for fd, size in blocks])

    @classmethod
    def created(cls, driver: Driver, device: Device, sizes: list[int]) -> MappedRow:
        """Map new memory; NoSpace when the device lacks it."""
        row = cls(driver, device)
        return row._fill([(partial(vmm.create, device, size), size) for size in sizes])

    def export(self) -> list[int]:
        """A new descriptor per block of a row that was `created`; the caller closes them."""
        exported = Descriptors()
        try:
            for handle in self.handles:
                exported.extend([vmm.export_descriptor(handle)])
        except BaseException:
            exported.close()
            raise
        return exported.numbers()

    def close(self) -> None:
        self._undo.close()
        self.handles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, blocks: list[tuple[_Source, int]]) -> MappedRow:
        self._driver.bind(self.device.ordinal)
        self.size = sum(size for _source, size in blocks)
        try:
            self.base = vmm.reserve(self.size)
            self._undo.callback(vmm.free_addresses, self.base, self.size)
            at = self.base
            for source, size in blocks:
                handle = source()
                self._undo.callback(vmm.release, handle)
                self.handles.append(handle)
                vmm.map_handle(at, size, handle)
                self._undo.callback(vmm.unmap, at, size)
                at += size
            vmm.allow(self.base, self.size, self.device)
        except BaseException:
            self.close()
            raise
        return self
