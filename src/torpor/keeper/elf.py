"""Which libraries a process has mapped, and the build id of one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_NOTE_SEGMENT = 4
_BUILD_ID = 3
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")


def mapped_files(pid: int, name: str) -> list[str]:
    """Paths, as the process sees them, of mapped files whose own name begins with `name`; each once."""
    found: dict[str, None] = {}
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return []
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].rsplit("/", 1)[-1].startswith(name):
            found[fields[5].removesuffix(" (deleted)")] = None
    return list(found)


def build_id(path: Path) -> str | None:
    """The GNU build id of a 64-bit ELF file as hexadecimal digits; None when it has none or cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
                return None
            fields = _HEADER.unpack(head)
            offset, size, count = fields[4], fields[8], fields[9]
            for number in range(count):
                file.seek(offset + number * size)
                kind, _flags, start, _va, _pa, length, _mem, _align = _PROGRAM.unpack(file.read(_PROGRAM.size))
                if kind == _NOTE_SEGMENT and (found := _in_notes(_slice(file, start, length))):
                    return found
    except (OSError, struct.error):
        return None
    return None


def _slice(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(min(length, 1 << 20))


def _in_notes(notes: bytes) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name_size, data_size, kind = struct.unpack_from("<III", notes, at)
        at += 12
        name = notes[at : at + name_size]
        at += (name_size + 3) & ~3
        data = notes[at : at + data_size]
        at += (data_size + 3) & ~3
        if kind == _BUILD_ID and name == b"GNU\0":
            return data.hex()
    return None
