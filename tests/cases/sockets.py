"""Sockets that stay within the job, and such as wait for somebody."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[], Any]


def unix_pair(_place: Path) -> Check:
    """Streams, datagrams and packets, each with something under way; one end shut down for writing."""
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
    pairs = [socket.socketpair(socket.AF_UNIX, kind) for kind in kinds]
    for a, _b in pairs:
        a.send(b"under way")
    done, other = socket.socketpair()
    done.send(b"last")
    done.shutdown(socket.SHUT_WR)
    ended: list[bytes] = []

    def check() -> Any:
        found = []
        for a, b in pairs:
            got = b.recv(100)
            b.send(got)
            found.append(a.recv(100).decode())
            a.send(got)
        if not ended:
            ended.extend([other.recv(10), other.recv(10)])
        return found, [piece.decode() for piece in ended]

    return check


def unix_listener(place: Path) -> Check:
    """By path and by abstract name, with somebody waiting to be accepted."""
    by_path = socket.socket(socket.AF_UNIX)
    by_path.bind(str(place / "listener"))
    by_path.listen(4)
    name = f"\0torpor-{place}"
    by_name = socket.socket(socket.AF_UNIX)
    by_name.bind(name)
    by_name.listen(4)

    def check() -> Any:
        found = []
        for address, listener in ((str(place / "listener"), by_path), (name, by_name)):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(address)
                accepted, _ = listener.accept()
                with accepted:
                    client.send(b"hello")
                    found.append(accepted.recv(10).decode())
        return found

    return check


def unix_across(_place: Path) -> Check:
    """Between two processes."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        while data := theirs.recv(100):
            theirs.send(data.upper())
        os._exit(0)
    theirs.close()

    def check() -> Any:
        ours.send(b"shout")
        return ours.recv(100).decode()

    return check


def descriptors_under_way(_place: Path) -> Check:
    """A descriptor that was sent and not yet received."""
    a, b = socket.socketpair()
    reader, writer = os.pipe()
    socket.send_fds(a, [b"take"], [reader])
    os.close(reader)
    got: list[int] = []

    def check() -> Any:
        if not got:
            got.extend(socket.recv_fds(b, 10, 1)[1])
        os.write(writer, b"through")
        return os.read(got[0], 100).decode()

    return check


def tcp_listener(_place: Path) -> Check:
    """On all addresses and on one, IPv4 and IPv6."""
    listeners = [
        socket.create_server(("", 0)),
        socket.create_server(("127.0.0.1", 0)),
        socket.create_server(("::1", 0), family=socket.AF_INET6),
    ]

    def check() -> Any:
        found = []
        for listener in listeners:
            name = listener.getsockname()
            host = "127.0.0.1" if name[0] == "0.0.0.0" else name[0]
            with socket.create_connection((host, name[1])) as client:
                accepted, _ = listener.accept()
                with accepted:
                    client.send(b"hello")
                    found.append(accepted.recv(10).decode())
        return found

    return check


def tcp_pair(_place: Path) -> Check:
    """A connection through the loopback address with both ends in the job, and bytes under way in both directions."""
    pairs = []
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with socket.create_server((host, 0), family=family) as listener:
            client = socket.create_connection(listener.getsockname()[:2])
            pairs.append((client, listener.accept()[0]))
    for pair in pairs:
        for one in pair:
            one.send(b"under way")

    def check() -> Any:
        found = []
        for a, b in pairs:
            for one, other in ((a, b), (b, a)):
                got = one.recv(100)
                other.send(got)
                other.recv(0)
                found.append(got.decode())
        for a, b in pairs:  # what was sent back and forth is what is under way again
            for one in (a, b):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    return check


def tcp_across(_place: Path) -> Check:
    """Between two processes, with a listener that stays: what a store of torch.distributed is."""
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        served, _ = listener.accept()
        while data := served.recv(100):
            served.send(data.upper())
        os._exit(0)
    client = socket.create_connection(listener.getsockname())
    client.send(b"x")
    client.recv(1)

    def check() -> Any:
        client.send(b"shout")
        return client.recv(100).decode()

    return check


def tcp_waiting(_place: Path) -> Check:
    """A thread inside recv on a loopback connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
    got: list[str] = []
    arrived = threading.Semaphore(0)

    def receive() -> None:
        while data := served.recv(100):
            got.append(data.decode())
            arrived.release()

    threading.Thread(target=receive, daemon=True).start()

    def check() -> Any:
        client.send(b"late")
        arrived.acquire()
        return got[-1]

    return check


def udp(_place: Path) -> Check:
    """Bound, connected, and connected to an address that is not the job's."""
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind(("127.0.0.1", 0))
    b.bind(("127.0.0.1", 0))
    a.connect(b.getsockname())
    b.connect(a.getsockname())
    far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far.connect(("127.0.0.1", 9))

    def check() -> Any:
        a.send(b"datagram")
        return b.recv(100).decode(), far.getpeername()

    return check


def options(_place: Path) -> Check:
    """Of a listener: what was set on it stays set."""
    one = socket.socket(socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
    one.settimeout(75.5)
    one.bind(("127.0.0.1", 0))
    one.listen()

    def check() -> Any:
        sol, tcp = socket.SOL_SOCKET, socket.IPPROTO_TCP
        return (
            [one.getsockopt(sol, option) for option in (socket.SO_REUSEADDR, socket.SO_KEEPALIVE, socket.SO_RCVBUF)],
            [one.getsockopt(tcp, option) for option in (socket.TCP_KEEPIDLE, socket.TCP_NODELAY)],
            struct.unpack("ii", one.getsockopt(sol, socket.SO_LINGER, 8)),
            one.gettimeout(),
        )

    return check


def netlink(_place: Path) -> Check:
    one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    one.bind((0, 0))

    def check() -> Any:
        one.send(struct.pack("IHHIIB3x", 20, 18, 0x301, 1, 0, socket.AF_UNSPEC))  # RTM_GETLINK, all
        found = one.recv(1 << 16)
        while struct.unpack_from("IH", found)[1] != 3:  # NLMSG_DONE
            found = one.recv(1 << 16)
        return True

    return check


KINDS = {
    one.__name__: one
    for one in (
        unix_pair,
        unix_listener,
        unix_across,
        descriptors_under_way,
        tcp_listener,
        tcp_pair,
        tcp_across,
        tcp_waiting,
        udp,
        options,
        netlink,
    )
}
