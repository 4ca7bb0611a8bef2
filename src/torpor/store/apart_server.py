"""`python -m torpor.store.apart_server PLACE DESCRIPTOR`: the backend at PLACE for another process (`apart`).

The descriptor is a socket. When it is open, one answer says so; then it brings connections, each of which is served by
a thread of its own. When it closes the other process has ended, and this one does so at once, whatever is under way:
nothing that was not answered is counted on.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

import msgspec

from torpor.errors import StepFailed, TorporError
from torpor.store import location
from torpor.store.apart import Answer, Call, receive, send
from torpor.store.backend import Backend


def main() -> int:
    place, control = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    control.set_inheritable(False)
    try:
        backend = location.open_backend(place)
    except TorporError as error:
        send(control, Answer.of_error(error))
        return 1
    send(control, Answer([backend.readers, backend.url]))
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            os._exit(0)
        channel = socket.socket(fileno=descriptors[0])
        channel.set_inheritable(False)
        threading.Thread(target=_serve, args=(channel, backend), daemon=True).start()


def _serve(channel: socket.socket, backend: Backend) -> None:
    with channel, suppress(OSError):  # nobody waits for an answer any more
        while (came := receive(channel)) is not None:
            answer, data = _answer(backend, msgspec.msgpack.decode(came[0], type=Call), came[1])
            del came  # a pack takes room
            send(channel, answer, [data])
            del data


def _answer(backend: Backend, call: Call, data: bytes) -> tuple[Answer, bytes]:
    try:
        return _done(backend, call, data)
    except TorporError as error:
        return Answer.of_error(error), b""
    except Exception as error:  # noqa: BLE001 - which no backend should raise, and whoever waits must hear of
        reason = f"{type(error).__name__}: {error}"
        return Answer.of_error(StepFailed(step="store", reason=f"{backend.url}: {reason}")), b""


def _done(backend: Backend, call: Call, data: bytes) -> tuple[Answer, bytes]:
    value: Any = None
    match call.method, call.arguments:
        case "list", [kind]:
            value = [(one.name, one.size) for one in backend.list(kind)]
        case "size", [name]:
            value = backend.size(name)
        case "read", [name, offset, length]:
            return Answer(), backend.read(name, offset, length)
        case "write", [name]:
            backend.write(name, [data])
        case "delete", [names]:
            backend.delete(names)
        case "sweep", []:
            value = backend.sweep()
        case _:
            raise TorporError(f"no backend can {call.method!r}")
    return Answer(value), b""


if __name__ == "__main__":
    sys.exit(main())
