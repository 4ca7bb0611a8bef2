"""The keeper's side of the control protocol (docs/design/control-protocol.md): one connection to one process."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from torpor.driver.results import result_name
from torpor.errors import FreezeTimeout, NoSpace, StepFailed
from torpor.keeper import sockets
from torpor.keeper.memory import Descriptors
from torpor.process import tree, wire

MAGIC = 0x52505254
VERSION = 1
HEADER = struct.Struct("<IHHiI")
RECORD = struct.Struct("<QQiIQ")
COUNTS = struct.Struct("<II")
PROFILE = struct.Struct("<IIQ")
MAX_DESCRIPTORS = 64

_SHARED = 1
_DEADLINE_PASSED = -3
_OUT_OF_MEMORY = 2
_ANSWER_SECONDS = 30.0
"""How long a reply to anything but FREEZE may take; EXPORT may copy blocks on the device first."""


class Op(IntEnum):
    HELLO = 1
    FREEZE = 2
    EXPORT = 3
    RELEASE = 4
    RETURN = 5
    THAW = 6
    PROFILE = 7


class Level(IntEnum):
    """What PROFILE asks for; `AS_IT_IS` only reads."""

    OFF = 0
    COUNTS = 1
    TIMES = 2
    AS_IT_IS = 3


class DeviceId(msgspec.Struct):
    ordinal: int
    uuid: str


class Counted(msgspec.Struct):
    """What a process has counted since it began: calls by symbol, bytes by direction, nanoseconds of timed calls.

    `clock_ns` is the process's CLOCK_MONOTONIC. `busy_ns` is how long each device was at work for the process, from a
    driver that keeps such a clock (the software GPU). `state` is `ended` for a process's last word.
    """

    pid: int
    state: str
    level: str
    lease_ms: int
    clock_ns: int
    threads: int
    calls: dict[str, int]
    bytes: dict[str, int]
    nanoseconds: dict[str, int]
    vm: dict[str, int] = {}
    devices: list[DeviceId] = []
    busy_ns: list[int] = []


class BlockCounts(msgspec.Struct):
    count: int = 0
    bytes: int = 0
    largest: int = 0
    imported: int = 0


class PinnedCounts(msgspec.Struct):
    """Pinned host memory in files."""

    count: int = 0
    bytes: int = 0


class Hello(msgspec.Struct):
    """What a process says of itself; `pid` as it sees itself, `residual` live counts by kind, `vm` of deferral."""

    protocol: int
    pid: int
    state: str
    arena: bool
    driver_version: int
    devices: list[DeviceId]
    blocks: BlockCounts
    pinned: PinnedCounts = msgspec.field(default_factory=PinnedCounts)
    residual: dict[str, int] = {}
    capturing: int = 0
    vm: dict[str, int] = {}
    unknown_symbols: list[str] = []


@dataclass(frozen=True)
class BlockRecord:
    """A block as the process has it: `device` is the process's own ordinal.

    `shared`: another record of the job may be the same memory. `owner`: the record (pid, address) that stands for this
    one's memory, when that is another.
    """

    address: int
    size: int
    device: int
    shared: bool = False
    owner: tuple[int, int] | None = None

    def pack(self) -> bytes:
        return RECORD.pack(self.address, self.size, self.device, 0, 0)

    @classmethod
    def unpack(cls, data: bytes) -> BlockRecord:
        address, size, device, flags, _reserved = RECORD.unpack(data)
        return cls(address, size, device, bool(flags & _SHARED))


class ControlClient:
    """One connection. It must be closed before CRIU dumps the process; closing it in `frozen` reopens the gate."""

    def __init__(
        self,
        control_dir: Path,
        pid: int,
        seconds: float = _ANSWER_SECONDS,
        *,
        is_it: Callable[[int], bool] | None = None,
    ) -> None:
        """Connect to the process with this `pid` (as the job sees it); StepFailed when it does not listen.

        `seconds` is how long an answer may take. `is_it` says whether a process of the host is the one that is meant:
        any process of the job may make a socket of any name. Nothing is sent to another.
        """
        self.pid = pid
        try:
            self._socket = sockets.connect_found(control_dir / str(pid), socket.SOCK_SEQPACKET, timeout=seconds)
        except OSError as error:
            raise StepFailed(
                step="connect", process=pid, reason=f"its control socket does not answer: {error.strerror or error}"
            ) from error
        found = sockets.peer_pid(self._socket)
        if is_it is not None and not is_it(found):
            self._socket.close()
            who = f"process {found} ({tree.name(found)}) of the host" if found else "a process of another namespace"
            raise StepFailed(
                step="connect",
                process=pid,
                reason=f"another process listens at its control socket: {who}",
                hint="end that one, or remove the socket that it made",
                details={"resource": "control-socket", "listener": found},
            )

    def hello(self) -> Hello:
        body, _fds = self._call(Op.HELLO)
        try:
            return msgspec.json.decode(body, type=Hello)
        except msgspec.DecodeError as error:
            raise self._failed("hello", f"its answer makes no sense: {error}") from error

    def freeze(self, seconds: float) -> None:
        """Close the gate and wait until nobody is inside and every context is idle; else FreezeTimeout."""
        self._socket.settimeout(seconds + _ANSWER_SECONDS)
        try:
            self._call(Op.FREEZE, struct.pack("<I", max(1, int(seconds * 1000))))
        finally:
            self._socket.settimeout(_ANSWER_SECONDS)

    def export(self, into: Descriptors) -> list[BlockRecord]:
        """Every block, with one descriptor each added to `into` in the same order."""
        records: list[BlockRecord] = []
        while True:
            body, fds = self._call(Op.EXPORT, COUNTS.pack(len(records), MAX_DESCRIPTORS))
            into.extend(fds)
            total, count = COUNTS.unpack_from(body)
            if count != len(fds) or (count == 0 and len(records) < total):
                raise self._failed("export", f"{count} blocks came with {len(fds)} descriptors")
            for number in range(count):
                start = COUNTS.size + number * RECORD.size
                records.append(BlockRecord.unpack(body[start : start + RECORD.size]))
            if len(records) >= total:
                return records

    def release(self) -> None:
        """Unmap and release every block; from now on the gate stays closed until all are returned."""
        self._call(Op.RELEASE)

    def give_back(self, blocks: list[BlockRecord], descriptors: list[int]) -> None:
        """RETURN blocks with their descriptors, which stay the caller's."""
        for first in range(0, len(blocks), MAX_DESCRIPTORS):
            part = blocks[first : first + MAX_DESCRIPTORS]
            body = struct.pack("<I", len(part)) + b"".join(block.pack() for block in part)
            self._call(Op.RETURN, body, descriptors[first : first + MAX_DESCRIPTORS])

    def thaw(self) -> None:
        """Open the gate."""
        self._call(Op.THAW)

    def profile(self, level: Level, lease: float = 0.0, owner: int = 0) -> Counted:
        """Count calls from now on, for `lease` seconds at most; what was counted so far."""
        body, _fds = self._call(Op.PROFILE, PROFILE.pack(level, int(lease * 1000), owner))
        try:
            return msgspec.json.decode(body, type=Counted)
        except msgspec.DecodeError as error:
            raise self._failed("profile", f"its answer makes no sense: {error}") from error

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, op: Op, body: bytes = b"", descriptors: list[int] | None = None) -> tuple[bytes, list[int]]:
        step = op.name.lower()
        packet = HEADER.pack(MAGIC, VERSION, op, 0, len(body)) + body
        try:
            socket.send_fds(self._socket, [packet], descriptors or [])
            data, fds = wire.receive(self._socket)
        except OSError as error:
            raise self._failed(step, f"its control thread does not answer: {error.strerror or error}") from error
        try:
            if not data:
                raise self._failed(step, "it closed the control connection (it may have ended)")
            magic, version, answered, status, length = HEADER.unpack_from(data)
            if (magic, version, answered) != (MAGIC, VERSION, op) or length != len(data) - HEADER.size:
                raise self._failed(step, "its answer is not of this protocol")
            if status != 0:
                raise self._refusal(step, status, data[HEADER.size :])
        except BaseException:
            Descriptors(fds).close()
            raise
        return data[HEADER.size :], fds

    def _refusal(self, step: str, status: int, body: bytes) -> FreezeTimeout | NoSpace | StepFailed:
        try:
            facts = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError:
            facts = {}
        message = str(facts.get("message") or "no reason given")
        details = {"process": self.pid, **facts}
        if status == _DEADLINE_PASSED:
            return FreezeTimeout(
                f"process {self.pid} did not come to rest in time: {_who(facts) or message}",
                hint="give it a longer deadline, or try when it is less busy",
                details=details,
            )
        if status == _OUT_OF_MEMORY:
            return NoSpace(
                f"{step} failed (process {self.pid}): {message}",
                hint="free memory on that GPU, or checkpoint without --leave-running next time",
                details={"step": step, **details},
            )
        reason = f"{result_name(status)}: {message}" if status > 0 else message
        return self._failed(step, reason)

    def _failed(self, step: str, reason: str) -> StepFailed:
        return StepFailed(step=step, process=self.pid, reason=reason)


def sockets_in(control_dir: Path) -> list[int]:
    """Pids (as the job sees them) that have, or had, a control socket in this folder."""
    try:
        return sorted(int(name) for name in os.listdir(control_dir) if name.isdecimal())
    except FileNotFoundError:
        return []


def _who(facts: dict[str, Any]) -> str:
    inside = [f"thread {one.get('tid')} is in {one.get('call')}" for one in facts.get("inside", [])]
    busy = [f"GPU {ordinal} is busy" for ordinal in facts.get("busy", [])]
    return ", ".join(inside + busy)
