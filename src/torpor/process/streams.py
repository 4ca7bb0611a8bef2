"""The job's standard streams: its pipes or its terminal, its log, and the clients that are attached to it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import termios
from collections import deque
from functools import partial

from torpor.process.loop import READ, WRITE, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PIECE = 32 * 1024
_BACKLOG = 256 * 1024  # bytes owed to one client before the job has to wait for it
_PIPE_MAX = 1024 * 1024
_ATTACH_PATIENCE = 10.0  # seconds that a job's output waits for a first client that was announced


class Client:
    """An attached connection: packets owed to it, in order."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.owed: deque[bytes] = deque()
        self.owed_bytes = 0
        self.ending = False

    def owe(self, packet: bytes) -> None:
        self.owed.append(packet)
        self.owed_bytes += len(packet)


class Streams:
    """Makes the pipes, then pumps: output to the log and to clients, clients' input to the job.

    `stdin` is "null" or "pipe"; the streams named in `on_terminal` are the job's end of a terminal instead, whose
    output counts as standard output or, where that is not on it, as error output or as the terminal's own (`t`: echo).
    With `await_client` the output stays in its pipes until somebody attached, so that a client sees all of it.
    """

    def __init__(self, loop: Loop, log: int, stdin: str, await_client: bool, on_terminal: Sequence[str] = ()) -> None:
        self._loop = loop
        self._log = log
        self._unlogged = 0  # bytes of output that the log has had no room for since it last took some
        self._clients: list[Client] = []
        self._outputs: dict[bytes, int] = {}
        self._input: int | None = None
        self._pending = bytearray()
        self._input_ends = False
        self.awaiting = await_client
        self.job_ends: dict[str, int] = {}
        self.keys: dict[str, str | None] = {"stdin": None}
        self._terminal: int | None = None
        if on_terminal:
            self._make_terminal(on_terminal)
        for name, tag in (("stdout", b"o"), ("stderr", b"e")):
            if name in on_terminal:
                continue
            ours, self.job_ends[name] = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(ours, False)
            self._outputs[tag] = ours
            self.keys[name] = f"pipe:[{os.fstat(ours).st_ino}]"
        if "stdin" in on_terminal:
            return
        if stdin == "pipe":
            self.job_ends["stdin"], self._input = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._input, False)
            self.keys["stdin"] = f"pipe:[{os.fstat(self._input).st_ino}]"
        else:
            self.job_ends["stdin"] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def _make_terminal(self, names: Sequence[str]) -> None:
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        status = os.fstat(theirs)
        for name in names:
            self.job_ends[name] = os.dup(theirs)
            self.keys[name] = f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
        os.close(theirs)
        tag = b"o" if "stdout" in names else b"e" if "stderr" in names else b"t"
        self._terminal = self._outputs[tag] = ours
        if "stdin" in names:
            self._input = os.dup(ours)

    def shape_terminal(self, attributes: Sequence[Any], window: Sequence[int]) -> None:
        """Give the job's terminal, if there is one, these attributes of `termios` and this size (rows, columns)."""
        if self._terminal is None:
            return
        if attributes:
            *flags, characters = attributes
            termios.tcsetattr(self._terminal, termios.TCSANOW, [*flags, [bytes([one]) for one in characters]])
        if window and all(window):
            self._resize(struct.pack("<HH", *window))

    def start(self) -> None:
        """The job has its ends of the pipes: let go of them here, and pump."""
        for fd in self.job_ends.values():
            os.close(fd)
        self.job_ends.clear()
        if self.awaiting:
            self._loop.after(_ATTACH_PATIENCE, self.stop_waiting)
        self._aim()

    def put_back(self, unread: bytes) -> None:
        """Input of a former life that the job had not read, before any other."""
        self._pending += unread
        self._feed()

    def stop_waiting(self) -> None:
        if self.awaiting:
            self.awaiting = False
            self.drain()  # the job may be over already, and then nothing else would

    def attach(self, sock: socket.socket) -> None:
        client = Client(sock)
        self._clients.append(client)
        self._watch_client(client)
        self.stop_waiting()

    @property
    def unsent_input(self) -> int:
        """Bytes of input that clients gave and the job's pipe had no room for yet."""
        return len(self._pending)

    @property
    def quiet(self) -> bool:
        """Nothing is owed to anybody, and nobody is awaited."""
        return not self._clients and not self.awaiting

    def drain(self) -> None:
        """Take what the job has written up to now, even if a client is slow; not while a first client is awaited."""
        if self.awaiting:
            return
        for tag in list(self._outputs):
            for _ in range(_PIPE_MAX // _PIECE):  # more than a pipe holds is not from before
                if not self._read(tag):
                    break
        self._aim()

    def finish(self, end: dict[str, Any]) -> None:
        """The job's root has ended: after what it wrote, tell every client, those that attach later too."""
        self.drain()
        for client in list(self._clients):  # whoever has got it all leaves the list
            self._end(client, end)

    def finish_late(self, sock: socket.socket, end: dict[str, Any]) -> None:
        """Attach a client to a job whose root has ended."""
        self.attach(sock)
        for client in self._clients:
            if client.sock is sock:
                self.drain()
                self._end(client, end)

    def _end(self, client: Client, end: dict[str, Any]) -> None:
        client.owe(b"x" + json.dumps(end).encode())
        client.ending = True
        self._send(client)

    def _read(self, tag: bytes) -> bool:
        fd = self._outputs.get(tag)
        if fd is None:
            return False
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # a terminal that nobody in the job has open any more
        if not data:
            self._let_go(tag, fd)
            return False
        self._note(data)
        for client in list(self._clients):
            if not client.ending:
                client.owe(tag + data)
                self._send(client)
        return True

    def _note(self, data: bytes) -> None:
        """Into the log. A full disk costs output there; it must not stop the job, and the log says it once it can."""
        told = f"\ntorpor: {self._unlogged} bytes of output are missing here, the log could not be written\n"
        if self._unlogged and self._append(told.encode()):
            self._unlogged += len(data)
        else:
            self._unlogged = self._append(data)

    def _append(self, data: bytes) -> int:
        """How many bytes at the end of `data` the log had no room for."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._log, rest) :]
        except OSError:
            pass
        return len(rest)

    def _on_output(self, tag: bytes, _events: int) -> None:
        self._read(tag)
        self._aim()

    def _aim(self) -> None:
        """Watch the outputs, or let the job wait while a client that is there has not kept up."""
        hold = self.awaiting or any(client.owed_bytes > _BACKLOG for client in self._clients)
        for tag, fd in self._outputs.items():
            if hold:
                self._loop.forget(fd)
            else:
                self._loop.watch(fd, READ, partial(self._on_output, tag))
        if self._input is not None:
            if self._pending:
                self._loop.watch(self._input, WRITE, lambda _events: self._feed())
            else:
                self._loop.forget(self._input)

    def _watch_client(self, client: Client) -> None:
        if client not in self._clients:
            return
        events = WRITE if client.owed else 0
        if len(self._pending) < _BACKLOG:
            events |= READ
        self._loop.watch(client.sock.fileno(), events, lambda happened: self._on_client(client, happened))

    def _on_client(self, client: Client, events: int) -> None:
        if events & READ:
            try:
                packet = client.sock.recv(64 * 1024)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._drop(client)
                return
            if packet[:1] == b"i":
                self._take_input(packet[1:])
            elif packet[:1] == b"c":
                self._close_output(packet[1:])
            elif packet[:1] == b"w":
                self._resize(packet[1:])
        elif events & ~WRITE:
            self._drop(client)
            return
        self._send(client)

    def _send(self, client: Client) -> None:
        was_behind = client.owed_bytes > _BACKLOG
        while client.owed:
            try:
                client.sock.send(client.owed[0], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError:
                self._drop(client)
                return
            client.owed_bytes -= len(client.owed.popleft())
        if client.ending and not client.owed:
            self._drop(client)  # what was sent stays readable at the other end
            return
        self._watch_client(client)
        if was_behind:
            self._aim()

    def _drop(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._loop.forget(client.sock.fileno())
            client.sock.close()
            self._aim()

    def _close_output(self, tag: bytes) -> None:
        """Nobody will read that output any more: let the job's next write to it fail, as it would without us."""
        fd = self._outputs.get(tag)
        if fd is not None:
            self._let_go(tag, fd)

    def _let_go(self, tag: bytes, fd: int) -> None:
        self._loop.forget(fd)
        os.close(fd)
        del self._outputs[tag]
        if fd == self._terminal:
            self._terminal = None

    def _resize(self, size: bytes) -> None:
        """The client's window has changed: rows and columns, 16 bits each. The kernel tells the job."""
        if self._terminal is not None and len(size) == 4:
            rows, columns = struct.unpack("<HH", size)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _take_input(self, data: bytes) -> None:
        if self._input is None or self._input_ends:
            return
        if data:
            self._pending += data
        elif (self.keys["stdin"] or "").startswith("tty"):
            self._pending += b"\x04"  # what a person types to end the input
        else:
            self._input_ends = True
        self._feed()

    def _feed(self) -> None:
        if self._input is None:
            return
        try:
            while self._pending:
                del self._pending[: os.write(self._input, self._pending)]
        except BlockingIOError:
            pass
        except OSError:  # nobody in the job reads its input any more
            self._pending.clear()
            self._input_ends = True
        if self._input_ends and not self._pending:
            self._loop.forget(self._input)
            os.close(self._input)
            self._input = None
            self.keys["stdin"] = None  # a pipe with no writer needs no other end after a restore
        self._aim()
        for client in list(self._clients):
            self._watch_client(client)
