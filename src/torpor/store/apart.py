"""A backend in a process of its own (`apart_server`), which has other variables than this one, and lives as long.

A library that finds a place and opens it reads the variables of its process, and there is one set of them for all
threads. Whoever works for several users' places at once, as a keeper does, gives each a process instead; that one is
also what the library's own work in Python takes time from.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from torpor.errors import StepFailed, TorporError
from torpor.store.backend import NoObject, Passing, Stored, pour

_HEAD = struct.Struct("<IQ")
"""Bytes of a message (MessagePack), and of the data that follow it."""

_END_SECONDS = 5.0

_OWN = {one.__name__: one for one in (NoObject, Passing)}
"""Errors of backends, which cross as their parents would."""


class Call(msgspec.Struct, array_like=True):
    """One of a backend's methods. The data that follow are what is to be written."""

    method: str
    arguments: list[Any] = []


class Answer(msgspec.Struct, array_like=True):
    """What a call gave, or the error that it raised, and that one's class. The data that follow are what was read."""

    value: Any = None
    error: dict[str, Any] | None = None
    kind: str = ""

    @classmethod
    def of_error(cls, error: TorporError) -> Answer:
        return cls(error=error.to_dict(), kind=type(error).__name__)

    def result(self) -> Any:
        """The value; raises the error."""
        if self.error is None:
            return self.value
        error = TorporError.from_dict(self.error)
        if self.kind in _OWN:
            error.__class__ = _OWN[self.kind]
        raise error


def send(channel: socket.socket, message: Call | Answer, parts: Sequence[bytes | memoryview] = ()) -> None:
    """Raises OSError when nobody is there any more."""
    body = msgspec.msgpack.encode(message)
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    channel.sendall(_HEAD.pack(len(body), sum(map(len, views))) + body)
    for view in views:
        channel.sendall(view)


def receive(channel: socket.socket) -> tuple[bytes, bytes] | None:
    """A message and the data that follow it; None when the other side has ended."""
    head = _exactly(channel, _HEAD.size)
    if head is None:
        return None
    length, size = _HEAD.unpack(head)
    body = _exactly(channel, length)
    data = _exactly(channel, size) if body is not None else None
    return None if body is None or data is None else (body, data)


def _exactly(channel: socket.socket, length: int) -> bytes | None:
    parts: list[bytes] = []
    left = length
    while left:
        part = channel.recv(left, socket.MSG_WAITALL)
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class ApartBackend:
    """The backend at `place` as somebody with the variables `env` (all of them) opens it, with the limit that they say.

    Contract: `backend.Backend`. Opening raises what opening it here would.
    """

    gathers = False

    def __init__(self, place: str, env: Mapping[str, str]) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._control, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "torpor.store.apart_server", place, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd="/",
                    env=dict(env),
                )
        except OSError as error:
            self._control.close()
            raise StepFailed(step="store", reason=f"no process for {place}: {error}") from error
        try:
            self._readers, self._url = self._talk(self._control, None)[0].result()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return str(self._url)

    @property
    def readers(self) -> int:
        return int(self._readers)

    def list(self, kind: str) -> Iterator[Stored]:
        for name, size in self._call("list", kind)[0]:
            yield Stored(name, size)

    def size(self, name: str) -> int:
        return int(self._call("size", name)[0])

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._call("read", name, offset, length)[1]

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return pour(self.read(name, offset, sum(map(len, rooms))), rooms)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        self._call("write", name, parts=parts)

    def delete(self, names: Sequence[str]) -> None:
        self._call("delete", list(names))

    def sweep(self) -> int:
        return int(self._call("sweep")[0])

    def close(self) -> None:
        # Whatever was answered is durable, so it may end however it likes.
        for channel in (self._control, *self._idle):
            channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _call(self, method: str, *arguments: Any, parts: Sequence[bytes | memoryview] = ()) -> tuple[Any, bytes]:
        """The method's value, and the data that came with it."""
        channel = self._channel()
        try:
            answer, data = self._talk(channel, Call(method, [*arguments]), parts)
        except BaseException:
            channel.close()  # there may be half a message in it
            raise
        with self._lock:
            self._idle.append(channel)
        return answer.result(), data

    def _channel(self) -> socket.socket:
        """A connection that nobody uses: as many as there are calls at once, each with a thread there."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(self._control, [b"."], [theirs.fileno()])
                except OSError:
                    ours.close()
                    raise self._gone() from None
            return ours

    def _talk(
        self, channel: socket.socket, call: Call | None, parts: Sequence[bytes | memoryview] = ()
    ) -> tuple[Answer, bytes]:
        try:
            if call is not None:
                send(channel, call, parts)
            came = receive(channel)
        except OSError:
            came = None
        if came is None:
            raise self._gone()
        return msgspec.msgpack.decode(came[0], type=Answer), came[1]

    def _gone(self) -> StepFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        return StepFailed(
            step="store",
            reason=f"the process that was to reach {self._place} has ended (status {self._process.returncode})",
            hint="was there too little memory?",
        )
