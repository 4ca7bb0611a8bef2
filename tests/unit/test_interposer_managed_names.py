"""Which variables of a module image are managed, found without the driver."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.native.interposer.programs import Programs, programs_fixture

programs = programs_fixture()

CORPUS = REPOSITORY / "tests" / "native" / "ptx" / "corpus"
OBJECT, FUNCTION = 1, 2
MANAGED, ENTRY = 4, 0x10


def cubin(symbols: list[tuple[str, int, int]]) -> bytes:
    """An ELF file with these symbols (name, type, st_other), laid out as ptxas does it: sections behind the tables."""
    strings, table = b"\0", b"\0" * 24
    for name, kind, other in symbols:
        table += struct.pack("<IBBHQQ", len(strings), 1 << 4 | kind, other, 1, 0, 4)
        strings += name.encode() + b"\0"
    at = 64 + len(strings)
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at + len(table), 0, 64, 0, 0, 64, 3, 1)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(strings), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, len(table), 1, 1, 8, 24)
    return header + strings + table + sections


IMAGES = {
    "cubin": (cubin([("bump", FUNCTION, ENTRY), ("counter", OBJECT, MANAGED), ("plain", OBJECT, 0)]), ["counter"]),
    "cubin, none": (cubin([("bump", FUNCTION, ENTRY | MANAGED), ("plain", OBJECT, 0)]), []),
    "text": (b".global .attribute(.managed) .align 4 .u32 x = 0x10;\n.global .u32 y;\n", ["x"]),
    "text, array": (b".visible .global .attribute( .managed ) .align 8 .b8 $a_1[16];", ["$a_1"]),
    "text, two": (b".global .attribute(.managed) .f32 a;.global .attribute(.managed) .v2 .f32 b[2];", ["a", "b"]),
    "text, in a remark": (b"// what .managed means\n.global .u32 x;", ["means"]),
    "text, none": (b".version 8.0\n.target sm_90\n", []),
    "short": (b"\x01", []),
    "empty": (b"", []),
    "fat binary": (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0) + b".attribute(.managed) .u32 x;", []),
}


@pytest.mark.parametrize("kind", sorted(IMAGES))
def test_names(programs: Programs, tmp_path: Path, kind: str) -> None:
    image, expected = IMAGES[kind]
    (tmp_path / "image").write_bytes(image)
    assert names(programs, tmp_path / "image") == expected


def test_what_a_compiler_wrote(programs: Programs) -> None:
    assert names(programs, CORPUS / "nvcc-13-sm90.ptx") == ["shared_with_host"]
    assert names(programs, CORPUS / "instructions.ptx") == []


def names(programs: Programs, file: Path) -> list[str]:
    program = programs.build("managed_names", REPOSITORY / "native/interposer/hooks/managed_names.cpp")
    done = programs.run(program, str(file))
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout).splitlines()
