"""Unix sockets whose paths may be longer than the 107 bytes of `sockaddr_un`, and who is at the other end."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A short name for `path`, through a descriptor of its folder; good until the block ends."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path, kind: socket.SocketKind, timeout: float | None = None) -> socket.socket:
    """A connection to the socket at `path`; OSError (FileNotFoundError, ConnectionRefusedError) when nobody listens."""
    channel = socket.socket(socket.AF_UNIX, kind)
    try:
        channel.settimeout(timeout)
        with _short(path) as name:
            channel.connect(name)
    except BaseException:
        channel.close()
        raise
    return channel


def connect_found(path: Path, kind: socket.SocketKind, timeout: float | None = None) -> socket.socket:
    """As `connect`, in a folder where others may put things: what leads elsewhere is not followed."""
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "it is no socket", str(path))
        channel = socket.socket(socket.AF_UNIX, kind)
        try:
            channel.settimeout(timeout)
            channel.connect(f"/proc/self/fd/{found}")
        except BaseException:
            channel.close()
            raise
        return channel
    finally:
        os.close(found)


def listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A listening socket at `path`, for this user only, in place of whatever is there."""
    path.unlink(missing_ok=True)
    channel = socket.socket(socket.AF_UNIX, kind)
    try:
        before = os.umask(0o177)
        try:
            with _short(path) as name:
                channel.bind(name)
        finally:
            os.umask(before)
        channel.listen(64)
    except BaseException:
        channel.close()
        raise
    return channel


def peer_uid(channel: socket.socket) -> int:
    """The user id of the process that made the connection (`SO_PEERCRED`)."""
    return _peer(channel)[1]


def peer_pid(channel: socket.socket) -> int:
    """The process that listens where the connection leads, or that made it; 0 when it has no number here."""
    return _peer(channel)[0]


def _peer(channel: socket.socket) -> tuple[int, int]:
    size = struct.calcsize("3i")
    pid, uid, _gid = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid
