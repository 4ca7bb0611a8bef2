"""A program under the interposer on the software GPU, and a client of its control socket, for tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, eventually
from torpor import paths

MIB = 1 << 20
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, NOT_SUPPORTED = 0, 1, 2, 201, 801

HELLO, FREEZE, EXPORT, RELEASE, RETURN, THAW = range(1, 7)
_HEADER = struct.Struct("<IHHiI")
RECORD = struct.Struct("<QQiIQ")


def libraries() -> tuple[Path, Path]:
    """The built interposer and software GPU."""
    interposer, software_gpu = paths.interposer(), paths.software_gpu()
    assert interposer is not None, "the interposer is not built: run scripts/setup"
    assert software_gpu is not None, "the software GPU is not built: run scripts/setup"
    return interposer, software_gpu


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What `torpor run` gives a job on the software GPU, with `folder` as the job's folder."""
    interposer, software_gpu = libraries()
    return {
        **os.environ,
        "LD_PRELOAD": str(interposer),
        "TORPOR_REAL_LIBCUDA": str(software_gpu),
        "TORPOR_JOB_DIR": str(folder),
        "TORPOR_SIM_DIR": str(folder),  # devices of its own: free memory must not move with other tests
        **more,
    }


def native_environment(folder: Path, **more: str) -> dict[str, str]:
    """A program on the GPU without Torpor."""
    del folder
    return {**os.environ, **more}


def gpu_environment(folder: Path, **more: str) -> dict[str, str]:
    """What `torpor run` gives a job on the GPU."""
    return environment(folder, TORPOR_REAL_LIBCUDA=str(paths.real_libcuda()), **more)


