"""Pinned host memory and asynchronous copies. The calling thread has bound the device's context."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from cuda.bindings import driver as cu

from torpor.driver.results import check


def pin(address: int, size: int) -> None:
    """Register host memory for copies with every context. Blocks for up to milliseconds per 64 MiB."""
    check("cuMemHostRegister", cu.cuMemHostRegister(address, size, cu.CU_MEMHOSTREGISTER_PORTABLE))


def unpin(address: int) -> None:
    check("cuMemHostUnregister", cu.cuMemHostUnregister(address))


class Stream:
    """A stream of the current context, destroyed at the end of its `with` block."""

    def __init__(self) -> None:
        flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        self._stream = check("cuStreamCreate", cu.cuStreamCreate(flags))

    @property
    def handle(self) -> cu.CUstream:
        """The driver's own handle, for what else is queued on it."""
        return self._stream

    def to_host(self, host: int, device: int, size: int) -> None:
        """Queue a copy of `size` bytes from a device address to pinned host memory."""
        call = cu.cuMemcpyDtoHAsync(host, cu.CUdeviceptr(device), size, self._stream)
        check("cuMemcpyDtoHAsync", call)

    def to_device(self, device: int, host: int, size: int) -> None:
        """Queue a copy of `size` bytes from pinned host memory to a device address."""
        call = cu.cuMemcpyHtoDAsync(cu.CUdeviceptr(device), host, size, self._stream)
        check("cuMemcpyHtoDAsync", call)

    def wait(self) -> None:
        """Return when everything queued is done; raises what went wrong in it."""
        check("cuStreamSynchronize", cu.cuStreamSynchronize(self._stream))

    def close(self) -> None:
        check("cuStreamDestroy", cu.cuStreamDestroy(self._stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
