"""Network addresses to which a saved job's sockets are bound, and whether this host has them, from CRIU's images.

Sockets on all addresses do not care where they are restored; one that is bound to an address, a connection through it
included, cannot be restored where there is no such address. CRIU says "can't bind" then, of a half-made tree.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from torpor.process.criu_images import fields, number, numbers, raw_entries

_FILES = 0x56303138
_INET = 4  # field of a file that is such a socket; of its own fields:
_FAMILY, _PORT, _SOURCE, _IP_OPTIONS = 3, 7, 11, 16
_FREE_BIND = 1  # of its options


@dataclass(frozen=True)
class Bound:
    """What a socket is bound to."""

    address: str
    port: int


def missing(images: Path) -> list[Bound]:
    """What sockets of the job are bound to and this host does not have, each once. OSError, TorporError."""
    found: dict[Bound, None] = {}
    for entry in raw_entries(images / "files.img", _FILES):
        one = fields(entry).get(_INET)
        if not isinstance(one, bytes):
            continue
        facts = fields(one)
        options = facts.get(_IP_OPTIONS)
        if isinstance(options, bytes) and number(fields(options), _FREE_BIND):
            continue
        family = number(facts, _FAMILY)
        words = [value for field, value in numbers(one) if field == _SOURCE]
        if family in (socket.AF_INET, socket.AF_INET6) and words:
            raw = struct.pack(f"={len(words)}I", *words)
            size = 4 if family == socket.AF_INET else 16
            address = socket.inet_ntop(family, raw[:size].ljust(size, b"\0"))
            if not _is_here(family, address):
                found[Bound(address, number(facts, _PORT))] = None
    return list(found)


def _is_here(family: int, address: str) -> bool:
    """The kernel's word; a link-local address without its interface counts as here."""
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True
