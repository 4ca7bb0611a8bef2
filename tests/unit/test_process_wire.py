"""Packets with descriptors, over sockets whose paths may be longer than the kernel takes."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from torpor.process import wire
from torpor.process.client import Attachment


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        yield left, right


@pytest.mark.parametrize("length", [20, 107, 108, 200, 250])
def test_paths_of_any_length(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    with wire.listen(folder) as listener, wire.connect(folder, timeout=100) as client:
        listener.setblocking(True)
        served, _ = listener.accept()
        with served:
            assert wire.may_talk(served)
            wire.send(client, {"a": "ü"})
            assert wire.parse(wire.receive(served)[0]) == {"a": "ü"}


def test_it_is_for_its_user_only_and_replaces_a_former_one(tmp_path: Path) -> None:
    wire.listen(tmp_path).close()
    umask = os.umask(0)
    try:
        with wire.listen(tmp_path), wire.connect(tmp_path, timeout=100):
            assert (tmp_path / wire.SOCKET_NAME).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(umask)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        wire.connect(tmp_path)
    wire.listen(tmp_path).close()
    with pytest.raises(ConnectionRefusedError):
        wire.connect(tmp_path)


def test_another_user_may_not_talk(monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]) -> None:
    credentials = {"uid": os.geteuid()}
    peer = _Peer(credentials)
    assert wire.may_talk(peer)  # type: ignore[arg-type]
    credentials["uid"] = 0
    assert wire.may_talk(peer)  # type: ignore[arg-type]
    credentials["uid"] = 4711
    assert not wire.may_talk(peer)  # type: ignore[arg-type]
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert wire.may_talk(peer)  # type: ignore[arg-type]
    assert wire.may_talk(pair[0]) == (os.getuid() == 0)


class _Peer:
    def __init__(self, credentials: dict[str, int]) -> None:
        self._credentials = credentials

    def getsockopt(self, level: int, option: int, length: int) -> bytes:
        assert (level, option, length) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return struct.pack("iII", 1, self._credentials["uid"], 7)


def test_descriptors_travel(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    fds = [os.memfd_create(f"block-{n}") for n in range(wire.MAX_FDS)]
    try:
        wire.send(left, {"count": len(fds)}, fds)
        data, got = wire.receive(right)
        try:
            assert wire.parse(data) == {"count": 64}
            assert [os.fstat(fd).st_ino for fd in got] == [os.fstat(fd).st_ino for fd in fds]
            assert not any(os.get_inheritable(fd) for fd in got)
        finally:
            wire.close_all(got)
    finally:
        wire.close_all(fds)


def test_what_is_too_large(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    with pytest.raises(ValueError, match="too large"):
        wire.send(left, {"a": "x" * wire.MAX_PACKET})
    with pytest.raises(ValueError, match="65 descriptors"):
        wire.send(left, {}, [0] * 65)
    left.send(b"x" * (wire.MAX_PACKET + 1))
    with pytest.raises(ConnectionError, match="longer than the protocol allows"):
        wire.receive(right)


@pytest.mark.parametrize("packet", [b"[1]", b"{", b"\xff", b"null"])
def test_what_is_no_object(packet: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.parse(packet)


def test_the_end_of_a_connection(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    assert wire.receive(pair[1]) == (b"", [])


def test_output_that_is_queued_outlives_a_supervisor_that_left_our_input_unread() -> None:
    """The kernel tells of the unread input first, by an error; what was sent before the end is still there."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    streams = Attachment(ours)
    streams.end_input()
    theirs.send(b"ohi")
    theirs.send(b'x{"exit_code": 3, "signal": null, "ended": 1.0, "checkpointed": false}')
    theirs.close()
    assert list(streams) == [("o", b"hi")]
    assert streams.end is not None
    assert streams.end.exit_code == 3
    streams.close()
