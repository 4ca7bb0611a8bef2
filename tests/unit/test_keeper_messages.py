"""What clients and keepers say to each other, over real sockets with long paths."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from torpor.errors import KeeperUnavailable
from torpor.keeper import messages, sockets

MESSAGES: list[messages.Message] = [
    messages.Request(verb="checkpoint", params={"job": "train-1", "deadline": 2.5}),
    messages.Progress(phase="copy", event="move", seconds=0.25, bytes=1 << 40, total=1 << 41),
    messages.Done(result={"image": "/x", "phases": {"copy": 0.1}}),
    messages.Failed(error={"kind": "no-space", "details": {"needed": 5}}),
]


@pytest.fixture
def long_path(tmp_path: Path) -> Path:
    folder = tmp_path / ("d" * 120) / ("e" * 120)
    folder.mkdir(parents=True)
    return folder / "keeper.sock"


def test_messages_arrive_as_they_were_sent(long_path: Path) -> None:
    with sockets.listen(long_path, socket.SOCK_STREAM) as listener:
        with sockets.connect(long_path, socket.SOCK_STREAM) as client:
            server, _address = listener.accept()
            with server:
                for message in MESSAGES:
                    messages.send(client, message)
                assert [messages.receive(server) for _message in MESSAGES] == MESSAGES
                client.shutdown(socket.SHUT_WR)
                assert messages.receive(server) is None


def test_the_socket_is_for_this_user_only(long_path: Path) -> None:
    with sockets.listen(long_path, socket.SOCK_STREAM) as listener:
        assert long_path.stat().st_mode & 0o777 == 0o600
        with sockets.connect(long_path, socket.SOCK_STREAM):
            server, _address = listener.accept()
            with server:
                assert sockets.peer_uid(server) == os.getuid()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x03\x00\x00\x00abc"])
def test_what_is_not_ours_is_refused(data: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(data)
        with pytest.raises(KeeperUnavailable):
            messages.receive(right)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"job": "a", "tier": "hbm", "surprise": 1}, messages.SuspendParams)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"job": "a", "tier": "tape"}, messages.SuspendParams)
