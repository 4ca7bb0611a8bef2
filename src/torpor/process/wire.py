"""Packets of JSON and descriptors over SOCK_SEQPACKET Unix sockets, whatever the length of their paths.

Imported by the supervisor at every start of a job, so it stays within a few light modules.
"""

from __future__ import annotations

import json
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_PACKET = 64 * 1024
MAX_FDS = 64
SOCKET_NAME = "supervisor.sock"

VERDICT_KEY = "verdict"
"""`inherit` key of the FIFO from which a dump's script reads what is to become of the dump. The supervisor keeps it:
when the connection that asked for CRIU ends before CRIU does, it writes `ROLL_BACK`, so a dead keeper freezes nobody.
"""
COMMIT, ROLL_BACK = b"commit\n", b"roll back\n"


def _at(folder: str | os.PathLike[str], name: str) -> tuple[int, str]:
    # A Unix socket's path ends after 108 bytes; through a descriptor of its folder it never gets that long.
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return fd, f"/proc/self/fd/{fd}/{name}"


def connect(folder: str | os.PathLike[str], name: str = SOCKET_NAME, timeout: float | None = None) -> socket.socket:
    """Connect to the socket `name` in `folder`. Raises OSError; TimeoutError when the backlog stays full."""
    fd, path = _at(folder, name)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(fd)
    return sock


def listen(folder: str | os.PathLike[str], name: str = SOCKET_NAME) -> socket.socket:
    """Listen on `name` in `folder`, for this user only, in place of whatever a former life left there."""
    fd, path = _at(folder, name)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(64)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(fd)
    return sock


def may_talk(sock: socket.socket) -> bool:
    """Whether the peer is this user or root."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    uid: int = struct.unpack("iII", raw)[1]
    return uid in (0, os.geteuid())


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one packet. Raises ValueError when it is too large, OSError when it cannot be sent."""
    data = json.dumps(message).encode()
    if len(data) > MAX_PACKET or len(fds) > MAX_FDS:
        raise ValueError(f"a packet of {len(data)} bytes and {len(fds)} descriptors is too large")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """One packet and its descriptors (close-on-exec); empty bytes at the end of the connection."""
    # Not socket.recv_fds: it does not pass its flags on.
    data, rights, flags, _ = sock.recvmsg(MAX_PACKET + 1, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4])
    if len(data) > MAX_PACKET or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        close_all(fds)
        raise ConnectionError("a packet was longer than the protocol allows")
    return data, fds


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object in a packet; ValueError when it is none."""
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")
    return message


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
