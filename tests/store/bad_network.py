"""A bad way to an HTTP server: a proxy that loses, cuts, delays and refuses what goes through it, at chosen points."""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Literal, get_args
from urllib.parse import urlsplit

Fault = Literal[
    "none",
    "refuse",
    "lose request",
    "cut request",
    "lose answer",
    "cut head",
    "cut answer",
    "busy",
    "broken",
    "slow",
    "forbid",
]
FAULTS: tuple[Fault, ...] = tuple(one for one in get_args(Fault) if one not in ("none", "forbid"))
"""Those that may pass; `forbid` does not."""

Choose = Callable[[bytes], Fault]
"""Is given the first line of a request, and says what becomes of it."""

_BLOCK = 64 << 10
_STATUS: dict[Fault, bytes] = {
    "busy": b"503 Slow Down",
    "broken": b"500 Internal Server Error",
    "forbid": b"403 Forbidden",
}


def at_random(seed: int, one_in: int) -> Choose:
    """Every kind of fault, for one in so many requests."""
    chosen = random.Random(seed)
    lock = threading.Lock()

    def choose(_line: bytes) -> Fault:
        with lock:
            return chosen.choice(FAULTS) if chosen.randrange(one_in) == 0 else "none"

    return choose


class BadNetwork:
    """Listens at `endpoint` and passes requests on to a server, one connection each, until `stop`."""

    def __init__(self, server: str, choose: Choose) -> None:
        where = urlsplit(server)
        self._server = (where.hostname or "", where.port or 80)
        self.choose = choose
        self.seen: Counter[Fault] = Counter()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._workers: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def stop(self) -> None:
        """Take no more connections and wait until those that there are have ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for worker in self._workers:
            worker.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            worker = threading.Thread(target=self._serve, args=(near,))
            self._workers.append(worker)
            worker.start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            try:
                head, rest = _read_head(near)
                if not head:
                    return
                line = head.partition(b"\r\n")[0]
                fault = self.choose(line)
                with self._lock:
                    self.seen[fault] += 1
                self._pass_on(near, head, rest, fault)
            except OSError:
                pass  # the client has gone, or the server has: an end of the connection in any case

    def _pass_on(self, near: socket.socket, head: bytes, rest: bytes, fault: Fault) -> None:
        if fault == "refuse":
            return
        if b"\r\nexpect: 100-continue" in head.lower():
            near.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = _read_body(near, rest, _length(head))
        if fault in _STATUS:
            near.sendall(b"HTTP/1.1 " + _STATUS[fault] + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if fault == "lose request":
            return
        with socket.create_connection(self._server) as far:
            if fault == "cut request":
                far.sendall(_closing(head) + body[: len(body) // 2])
                far.shutdown(socket.SHUT_WR)
                return
            far.sendall(_closing(head) + body)
            answer = _read_all(far)
        if fault == "lose answer":
            return
        if fault == "cut head":
            # Its first line and nothing else: a reader may take it for an answer that has nothing to say.
            answer = answer[: answer.index(b"\r\n") + 2]
        if fault == "cut answer":
            answer = answer[: len(answer) * 2 // 3]
        if fault == "slow":
            # In small pieces, which is what slow means to a reader; the test's time is not to be wasted.
            for at in range(0, len(answer), max(len(answer) // 50, 1)):
                near.sendall(answer[at : at + max(len(answer) // 50, 1)])
            return
        near.sendall(answer)


def _read_head(near: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        block = near.recv(_BLOCK)
        if not block:
            return b"", b""
        data += block
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _read_body(near: socket.socket, begin: bytes, length: int) -> bytes:
    data = bytearray(begin)
    while len(data) < length:
        block = near.recv(_BLOCK)
        if not block:
            raise ConnectionError("the client broke off")
        data += block
    return bytes(data)


def _read_all(far: socket.socket) -> bytes:
    data = bytearray()
    while block := far.recv(_BLOCK):
        data += block
    return bytes(data)


def _closing(head: bytes) -> bytes:
    """The head, with a word that the server is to close the connection after its answer."""
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith((b"connection:", b"expect:"))]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])
