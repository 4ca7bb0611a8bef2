"""Talk to a job's supervisor (docs/design/control-protocol.md)."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from torpor.errors import TorporError, WrongState
from torpor.process import wire


@dataclass(frozen=True)
class Info:
    """A job as its supervisor sees it. `root` is the pid inside; one of `exit_code` and `signal` is set at the end.

    `stdio` has CRIU's key of the pipe behind `stdin`, `stdout`, `stderr` (`pipe:[inode]`), or None; `unsent_input`
    counts bytes of input that have not reached the job's pipe; `criu` is the pid inside of a CRIU at work; `held`
    counts block descriptors. All that the job wrote before the question is in its log by the time of the answer.
    """

    state: Literal["starting", "running", "exited"]
    root: int | None
    exit_code: int | None
    signal: int | None
    stdio: dict[str, str | None]
    unsent_input: int
    held: int
    criu: int | None


@dataclass(frozen=True)
class End:
    """How the job's root process ended: one of `exit_code` and `signal` is set. `ended` is seconds since the epoch.

    `checkpointed` says that it was CRIU that ended it, after a dump that stands.
    """

    exit_code: int | None
    signal: int | None
    ended: float
    checkpointed: bool

    @property
    def status(self) -> int | None:
        """As a shell gives it: 128 + n after signal n."""
        return 128 + self.signal if self.signal is not None else self.exit_code


class SupervisorClient:
    """One connection to the supervisor of the job in `job_dir`; a context manager. Not for several threads at once.

    Methods raise WrongState when the supervisor is not there (any more), TorporError when it refuses.
    """

    def __init__(self, job_dir: str | os.PathLike[str], timeout: float | None = 30.0) -> None:
        try:
            self._sock = wire.connect(job_dir, timeout=timeout)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise WrongState(f"no supervisor answers in {os.fspath(job_dir)}: the job has ended") from error

    def __enter__(self) -> SupervisorClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def info(self) -> Info:
        reply, _ = self._ask({"op": "info"})
        return Info(**{name: reply[name] for name in Info.__dataclass_fields__})

    def signal(self, number: int, group: bool = False) -> None:
        """Send a signal to the job's root process, or to its whole process group."""
        self._ask({"op": "signal", "signal": int(number), "group": group})

    def criu(self, argv: Sequence[str], inherit: Mapping[str, int] | None = None) -> tuple[int, str]:
        """Run CRIU inside the job's namespaces to its end; returns its exit status and the end of its output."""
        self.start_criu(argv, inherit)
        return self.criu_ended(None)

    def start_criu(self, argv: Sequence[str], inherit: Mapping[str, int] | None = None) -> None:
        """Start CRIU; `criu_ended` must follow on this connection before anything else.

        `inherit` maps CRIU's keys to descriptors (`--inherit-fd`), and `wire.VERDICT_KEY` to the verdict's FIFO. They
        are duplicated: close yours.
        """
        inherit = inherit or {}
        message = {"op": "criu", "argv": list(argv), "inherit": list(inherit)}
        self._send(message, list(inherit.values()))

    def criu_ended(self, timeout: float | None) -> tuple[int, str]:
        """Wait for the end of CRIU: its exit status (negative: a signal) and its last output. Raises TimeoutError."""
        before = self._sock.gettimeout()
        self._sock.settimeout(timeout)
        try:
            reply, _ = self._reply()
        finally:
            self._sock.settimeout(before)
        return int(reply["status"]), str(reply["output"])

    def hold(self, blocks: Sequence[Mapping[str, Any]], fds: Sequence[int]) -> None:
        """Give block descriptors into safe keeping, beside those held already; yours stay open."""
        for first in range(0, len(blocks), wire.MAX_FDS):
            part = slice(first, first + wire.MAX_FDS)
            self._ask({"op": "hold", "blocks": [dict(block) for block in blocks[part]]}, fds[part])

    def fetch(self) -> tuple[list[dict[str, Any]], list[int]]:
        """All blocks that are held, in order, with fresh descriptors (close-on-exec) that are yours to close."""
        blocks: list[dict[str, Any]] = []
        fds: list[int] = []
        try:
            while True:
                reply, some = self._ask({"op": "fetch", "first": len(blocks)})
                blocks += reply["blocks"]
                fds += some
                if len(blocks) >= reply["total"] or not reply["blocks"]:
                    return blocks, fds
        except BaseException:
            wire.close_all(fds)
            raise

    def drop(self) -> None:
        """Close the block descriptors that are held."""
        self._ask({"op": "drop"})

    def shutdown(self) -> None:
        """Kill what is left of the job; the supervisor ends."""
        self._ask({"op": "shutdown"})

    def end(self) -> None:
        """As `shutdown`, and wait until the supervisor has ended; TimeoutError when it does not within the timeout."""
        self.shutdown()
        try:
            while wire.receive(self._sock)[0]:
                pass
        except ConnectionResetError:
            return

    def attach(self) -> Attachment:
        """Turn this connection into the job's streams; the client itself is of no more use."""
        self._ask({"op": "attach"})
        self._sock.settimeout(None)
        return Attachment(self._sock)

    def _ask(self, message: dict[str, Any], fds: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        self._send(message, fds)
        return self._reply()

    def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        try:
            wire.send(self._sock, message, fds)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WrongState("the job's supervisor has ended") from error

    def _reply(self) -> tuple[dict[str, Any], list[int]]:
        try:
            data, fds = wire.receive(self._sock)
        except ConnectionResetError as error:
            raise WrongState("the job's supervisor has ended") from error
        if not data:
            raise WrongState("the job's supervisor has ended")
        reply = wire.parse(data)
        if not reply.get("ok"):
            wire.close_all(fds)
            raise TorporError(f"the job's supervisor refused: {reply.get('message')}")
        return reply, fds


class Attachment:
    """The job's streams. Iterate over it for output; write input from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.end: End | None = None

    def fileno(self) -> int:
        return self._sock.fileno()

    def read(self) -> tuple[Literal["o", "e", "t"], bytes] | End | None:
        """The next piece of output ("o") or error output ("e"), the job's end, or None when the supervisor died.

        A terminal's output is "o" where standard output is on it, else "e", or "t" where that is not, either.
        """
        while True:
            try:
                packet = self._sock.recv(wire.MAX_PACKET)
            except ConnectionResetError:
                # Told once, and before what is still queued: the supervisor left without reading our last input.
                continue
            match packet[:1]:
                case b"":
                    return None
                case b"o":
                    return "o", packet[1:]
                case b"e":
                    return "e", packet[1:]
                case b"t":
                    return "t", packet[1:]
                case b"x":
                    said = json.loads(packet[1:])
                    self.end = End(**{name: said[name] for name in End.__dataclass_fields__})
                    return self.end

    def __iter__(self) -> Iterator[tuple[Literal["o", "e", "t"], bytes]]:
        """Pieces of output up to the job's end, which is then in `end` (None: the supervisor died)."""
        while True:
            piece = self.read()
            if piece is None or isinstance(piece, End):
                return
            yield piece

    def write(self, data: bytes) -> None:
        """Input for the job; blocks while the job does not read. Raises BrokenPipeError at the job's end."""
        for first in range(0, len(data), 32 * 1024):
            self._sock.send(b"i" + data[first : first + 32 * 1024])

    def end_input(self) -> None:
        """The end of the job's input."""
        self._sock.send(b"i")

    def resize(self, rows: int, columns: int) -> None:
        """The window in front of a job on a terminal has this size now; the job is told by SIGWINCH."""
        self._sock.send(b"w" + struct.pack("<HH", rows, columns))

    def close_output(self, which: Literal["o", "e"]) -> None:
        """Nobody reads that output any more: the job's next write to it fails as to any pipe without a reader."""
        self._sock.send(b"c" + which.encode())

    def leave(self) -> None:
        """End the reading of another thread: for it the job's streams are over, and the job runs on."""
        self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Leave the job to itself."""
        self._sock.close()
