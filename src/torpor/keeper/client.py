"""The keeper as its clients see it: started by need, one call per verb, errors raised as they were over there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from torpor import paths, records, writeback
from torpor.errors import Cancelled, DriverMissing, KeeperUnavailable, TorporError
from torpor.keeper import messages, sockets
from torpor.keeper.interruptions import Interruptions
from torpor.records import Backend

P = ParamSpec("P")
T = TypeVar("T")

OnProgress = Callable[[messages.Progress], None]

START_SECONDS = 30.0
"""How long a new keeper may take until it listens (it initialises the driver after that, in the background)."""

LEAVE_SECONDS = 1.5
"""How long who has cancelled waits for a store that a keeper waits for."""


_started: list[subprocess.Popen[bytes]] = []
"""Keepers that this process started: they outlive it, and are reaped here should they end earlier."""


def ensure_started(backend: Backend, wait: bool = True) -> None:
    """Start the keeper of `backend` unless one listens.

    With `wait` the keeper listens when this returns; without, it is merely on its way, so that a verb that will need
    it later finds it warm. Raises KeeperUnavailable with the end of the keeper's log when it cannot be started.
    """
    if listens(backend):
        return
    process = _spawn(backend)
    if not wait:
        return
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if listens(backend):
            return
        # A keeper that finds the lock taken ends with status 0. Its holder is about to listen, or about to end.
        if process.poll() == 0:
            process = _spawn(backend)
        elif process.poll() is not None:
            break
        time.sleep(0.01)
    raise KeeperUnavailable(
        f"the {backend} keeper did not start: {_log_end(backend)}", hint=f"see {paths.keeper_log(backend)}"
    )


def start_for_unfinished() -> None:
    """Start a keeper, without waiting for it, where a dead one left a job half done or an image unwritten."""
    jobs = {record.backend for record in records.every() if record.unfinished is not None}
    images = {order.backend for order in writeback.orders()}
    for backend in sorted(jobs | images):
        with suppress(TorporError):
            ensure_started(backend, wait=False)


def listens(backend: Backend) -> bool:
    """Whether a keeper accepts connections now."""
    try:
        sockets.connect(paths.keeper_socket(backend), socket.SOCK_STREAM, timeout=5.0).close()
    except OSError:
        return False
    return True


class KeeperClient:
    """Calls of one keeper. Threads may share it: each call has a connection of its own."""

    def __init__(self, backend: Backend) -> None:
        self.backend: Backend = backend

    def call(
        self, verb: str, params: Mapping[str, Any] | None = None, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Run a verb to its end and return its result.

        `params` are the fields of the verb's struct in `messages`. Raises the error that the keeper raised, or
        KeeperUnavailable when there is no keeper or it ended during the call. A KeyboardInterrupt cancels the verb:
        it is rolled back and Cancelled raised, unless it was past that; a second one leaves the rest to the keeper, as
        does the first where that waits for a store which does not answer.
        """
        try:
            channel = sockets.connect(paths.keeper_socket(self.backend), socket.SOCK_STREAM)
        except OSError as error:
            raise KeeperUnavailable(f"no {self.backend} keeper listens: {error}") from error
        with channel, _talking:
            told = dict(params or {})
            if sockets.peer_uid(channel) != os.geteuid():  # root's command may talk to a user's keeper
                told.pop("key", None)
            return _converse(channel, messages.Request(verb=verb, params=told), on_progress)


class _Talking:
    """How many calls are under way, which hear of a KeyboardInterrupt by themselves."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> None:
        self.calls += 1

    def __exit__(self, *_: object) -> None:
        self.calls -= 1


_talking = _Talking()


def is_talking() -> bool:
    """Whether a call of a keeper is under way in this process: it sees to a KeyboardInterrupt."""
    return _talking.calls > 0


def _converse(channel: socket.socket, request: messages.Request, on_progress: OnProgress | None) -> dict[str, Any]:
    cancelled = False
    left: messages.Progress | None = None
    with Interruptions() as interruptions:
        _reach(messages.send, channel, request)
        while True:
            heard = interruptions.wait(channel.fileno(), None if left is None else LEAVE_SECONDS)
            if interruptions.take():
                if cancelled or request.verb not in messages.CANCELLABLE:
                    raise KeyboardInterrupt
                cancelled = True
                with suppress(OSError):  # it has ended: what it said last is still to be heard
                    messages.send(channel, messages.Cancel())
                if on_progress is not None:
                    on_progress(messages.Progress(phase=messages.CANCEL, event="start"))
                continue
            if not heard and left is not None:
                if left.event == "end":
                    raise Cancelled("cancelled, and rolled back; the keeper still waits for the store to answer")
                if on_progress is not None:
                    on_progress(left)
                raise KeyboardInterrupt
            match _reach(messages.receive, channel):
                case messages.Progress(phase=messages.CANCEL) as left:
                    pass
                case messages.Progress() as progress:
                    left = None
                    if on_progress is not None:
                        on_progress(progress)
                case messages.Done(result=result):
                    _end(request, interruptions, on_progress, cancelled)
                    return result
                case messages.Failed(error=error):
                    _end(request, interruptions, on_progress)
                    raise TorporError.from_dict(error)
                case _:
                    raise KeeperUnavailable(
                        f"the keeper ended during {request.verb!r}",
                        hint="the next keeper brings the job back; `torpor ps` says how it stands",
                    )


def _end(
    request: messages.Request, interruptions: Interruptions, on_progress: OnProgress | None, too_late: bool = False
) -> None:
    """The keeper has ended the verb: an interruption takes nothing from what it said."""
    if request.verb not in messages.CANCELLABLE:
        return
    tell = on_progress or (lambda _progress: None)
    tell(messages.Progress(phase=messages.OVER, event="end"))
    while interruptions.take():
        too_late = True
    if too_late:
        tell(messages.Progress(phase=messages.OVER, event="move"))


def _reach(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What the call gives; errors of the connection are the keeper's, as those of `on_progress` are not."""
    try:
        return call(*args, **more)
    except OSError as error:
        raise KeeperUnavailable(f"the keeper went away: {error}") from error


def _spawn(backend: Backend) -> subprocess.Popen[bytes]:
    paths.make_private(paths.home())
    paths.make_private(paths.keeper_dir())
    with paths.keeper_log(backend).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "torpor.keeper", "--backend", backend],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(backend),
            start_new_session=True,
        )
    _started[:] = [earlier for earlier in _started if earlier.poll() is None]
    _started.append(process)
    return process


def _environment(backend: Backend) -> dict[str, str]:
    """The keeper's environment: no preload, every GPU visible, and for `sim` the software GPU as the driver."""
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}
    library = paths.software_gpu() if backend == "sim" else paths.real_libcuda()
    if library is None or not library.is_file():
        if backend == "sim":
            raise DriverMissing("the software GPU is not built", hint="install torpor, or set TORPOR_NATIVE")
        raise DriverMissing("this host has no NVIDIA driver", hint="use --gpu sim, or install the driver")
    folders = [str(library.parent)] if backend == "sim" else []
    folders += [part for part in env.get("LD_LIBRARY_PATH", "").split(":") if part]
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    return env


def _log_end(backend: Backend) -> str:
    try:
        lines = paths.keeper_log(backend).read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it wrote no log"
    return lines[-1] if lines else "it wrote no log"
