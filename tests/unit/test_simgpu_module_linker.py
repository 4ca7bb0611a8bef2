"""The linker: one input in, the same out; several are refused."""

from __future__ import annotations

import pytest

from tests.native.simgpu.kernels import TEXT, function
from tests.native.simgpu.program import INVALID_HANDLE, NOT_SUPPORTED, SUCCESS, Start, given, out, programs_fixture

start = programs_fixture()

PTX, CUBIN, OBJECT = 1, 0, 3
INVALID_IMAGE, NO_BINARY, INVALID_PTX = 200, 209, 218


def test_what_is_linked_can_be_loaded(start: Start) -> None:
    program = start()
    program.start_up()
    linker = program.number("cuLinkCreate_v2", 0, None, None, out(8))
    assert program.status("cuLinkComplete", linker, out(8), out(8)) == INVALID_IMAGE  # nothing in it yet
    text = given(TEXT)

    def add(kind: int) -> int:
        return program.status("cuLinkAddData_v2", linker, kind, text, len(TEXT), None, 0, None, None)

    assert add(PTX) == SUCCESS
    assert add(PTX) == NOT_SUPPORTED
    image, size = (int.from_bytes(each, "little") for each in program.ok("cuLinkComplete", linker, out(8), out(8)))
    assert size >= len(TEXT)
    module = program.number("cuModuleLoadData", out(8), image)
    assert function(program, module, "store") != 0
    program.ok("cuLinkDestroy", linker)
    assert program.status("cuLinkDestroy", linker) == INVALID_HANDLE


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [(CUBIN, b"\x7fELF", NO_BINARY), (OBJECT, TEXT, NOT_SUPPORTED), (PTX, b"?", INVALID_IMAGE)],
)
def test_what_cannot_be_linked(start: Start, kind: int, data: bytes, status: int) -> None:
    program = start()
    program.start_up()
    linker = program.number("cuLinkCreate_v2", 0, None, None, out(8))
    assert program.status("cuLinkAddData_v2", linker, kind, given(data), len(data), None, 0, None, None) == status