class Program:
    """A running `job.py`; attribute access gives driver calls: `program.cuMemFree_v2(address)`."""

    def __init__(self, folder: Path, surroundings: Callable[..., dict[str, str]] = environment, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "tests/native/arena/job.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=surroundings(folder, **env),
            text=True,
            start_new_session=True,
        )
        self.socket = folder / "ctl" / str(self.process.pid)

    def tell(self, **told: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the program ended: {self.end()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *args: self.call(name, *args)

    def call(self, name: str, *args: Any) -> tuple[int, list[bytes]]:
        """The CUresult and the bytes of each `out(n)` argument."""
        answer = self.tell(call=name, args=list(args))
        return answer["result"], [bytes.fromhex(each) for each in answer["outs"]]

    def ok(self, name: str, *args: Any) -> list[bytes]:
        result, outputs = self.call(name, *args)
        assert result == SUCCESS, f"{name}{args} returned {result}"
        return outputs

    def number(self, name: str, *args: Any) -> int:
        """The first output of a call that must succeed, as a little-endian number."""
        return int.from_bytes(self.ok(name, *args)[0], "little")

    def begin(self, name: str, *args: Any, first: Sequence[tuple[Any, ...]] = ()) -> int:
        """Make the call in a thread of its own, after the calls in `first`; `finish` waits for it."""
        before = [{"call": each[0], "args": list(each[1:])} for each in first]
        return int(self.tell(call=name, args=list(args), thread=True, first=before)["thread"])

    def finish(self, thread: int, seconds: float = 100.0) -> dict[str, Any]:
        return self.tell(join=thread, seconds=seconds)

    def value(self, expression: str) -> Any:
        return self.tell(eval=expression)["value"]

    def start_up(self, device: int = 0) -> int:
        """cuInit and the primary context of a device, made current; returns the context."""
        self.ok("cuInit", 0)
        context = self.number("cuDevicePrimaryCtxRetain", out(8), device)
        self.ok("cuCtxSetCurrent", context)
        return context

    def allocate(self, size: int) -> int:
        return self.number("cuMemAlloc_v2", out(8), size)

    def fill(self, address: int, size: int, byte: int) -> None:
        self.ok("cuMemsetD8_v2", address, byte, size)

    def read(self, address: int, size: int) -> bytes:
        return self.ok("cuMemcpyDtoH_v2", out(size), address, size)[0]

    def execute(self, code: str) -> None:
        """Run Python statements in the program."""
        self.tell(exec=code)

    def limit_descriptors(self, soft: int) -> None:
        """Change how many descriptors the program may open. Below 1024 Torpor keeps none of its own."""
        self.execute(f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 20000))")

    def control(self) -> Control:
        eventually(self.socket.exists)
        return Control(self.socket)

    def end(self) -> str:
        """End the program; returns what it wrote to its standard error."""
        assert self.process.stdin is not None
        if self.process.stdin.closed:
            return ""
        self.process.stdin.close()
        try:
            self.process.wait(100)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(ProcessLookupError):  # a child that a failed test left would keep the pipes open
            os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return errors


def out(size: int) -> dict[str, int]:
    """An output argument of `size` bytes."""
    return {"out": size}


class Control:
    """A bare client of the control protocol: no opinion about what it sends."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(100)
        try:
            eventually(lambda: self._connects(path))
        except BaseException:
            self.socket.close()
            raise

    def _connects(self, path: Path) -> bool:
        try:
            self.socket.connect(str(path))
        except ConnectionRefusedError:  # bound, and about to listen
            return False
        return True

    def request(self, op: int, payload: bytes = b"", fds: Sequence[int] = ()) -> tuple[int, bytes, list[int]]:
        """Status, payload and descriptors of the reply."""
        self.send_raw(_HEADER.pack(0x52505254, 1, op, 0, len(payload)) + payload, fds)
        status, answered, body, got = self.receive_raw()
        assert answered == op
        return status, body, got

    def send_raw(self, data: bytes, fds: Sequence[int] = ()) -> None:
        socket.send_fds(self.socket, [data], list(fds))

    def receive_raw(self) -> tuple[int, int, bytes, list[int]]:
        data, fds, _flags, _address = socket.recv_fds(self.socket, 65536, 64, socket.MSG_CMSG_CLOEXEC)
        assert data, "the control thread closed the connection"
        magic, version, op, status, length = _HEADER.unpack_from(data)
        assert (magic, version, length) == (0x52505254, 1, len(data) - 16)
        return status, op, data[16:], list(fds)

    def json(self, op: int, payload: bytes = b"", fds: Sequence[int] = (), status: int = 0) -> dict[str, Any]:
        """A reply with the expected status whose payload is JSON."""
        got, body, _none = self.request(op, payload, fds)
        assert got == status, body
        answer: dict[str, Any] = json.loads(body)
        return answer

    def freeze(self, milliseconds: int = 100_000, status: int = 0) -> dict[str, Any]:
        return self.json(FREEZE, struct.pack("<I", milliseconds), status=status)

    def export(self) -> tuple[list[bytes], list[int]]:
        """Every block's record and descriptor."""
        records: list[bytes] = []
        fds: list[int] = []
        while True:
            status, body, got = self.request(EXPORT, struct.pack("<II", len(records), 64))
            assert status == 0, body
            total, count = struct.unpack_from("<II", body)
            assert count == len(got)
            assert len(body) == 8 + count * RECORD.size
            records += [body[8 + i * 32 : 40 + i * 32] for i in range(count)]
            fds += got
            if len(records) == total:
                return records, fds
            assert count > 0

    def export_and_close(self) -> None:
        """Export every block and close the descriptors."""
        _records, fds = self.export()
        close_all(fds)

    def give_back(self, records: Sequence[bytes], fds: Sequence[int], status: int = 0) -> None:
        for first in range(0, len(records), 64):
            part = records[first : first + 64]
            self.json(RETURN, struct.pack("<I", len(part)) + b"".join(part), fds[first : first + 64], status)

    def cycle(self) -> list[bytes]:
        """Freeze, export, release, return, thaw; returns the records."""
        self.freeze()
        records, fds = self.export()
        try:
            self.json(RELEASE)
            self.give_back(records, fds)
        finally:
            close_all(fds)
        self.json(THAW)
        return records

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_what: object) -> None:
        self.close()


def state(control: Control) -> str:
    return str(control.json(HELLO)["state"])


def filled(running: Program) -> dict[int, tuple[int, int]]:
    """Start up and make allocations of several kinds; returns address -> size, byte."""
    running.start_up()
    live = {}
    for number, size in enumerate([1, 700, 100_000, MIB, MIB + 1, 3 * MIB, 40 * MIB]):
        address = running.allocate(size)
        running.fill(address, size, number + 1)
        live[address] = (size, number + 1)
    return live


def unchanged(running: Program, live: dict[int, tuple[int, int]]) -> bool:
    return all(running.read(address, size) == bytes([byte]) * size for address, (size, byte) in live.items())


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def program_fixture(**env: str) -> Any:
    """A fixture that gives one running Program with this environment and ends it."""

    @pytest.fixture
    def program(tmp_path: Path) -> Iterator[Program]:
        running = Program(tmp_path, environment, **env)
        yield running
        running.end()

    return program
