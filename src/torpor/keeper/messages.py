"""What travels between a keeper and its clients.

One message is a 4-byte little-endian length and that many bytes of MessagePack. A client sends one `Request` per
connection; the keeper answers with any number of `Progress` and ends with `Done` or `Failed`. A client may send one
`Cancel`. One that leaves early without changes nothing: the flow goes on to its end.
"""

from __future__ import annotations

import socket
from typing import Any, Literal

import msgspec

from torpor.errors import KeeperUnavailable
from torpor.writeback import Target

LIMIT = 16 << 20
"""Longest message in bytes; anything longer is not ours."""


CANCEL = "cancel"
"""Phase of the progress that a client tells itself when it has sent `Cancel` (`start`). A keeper answers with it where
it only waits for a store: `end` when the verb is as good as undone, `move` when it was too late for that."""

OVER = "over"
"""Phase of the progress that a client tells itself when a keeper has said how a verb ended that could be cancelled
(`end`): from then on there is nothing to cancel. `move` follows where it ended well though that was asked for."""

SECRET = frozenset({"env", "key"})
"""Parameters that no log may have. The `key` is for a keeper of the same user only."""

CANCELLABLE = frozenset({"checkpoint", "restore", "suspend", "resume"})
"""Verbs that can be undone while they run."""


class Request(msgspec.Struct, tag="request", kw_only=True):
    verb: str
    params: dict[str, Any] = {}


class Progress(msgspec.Struct, tag="progress", kw_only=True):
    """One step's course. `seconds` counts from the step's start; `bytes` of `total` have moved (0 of 0: no bytes)."""

    phase: str
    event: Literal["start", "move", "end"]
    seconds: float = 0.0
    bytes: int = 0
    total: int = 0


class Cancel(msgspec.Struct, tag="cancel"):
    """Sent by the client after its request: undo the verb. The answer is still `Done` or `Failed`."""


class Done(msgspec.Struct, tag="done", kw_only=True):
    result: dict[str, Any] = {}


class Failed(msgspec.Struct, tag="failed", kw_only=True):
    """`error` is `TorporError.to_dict()`."""

    error: dict[str, Any]


Message = Request | Cancel | Progress | Done | Failed


class CheckpointParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`path` is where the image's folder shall be, `name` what it calls itself; `deadline` in seconds to freeze.

    With `store`, a store's folder or URL, the image goes there, is known by that name (with `or_next`, by the next one
    that is free), and `path` and `tier` mean nothing; the variables `env` open the store, and `key` is an encrypted
    one's own (`Repository.store_key`), which is written nowhere.
    With `target`, the image at `path` is in memory, and is written there by the keeper when the flow is done.
    """

    job: str
    name: str
    or_next: bool = False
    path: str = ""
    store: str | None = None
    env: dict[str, str] = {}
    key: bytes | None = None
    tier: Literal["disk", "dram"] = "disk"
    target: Target | None = None
    leave_running: bool = False
    deadline: float = 10.0


class RestoreParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`gpu_map` pairs old and new GPU, each by index or UUID; an empty one lets the keeper choose.

    `image` is a folder or, with `store`, a store's folder or URL which the variables `env` and the `key` open (as for a
    checkpoint), the id of an image there. `source` is how the image is known (`IMAGE@STORE`) where it is in a store.
    """

    image: str
    store: str | None = None
    env: dict[str, str] = {}
    key: bytes | None = None
    source: str | None = None
    name: str | None = None
    gpu_map: dict[str, str] = {}


class SuspendParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    job: str
    tier: Literal["hbm", "dram"] = "hbm"
    deadline: float = 10.0


class ResumeParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    job: str


class ProfileParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`level` is one of the control protocol's; `lease` is for how many seconds; `owner` is who asks.

    `patience` is how many seconds a process may take to answer; a flow that begins meanwhile waits for it.
    """

    job: str
    level: Literal[0, 1, 2, 3]
    lease: float
    owner: int
    patience: float


class WarmParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Grow the pinned pool until it has this many free bytes."""

    bytes: int


class DiscardParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Remove the image at this path; segments that the keeper still has go back to its pool."""

    image: str


class FlushParams(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Wait until the image at this path in memory is durable. One that failed is tried again now, with `env` to open
    the place by."""

    image: str
    env: dict[str, str] | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def send(channel: socket.socket, message: Message) -> None:
    """Send one message; OSError when the peer is gone."""
    body = _encoder.encode(message)
    channel.sendall(len(body).to_bytes(4, "little") + body)


def receive(channel: socket.socket) -> Message | None:
    """The next message, or None at the peer's orderly end. KeeperUnavailable when what comes is not ours."""
    head = _exactly(channel, 4)
    if head is None:
        return None
    length = int.from_bytes(head, "little")
    if length > LIMIT:
        raise KeeperUnavailable(f"a message of {length} bytes does not come from a keeper")
    body = _exactly(channel, length)
    if body is None:
        return None
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise KeeperUnavailable(
            f"a message does not come from this version's keeper: {error}", hint="stop the keeper and try again"
        ) from error


def _exactly(channel: socket.socket, length: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        part = channel.recv(length - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
