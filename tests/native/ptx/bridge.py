"""Runs PTX text on the software GPU's executor alone, without a driver around it."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import REPOSITORY

# exec::Fault::Kind, in order
FAULTS = (
    "none", "illegal_address", "misaligned_address", "invalid_space", "invalid_pc", "stack_error",
    "illegal_instruction", "trap", "assertion", "cancelled", "out_of_memory",
)  # fmt: skip


class Rejected(Exception):
    """The text is not valid PTX; the message is the log's line."""


@cache
def library() -> ctypes.CDLL:
    """The bridge as built last, in TORPOR_PTX_BUILD or this checkout's build folder (scripts/setup makes it)."""
    folder = Path(os.environ.get("TORPOR_PTX_BUILD") or REPOSITORY / "build")
    built = sorted(folder.rglob("libtorpor_ptx_bridge.so"), key=lambda path: path.stat().st_mtime)
    assert built, f"no libtorpor_ptx_bridge.so below {folder}: run scripts/setup"
    loaded = ctypes.CDLL(str(built[-1]))
    loaded.bridge_load.restype = ctypes.c_void_p
    loaded.bridge_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    loaded.bridge_unload.argtypes = [ctypes.c_void_p]
    return loaded


@dataclass
class Result:
    """What a launch left: the fault's name, its message, and what printf wrote."""

    fault: str
    message: str
    printed: str


class Buffer:
    """Device memory that holds `data`, at an address aligned to 64 bytes."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._raw = ctypes.create_string_buffer(len(data) + 64)
        self.address = (ctypes.addressof(self._raw) + 63) & ~63
        ctypes.memmove(self.address, data, len(data))

    def read(self, layout: str) -> list[int | float]:
        """All of it, as values of one struct letter ("I", "f", …)."""
        return [value for (value,) in struct.iter_unpack("<" + layout, ctypes.string_at(self.address, self.size))]


class Module:
    """A loaded text."""

    def __init__(self, text: str) -> None:
        encoded = text.encode()
        why = ctypes.create_string_buffer(512)
        self._handle = library().bridge_load(encoded, len(encoded), why, len(why))
        if not self._handle:
            raise Rejected(why.value.decode())

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().bridge_unload(self._handle)

    def facts(self, kernel: str) -> tuple[int, int, int, int]:
        """Bytes of parameters, static shared memory and local memory per thread; most threads of a block."""
        out = (ctypes.c_uint32 * 4)()
        assert library().bridge_kernel(ctypes.c_void_p(self._handle), kernel.encode(), out)
        return out[0], out[1], out[2], out[3]

    def run(
        self,
        kernel: str,
        *arguments: Buffer | int,
        grid: int | tuple[int, int, int] = 1,
        block: int | tuple[int, int, int] = 32,
        shared: int = 0,
        cooperative: bool = False,
    ) -> Result:
        """Runs a grid to its end. Buffers and integers become parameters of 8 bytes each."""
        grid = (grid, 1, 1) if isinstance(grid, int) else grid
        block = (block, 1, 1) if isinstance(block, int) else block
        values = [one.address if isinstance(one, Buffer) else one & (2**64 - 1) for one in arguments]
        buffers = [one for one in arguments if isinstance(one, Buffer)]
        parameters = (ctypes.c_uint64 * (len(values) + 64))(*values)
        ranges = (ctypes.c_uint64 * (2 * len(buffers) + 1))(*(n for one in buffers for n in (one.address, one.size)))
        printed, why = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(1024)
        fault = library().bridge_run(
            ctypes.c_void_p(self._handle), kernel.encode(), (ctypes.c_uint32 * 6)(*grid, *block), shared,
            int(cooperative), parameters, ranges, ctypes.c_size_t(len(buffers)), printed,
            ctypes.c_size_t(len(printed)), why, ctypes.c_size_t(len(why)),
        )  # fmt: skip
        assert fault < len(FAULTS), "no such kernel"
        return Result(FAULTS[fault], why.value.decode(), printed.value.decode())
