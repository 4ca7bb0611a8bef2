"""Sockets on an address that the host may not have when the job wakes (`ADDRESS`), and such as do not care."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[], Any]

ADDRESS = "10.88.0.1"
OTHER = "10.88.0.2"


def wildcard(_place: Path) -> Check:
    """Reached by the loopback address and by whatever address of the two the host has now."""
    listener = socket.create_server(("", 0))
    port = listener.getsockname()[1]

    def check() -> Any:
        reached = []
        for host in ("127.0.0.1", ADDRESS, OTHER):
            try:
                client = socket.create_connection((host, port), timeout=100)
            except OSError:
                continue
            accepted, _ = listener.accept()
            client.send(b"hello")
            reached.append((host, accepted.recv(10).decode()))
            client.close()
            accepted.close()
        return reached

    return check


def loopback_pair(_place: Path) -> Check:
    return _pair("127.0.0.1")


def specific(_place: Path) -> Check:
    listener = socket.create_server((ADDRESS, 0))

    def check() -> Any:
        with socket.create_connection(listener.getsockname(), timeout=100) as client:
            accepted, _ = listener.accept()
            with accepted:
                client.send(b"hello")
                return accepted.recv(10).decode()

    return check


def specific_pair(_place: Path) -> Check:
    return _pair(ADDRESS)


def _pair(host: str) -> Check:
    with socket.create_server((host, 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
    client.send(b"under way")

    def check() -> Any:
        there = served.recv(100)
        served.send(there[::-1])
        back = client.recv(100)
        client.send(there)
        return there.decode(), back.decode()

    return check


KINDS = {one.__name__: one for one in (wildcard, loopback_pair, specific, specific_pair)}
