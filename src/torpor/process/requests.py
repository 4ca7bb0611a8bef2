"""What the supervisor answers on its socket."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from functools import partial

from torpor.process import spawn, wire
from torpor.process.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torpor.process.criu_run import CriuRun
    from torpor.process.supervisor import Supervisor


class Requests:
    """Accepts connections, each a sequence of requests and replies; holds the descriptors of blocks."""

    def __init__(self, supervisor: Supervisor, listener: socket.socket) -> None:
        self._supervisor = supervisor
        self._loop = supervisor.loop
        self._listener = listener
        self._held: list[tuple[dict[str, Any], int]] = []
        self._loop.watch(listener.fileno(), READ, lambda _events: self._accept())

    def close(self) -> None:
        """Nobody can connect any more, and the socket is gone from the job's folder."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        try:
            os.unlink(f"{self._supervisor.job_dir}/{wire.SOCKET_NAME}")  # noqa: PTH108
        except FileNotFoundError:
            pass

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if not wire.may_talk(sock):
            sock.close()
            return
        sock.setblocking(False)
        self._listen_to(sock)

    def _listen_to(self, sock: socket.socket) -> None:
        self._loop.watch(sock.fileno(), READ, partial(self._on_packet, sock))

    def _hang_up(self, sock: socket.socket) -> None:
        self._loop.forget(sock.fileno())
        sock.close()

    def _on_packet(self, sock: socket.socket, _events: int) -> None:
        try:
            data, fds = wire.receive(sock)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._hang_up(sock)
            return
        try:
            request = wire.parse(data)
            op = getattr(self, f"_op_{request.get('op')}", None)
            if op is None:
                raise ValueError(f"no such operation: {request.get('op')!r}")
            op(sock, request, fds)
        except (ValueError, KeyError, TypeError, OSError, spawn.ExecFailed) as error:
            self._reply(sock, {"ok": False, "message": str(error)})
        finally:
            wire.close_all(fds)  # what the operation did not keep for itself

    def _reply(self, sock: socket.socket, message: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            wire.send(sock, {"ok": True, **message}, fds or [])
        except OSError:
            self._hang_up(sock)  # it left, or does not read its replies

    def _op_info(self, sock: socket.socket, _request: dict[str, Any], _fds: list[int]) -> None:
        one = self._supervisor
        one.streams.drain()
        end = one.end or {"exit_code": None, "signal": None}
        self._reply(
            sock,
            {
                "state": one.state,
                "root": one.root,
                "exit_code": end["exit_code"],
                "signal": end["signal"],
                "stdio": one.streams.keys,
                "unsent_input": one.streams.unsent_input,
                "held": len(self._held),
                "criu": one.criu.pid if one.criu else None,
            },
        )

    def _op_signal(self, sock: socket.socket, request: dict[str, Any], _fds: list[int]) -> None:
        one = self._supervisor
        if one.root is None or one.end is not None:
            raise ProcessLookupError(errno.ESRCH, "the job's root process has ended")
        number = signal.Signals(int(request["signal"]))
        if request.get("group"):
            os.killpg(one.root, number)
        else:
            os.kill(one.root, number)
        self._reply(sock, {})

    def _op_criu(self, sock: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
        if self._supervisor.criu is not None:
            raise BlockingIOError(errno.EBUSY, "CRIU is already at work in this job")
        keys = request.get("inherit", [])
        if len(keys) != len(fds):
            raise ValueError(f"{len(keys)} keys for {len(fds)} descriptors")
        inherit = dict(zip(keys, fds, strict=True))
        verdict = inherit.pop(wire.VERDICT_KEY, None)

        def ended(run: CriuRun) -> None:
            if verdict is not None:
                os.close(verdict)
            if sock.fileno() >= 0:
                self._listen_to(sock)
                self._reply(sock, {"status": run.status, "output": run.output})

        def left(_events: int) -> None:
            self._hang_up(sock)
            if verdict is not None:
                os.write(verdict, wire.ROLL_BACK)

        self._supervisor.run_criu(list(request["argv"]), inherit, ended)
        if verdict is not None:
            fds.remove(verdict)
        self._loop.watch(sock.fileno(), 0, left)

    def _op_hold(self, sock: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
        blocks = request["blocks"]
        if len(blocks) != len(fds):
            raise ValueError(f"{len(blocks)} blocks for {len(fds)} descriptors")
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(self._held) + len(fds) > most - 64:
            raise OSError(errno.EMFILE, f"no more than {most} descriptors can be held")
        self._held += zip(blocks, fds, strict=True)
        fds.clear()
        self._reply(sock, {"total": len(self._held)})

    def _op_fetch(self, sock: socket.socket, request: dict[str, Any], _fds: list[int]) -> None:
        first = int(request["first"])
        part = self._held[first : first + wire.MAX_FDS]
        reply = {"blocks": [block for block, _ in part], "total": len(self._held)}
        self._reply(sock, reply, [fd for _, fd in part])

    def _op_drop(self, sock: socket.socket, _request: dict[str, Any], _fds: list[int]) -> None:
        wire.close_all([fd for _, fd in self._held])
        self._held.clear()
        self._reply(sock, {})

    def _op_attach(self, sock: socket.socket, _request: dict[str, Any], _fds: list[int]) -> None:
        self._reply(sock, {})
        self._loop.forget(sock.fileno())
        if self._supervisor.end is not None:
            self._supervisor.streams.finish_late(sock, self._supervisor.end)
        else:
            self._supervisor.streams.attach(sock)

    def _op_shutdown(self, sock: socket.socket, _request: dict[str, Any], _fds: list[int]) -> None:
        self._supervisor.shut_down()
        self._reply(sock, {})
