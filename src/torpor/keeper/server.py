"""The keeper's socket: a thread per connection, one verb per connection, its own user only."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import msgspec

from torpor import __version__, paths
from torpor.errors import NO_SPACE, NoSpace, TorporError, UsageError, WrongState
from torpor.keeper import (
    checkpoint,
    counting,
    discard,
    flush,
    messages,
    recovery,
    restore,
    resume,
    sockets,
    suspend,
    suspended,
)
from torpor.keeper.host import Host
from torpor.keeper.report import Report
from torpor.process.loop import is_readable
from torpor.records import Backend

log = logging.getLogger(__name__)

SWEEP_SECONDS = 2.0
"""How soon the memory of an image that somebody removed by hand is given back."""

CLIENT_SECONDS = 2.0
"""How long a client may leave its progress unread before it is told nothing more; no flow waits for a client."""

_FLOWS: dict[str, tuple[type[Any], Callable[[Host, Any, Report], dict[str, Any]]]] = {
    "checkpoint": (messages.CheckpointParams, checkpoint.run),
    "restore": (messages.RestoreParams, restore.run),
    "suspend": (messages.SuspendParams, suspend.run),
    "resume": (messages.ResumeParams, resume.run),
    "discard": (messages.DiscardParams, discard.run),
    "flush": (messages.FlushParams, flush.run),
}


class Server:
    """Serves until `stop`. A flow outlives its client, and `stop` waits for the flows."""

    def __init__(self, backend: Backend) -> None:
        self.host = Host(backend)
        self._backend = backend
        self._begun = time.time()
        self._stopping = threading.Event()
        self._recovered = threading.Event()
        self._listener = sockets.listen(paths.keeper_socket(backend), socket.SOCK_STREAM)

    def serve(self) -> None:
        """Accept connections until a client or SIGTERM stops the keeper."""
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self._recover, name="recover", daemon=True).start()
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()
        log.info("keeper %s for %s listens as process %d", __version__, self._backend, os.getpid())
        while not self._stopping.is_set():
            try:
                channel, _address = self._listener.accept()
            except OSError:
                break
            threading.Thread(target=self._connection, args=(channel,), name="connection", daemon=True).start()
        paths.keeper_socket(self._backend).unlink(missing_ok=True)
        self._recovered.wait()
        self.host.flows.wait_idle()
        self.host.writeback.stop()
        self.host.close()
        log.info("keeper stopped")

    def _stop(self) -> None:
        self._stopping.set()
        # Closing a listening socket does not wake an accept in another thread; shutting it down does.
        self._listener.shutdown(socket.SHUT_RDWR)

    def _recover(self) -> None:
        """Before any verb: bring what a dead keeper left to an end."""
        try:
            recovery.run(self.host)
        except Exception:  # what it could not see to must not keep the rest from work
            log.exception("recovery")
        self.host.writeback.start()
        self._recovered.set()

    def _sweep(self) -> None:
        while not self._stopping.wait(SWEEP_SECONDS):
            try:
                if count := self.host.pool.sweep():
                    log.info("gave back the memory of %d removed segments", count)
                for job in suspended.remove_orphans(set(self.host.flows.busy())):
                    log.info("removed the memory of %s, which is not suspended any more", job)
            except Exception:  # the next turn may fare better, and the keeper must live
                log.exception("sweep")

    def _connection(self, channel: socket.socket) -> None:
        with channel, ExitStack() as ending:
            # Wakes whoever still listens to it.
            ending.callback(_shut, channel)
            if sockets.peer_uid(channel) not in (os.geteuid(), 0):
                return
            try:
                request = messages.receive(channel)
            except (OSError, TorporError) as error:
                log.warning("a connection came to nothing: %s", error)
                return
            if not isinstance(request, messages.Request):
                return
            channel.settimeout(CLIENT_SECONDS)
            self._answer(channel, request)

    def _answer(self, channel: socket.socket, request: messages.Request) -> None:
        reply: messages.Message
        begun = time.monotonic()
        try:
            reply = messages.Done(result=self._perform(request, Teller(channel)))
            outcome = "done"
        except TorporError as error:
            reply = messages.Failed(error=error.to_dict())
            outcome = f"failed: {error.message}"
        except Exception as error:  # whatever it is, the client must learn of it and the keeper live on
            log.exception("%s", request.verb)
            reply = messages.Failed(error=self._unforeseen(request.verb, error).to_dict())
            outcome = f"failed: {error}"
        if request.verb not in ("ping", "status", "profile"):
            log.info("%s %s in %.3f s: %s", request.verb, _open(request.params), time.monotonic() - begun, outcome)
        try:
            messages.send(channel, reply)
        except OSError:
            log.info("the client of %s had left", request.verb)

    def _unforeseen(self, verb: str, error: Exception) -> TorporError:
        if isinstance(error, OSError) and error.errno in NO_SPACE:  # of a job's record, say
            return NoSpace(
                f"{verb} failed: no space left on the file system ({error.filename or paths.home()})",
                hint="free space there",
                details={"needed": None, "free": None},
            )
        return TorporError(
            f"{verb} failed inside the keeper: {type(error).__name__}: {error}",
            hint=f"see {paths.keeper_log(self._backend)}",
        )

    def _perform(self, request: messages.Request, teller: Teller) -> dict[str, Any]:
        match request.verb:
            case "ping":
                return {"pid": os.getpid(), "backend": self._backend, "ready": self.host.is_ready}
            case "status":
                return self._status()
            case "warm":
                size = _convert(request, messages.WarmParams).bytes
                self.host.warm(size)
                return {"pool": self.host.pool.figures().__dict__}
            case "profile":
                self._recovered.wait()
                return counting.look(self.host, _convert(request, messages.ProfileParams))
            case "stop":
                return self._ask_to_stop()
            case verb if verb in _FLOWS:
                if self._stopping.is_set():
                    raise WrongState("the keeper is about to stop", hint="try again")
                kind, flow = _FLOWS[verb]
                self._recovered.wait()
                self.host.pool.sweep()
                report = Report(teller.tell)
                teller.on_cancel(report.cancel)
                try:
                    return flow(self.host, _convert(request, kind), report)
                finally:
                    counting.end_missed(self.host)
        raise UsageError(f"the keeper knows no verb {request.verb!r}")

    def _status(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "pid": os.getpid(),
            "version": __version__,
            "backend": self._backend,
            "uptime": round(time.time() - self._begun, 1),
            "ready": self.host.is_ready,
            "recovered": self._recovered.is_set(),
            "busy": self.host.flows.busy(),
            "pool": self.host.pool.figures().__dict__,
            "writing": self.host.writeback.describe(),
        }
        if self.host.is_ready:
            facts["driver_version"] = self.host.driver.version
            facts["devices"] = [
                {"ordinal": d.ordinal, "uuid": d.uuid, "name": d.name, "arch": d.arch, "memory": d.memory}
                for d in self.host.driver.devices
            ]
        return facts

    def _ask_to_stop(self) -> dict[str, Any]:
        busy = self.host.flows.busy(leaving=False)
        if busy:
            raise WrongState(f"the keeper is at work on {', '.join(sorted(busy))}", hint="wait for it, then try again")
        image = self.host.writeback.writing()
        if image is not None:
            raise WrongState(f"the keeper is writing {image}", hint="`torpor flush` waits until that is done")
        self._stop()
        return {"pid": os.getpid()}


class Teller:
    """Sends progress to a client for as long as it listens, and hears it cancel. Threads may tell at the same time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel: socket.socket | None = channel
        self._heard = channel
        self._lock = threading.Lock()

    def tell(self, progress: messages.Progress) -> None:
        with self._lock:
            if self._channel is None:
                return
            try:
                messages.send(self._channel, progress)
            except OSError:
                self._channel = None

    def on_cancel(self, action: Callable[[], None]) -> None:
        """From now on, call `action` when the client sends `Cancel`; its silent end changes nothing."""

        def listen() -> None:
            with suppress(OSError, ValueError, TorporError):
                # The channel's timeout is for sends; this waits for as long as the connection lasts.
                while is_readable(self._heard.fileno()):
                    message = messages.receive(self._heard)
                    if isinstance(message, messages.Cancel):
                        action()
                    elif message is None:
                        return

        threading.Thread(target=listen, name="hear", daemon=True).start()


def _open(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters without those that may be secrets."""
    shown = {key: value for key, value in params.items() if key not in messages.SECRET}
    return {key: _open(value) if isinstance(value, dict) else value for key, value in shown.items()}


def _shut(channel: socket.socket) -> None:
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)


def _convert(request: messages.Request, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(request.params, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{request.verb}: {error}") from error
