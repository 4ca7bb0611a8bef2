"""Connecting in a folder where others may put things."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from torpor.keeper import sockets


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tp-", dir="/tmp") as name:
        yield Path(name)


def test_what_is_found_is_what_listens_there(folder: Path) -> None:
    with sockets.listen(folder / "one", socket.SOCK_SEQPACKET) as listener:
        with sockets.connect_found(folder / "one", socket.SOCK_SEQPACKET, timeout=100) as channel:
            assert sockets.peer_pid(channel) == os.getpid()
            served, _address = listener.accept()
            with served:
                channel.send(b"hello")
                assert served.recv(10) == b"hello"


def test_what_leads_elsewhere_is_not_followed(folder: Path) -> None:
    with sockets.listen(folder / "one", socket.SOCK_SEQPACKET) as listener:
        listener.setblocking(False)
        (folder / "link").symlink_to(folder / "one")
        (folder / "file").touch()
        for name in ("link", "file"):
            with pytest.raises(ConnectionRefusedError):
                sockets.connect_found(folder / name, socket.SOCK_SEQPACKET)
        with pytest.raises(BlockingIOError):
            listener.accept()
        with pytest.raises(FileNotFoundError):
            sockets.connect_found(folder / "nothing", socket.SOCK_SEQPACKET)
    with pytest.raises(ConnectionRefusedError):
        sockets.connect_found(folder / "one", socket.SOCK_SEQPACKET)
