"""Runs worker processes on the software GPU and speaks with them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from torpor import paths

MIB, GIB = 1 << 20, 1 << 30

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
NO_DEVICE, INVALID_DEVICE, INVALID_CONTEXT = 100, 101, 201
INVALID_HANDLE, ILLEGAL_STATE, NOT_FOUND, NOT_READY = 400, 401, 500, 600
CONTEXT_IS_DESTROYED, NOT_SUPPORTED = 709, 801


def software_gpu() -> Path:
    """The built library."""
    library = paths.software_gpu()
    assert library is not None, "the software GPU is not built: run scripts/setup"
    return library


def environment(folder: Path, **more: str) -> dict[str, str]:
    """For a process on the software GPU, with `folder` as its machine: no memory is shared with other tests."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TORPOR_SIM_", "CUDA_VISIBLE_"))}
    return {**inherited, "LD_LIBRARY_PATH": str(software_gpu().parent), "TORPOR_SIM_DIR": str(folder), **more}


class Program:
    """A running worker, started by the command `inside` if one is given.

    `call` gives the status and the outputs, `ok` insists on success.
    """

    def __init__(self, folder: Path, inside: Sequence[str] = (), **env: str) -> None:
        self.process = subprocess.Popen(
            [*inside, sys.executable, str(REPOSITORY / "tests/native/simgpu/worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(folder, **env),
            text=True,
        )
        self.pid = self.process.pid

    def send(self, **told: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended: {self.end()}"
        return json.loads(line)

    def begin(self, name: str, *args: Any) -> None:
        """Make a call that may block; `finish` waits for it and gives its status."""
        self.send(call=name, args=list(args))

    def finish(self) -> int:
        return int(self.receive()[0])

    def call(self, name: str, *args: Any) -> tuple[int, list[bytes]]:
        self.begin(name, *args)
        status, outputs = self.receive()
        return status, [bytes.fromhex(each) for each in outputs]

    def status(self, name: str, *args: Any) -> int:
        return self.call(name, *args)[0]

    def ok(self, name: str, *args: Any) -> list[bytes]:
        status, outputs = self.call(name, *args)
        assert status == SUCCESS, f"{name}{args} returned {status}"
        return outputs

    def number(self, name: str, *args: Any) -> int:
        """The first output of a call that must succeed, as a little-endian number."""
        return int.from_bytes(self.ok(name, *args)[0], "little")

    def python(self, expression: str) -> Any:
        self.send(python=expression)
        return self.receive()

    def place(self, data: bytes) -> int:
        """The address of these bytes in pageable memory of the program, for as long as it lives."""
        kept = f"kept.append(ctypes.create_string_buffer(bytes.fromhex('{data.hex()}'), {len(data)}))"
        return int(self.python(f"({kept}, ctypes.addressof(kept[-1]))[1]"))

    def poke(self, address: int, data: bytes) -> None:
        """Write into the program's memory from outside, also while it is busy in a call."""
        with Path(f"/proc/{self.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(data)

    def forked(self, name: str, *args: Any) -> int:
        """The status of a call made in a forked child."""
        self.send(fork={"call": name, "args": list(args)})
        return int(self.receive()[0])

    def start_up(self, device: int = 0) -> int:
        """cuInit and the primary context of a device, made current; returns the context."""
        self.ok("cuInit", 0)
        context = self.number("cuDevicePrimaryCtxRetain", out(8), device)
        self.ok("cuCtxSetCurrent", context)
        return context

    def allocate(self, size: int) -> int:
        return self.number("cuMemAlloc_v2", out(8), size)

    def write(self, address: int, data: bytes) -> None:
        self.ok("cuMemcpyHtoD_v2", address, {"bytes": data.hex()}, len(data))

    def read(self, address: int, size: int) -> bytes:
        return self.ok("cuMemcpyDtoH_v2", out(size), address, size)[0]

    def free_memory(self) -> int:
        return self.number("cuMemGetInfo_v2", out(8), out(8))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> str:
        """End the program; returns what it wrote to its standard error."""
        self.process.kill()
        return self.process.communicate()[1]


Start = Callable[..., Program]


def programs_fixture() -> Any:
    """A fixture that starts workers, all on one machine of the test's own, with more environment by keyword."""

    @pytest.fixture
    def start(tmp_path: Path) -> Iterator[Start]:
        running: list[Program] = []

        def begin(**env: str) -> Program:
            running.append(Program(tmp_path, **env))
            return running[-1]

        yield begin
        for each in running:
            each.end()

    return start


def out(size: int) -> dict[str, int]:
    """An output argument of `size` bytes."""
    return {"out": size}


def given(data: bytes) -> dict[str, str]:
    """An argument that points to these bytes."""
    return {"bytes": data.hex()}


def by_value(data: bytes) -> dict[str, str]:
    """An argument that is a struct of these bytes."""
    return {"value": data.hex()}


POSIX_FD = 1
_DEVICE = 1


def properties(device: int = 0, handle_types: int = POSIX_FD, location_type: int = _DEVICE) -> dict[str, str]:
    """A CUmemAllocationProp for pinned memory."""
    return given(struct.pack("<iiiiQQ", 1, handle_types, location_type, device, 0, 0))


def access(*devices: int, flags: int = 3) -> dict[str, str]:
    """CUmemAccessDesc for each device; 3 = read and write."""
    return given(b"".join(struct.pack("<iii", _DEVICE, device, flags) for device in devices))


class Mapping:
    """A block of its own, mapped at an address of its own, readable and writable from its device."""

    def __init__(self, program: Program, size: int, hint: int = 0, device: int = 0) -> None:
        self.program, self.size = program, size
        self.handle = program.number("cuMemCreate", out(8), size, properties(device), 0)
        self.address = program.number("cuMemAddressReserve", out(8), size, 0, hint, 0)
        program.ok("cuMemMap", self.address, size, 0, self.handle, 0)
        program.ok("cuMemSetAccess", self.address, size, access(device), 1)

    def export(self) -> int:
        """A descriptor number in the program."""
        return self.program.number("cuMemExportToShareableHandle", out(4), self.handle, POSIX_FD, 0)

    def drop(self) -> None:
        self.program.ok("cuMemUnmap", self.address, self.size)
        self.program.ok("cuMemRelease", self.handle)
