"""What clients and keepers say to each other, over real sockets with long paths."""

from __future__ import annotations

import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from torpor import paths
from torpor.errors import KeeperUnavailable
from torpor.keeper import messages, sockets
from torpor.keeper.client import KeeperClient

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


def test_an_error_of_who_follows_the_progress_is_not_the_keepers(home: Path) -> None:
    del home
    paths.make_private(paths.home())
    paths.make_private(paths.keeper_dir())

    def show(_progress: messages.Progress) -> None:
        raise OSError(errno.ENOSPC, "no room for a report")

    def serve(listener: socket.socket) -> None:
        server, _address = listener.accept()
        with server:
            messages.receive(server)
            messages.send(server, messages.Progress(phase="copy", event="start"))

    with sockets.listen(paths.keeper_socket("sim"), socket.SOCK_STREAM) as listener, ThreadPoolExecutor(1) as threads:
        serving = threads.submit(serve, listener)
        with pytest.raises(OSError, match="no room for a report"):
            KeeperClient("sim").call("checkpoint", {}, show)
        serving.result()
