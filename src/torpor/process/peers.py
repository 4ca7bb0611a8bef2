"""Where the sockets of a job lead: to each other, or to somebody outside."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torpor.process.held import Descriptor, holder_of

_STATES = (
    *("?", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2"),
    *("time-wait", "closed", "close-wait", "last-ack", "listening", "closing"),
)
_SOCK_DIAG_BY_FAMILY, _DUMP_REQUEST, _DONE, _ERROR = 20, 0x301, 3, 2
_SHOW_NAME, _SHOW_PEER, _SHOW_WAITING = 0x1, 0x4, 0x8
_NAME, _PEER, _WAITING = 0, 2, 3  # attributes of an answer


@dataclass(frozen=True)
class Stream:
    """A TCP socket of /proc/net/tcp: addresses as `host:port`, `waiting` connections in a listener's queue."""

    local: str
    remote: str
    state: str
    waiting: int
    inode: int


@dataclass(frozen=True)
class Local:
    """A Unix socket: the inodes of its peer and of connections that wait to be accepted, its name."""

    inode: int
    name: str
    peer: int | None
    waiting: tuple[int, ...]


@dataclass(frozen=True)
class Outward:
    """A socket that leads out of the job; `what` says where, for a sentence. `passing`: it may soon be otherwise."""

    descriptor: Descriptor
    what: str
    passing: bool = False


def outward(held: Iterable[Descriptor]) -> Iterator[Outward]:
    """The sockets among all descriptors of a job that lead to somebody else."""
    sockets = {one.inode: one for one in held if one.target.startswith("socket:") and one.inode is not None}
    if not sockets:
        return
    yield from _streams(sockets)
    yield from _locals(sockets)


def _streams(sockets: dict[int, Descriptor]) -> Iterator[Outward]:
    first = next(iter(sockets.values())).owner.pid
    found = [one for name in ("tcp", "tcp6") for one in _read(f"/proc/{first}/net/{name}")]
    ends = {(one.local, one.remote): one for one in found}
    for one in found:
        if one.inode not in sockets or one.state == "closed":
            continue
        descriptor = sockets[one.inode]
        if one.state == "listening":
            if one.waiting:
                yield Outward(descriptor, f"a TCP connection to {one.local} that waits to be accepted", True)
            continue
        other = ends.get((one.remote, one.local))
        if other is not None and other.inode in sockets:
            continue
        if other is not None and other.inode == 0 and other.state == "established":
            yield Outward(descriptor, f"a TCP connection to {one.remote} that waits to be accepted", True)
        elif one.state != "close-wait" or not _is_loopback(one.remote):
            yield Outward(descriptor, f"a TCP connection to {one.remote} ({one.state})")


def _read(path: str) -> Iterator[Stream]:
    try:
        lines = Path(path).read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        number = int(fields[3], 16)
        state = _STATES[number] if number < len(_STATES) else "?"
        waiting = int(fields[4].split(":")[1], 16) if state == "listening" else 0
        yield Stream(_address(fields[1]), _address(fields[2]), state, waiting, int(fields[9]))


def _address(text: str) -> str:
    digits, port = text.split(":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    if len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]  # IPv4 through an IPv6 socket: its other end may be of either kind
    host = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"


def _is_loopback(address: str) -> bool:
    return address.startswith(("127.", "[::1]"))


def _locals(sockets: dict[int, Descriptor]) -> Iterator[Outward]:
    try:
        known = {one.inode: one for one in _ask_unix()}
    except OSError:
        return  # a kernel without socket diagnosis: CRIU needs it too, and says so
    queued = {inode for number in sockets if number in known for inode in known[number].waiting}
    for inode, descriptor in sockets.items():
        one = known.get(inode)
        if one is None or one.peer is None or one.peer in sockets or one.peer in queued:
            continue
        holder = holder_of(f"socket:[{one.peer}]")
        if holder is None and one.peer not in _in_queues(known):
            continue  # it is under way between two sockets, or has just been closed
        name = known[one.peer].name if one.peer in known else ""
        whose = f" of {holder}" if holder else ""
        yield Outward(descriptor, f"a Unix socket connected to {name or 'one'}{whose}, outside the job")


def _in_queues(known: dict[int, Local]) -> set[int]:
    return {inode for one in known.values() for inode in one.waiting}


def _ask_unix() -> Iterator[Local]:
    """Every Unix socket of this network namespace, as the kernel's socket diagnosis tells."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:  # NETLINK_SOCK_DIAG
        show = _SHOW_NAME | _SHOW_PEER | _SHOW_WAITING
        request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0, 0)
        link.send(struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP_REQUEST, 1, 0) + request)
        while True:
            data = link.recv(1 << 18)
            at = 0
            while at < len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", data, at + 16)
                    raise OSError(-code, f"sockets cannot be asked for: {os.strerror(-code)}")
                yield _local(data[at + 16 : at + length])
                at += (length + 3) & ~3


def _local(message: bytes) -> Local:
    (inode,) = struct.unpack_from("=I", message, 4)
    name, peer, waiting = "", None, ()
    at = 16
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        value = message[at + 4 : at + length]
        if kind == _NAME:
            name = value.decode(errors="replace").rstrip("\0").replace("\0", "@", 1)
        elif kind == _PEER:
            (peer,) = struct.unpack("=I", value)
        elif kind == _WAITING:
            waiting = struct.unpack(f"={len(value) // 4}I", value)
        at += max(4, (length + 3) & ~3)
    return Local(inode, name, peer or None, waiting)
