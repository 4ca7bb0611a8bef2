"""The linker: PTX texts and fat binaries in, one image out."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.native.simgpu.kernels import TEXT, function, launch, u64
from tests.native.simgpu.program import (
    INVALID_HANDLE,
    NOT_SUPPORTED,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

PTX, CUBIN, FATBIN, OBJECT = 1, 0, 2, 3
INVALID_IMAGE, NO_BINARY, INVALID_PTX = 200, 209, 218

# As `nvcc -rdc=true -ptx` writes two files that call each other, with a variable of the one, and names of their own.
FIRST = """.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) other (.param .b32 x);
.visible .global .align 4 .u32 counter = 5;
.global .align 4 .u32 mine = 1;
.weak .func (.param .b32 result) weakling () { st.param.b32 [result], 7; ret; }
.visible .func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; ld.global.u32 %r2, [mine]; mad.lo.u32 %r3, %r1, 2, %r2; st.param.b32 [result], %r3; ret;
}
.visible .entry run(.param .u64 to) {
  .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [to];
  { .param .b32 a; .param .b32 r; st.param.b32 [a], 10; call.uni (r), other, (a); ld.param.b32 %r1, [r]; }
  { .param .b32 r; call.uni (r), weakling; ld.param.b32 %r2, [r]; }
  ld.global.u32 %r3, [counter]; st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.u32 [%d1+8], %r3; ret;
}
"""
SECOND = """//
.version 7.5
.target sm_75, debug
.address_size 64
.extern .func (.param .b32 result) twice
(
  .param .b32 x
)
;
.extern .global .align 4 .u32 counter;
.global .align 4 .u32 mine = 100;
.weak .func (.param .b32 result) weakling () { st.param.b32 [result], 8; ret; }
.visible .func (.param .b32 result) other(.param .b32 x) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; ld.global.u32 %r2, [counter]; add.u32 %r2, %r2, %r1; st.global.u32 [counter], %r2;
  { .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), twice, (a); ld.param.b32 %r3, [r]; }
  ld.global.u32 %r2, [mine]; add.u32 %r3, %r3, %r2; st.param.b32 [result], %r3; ret;
}
.section .debug_str { .b8 1, 2 }
"""
STRONG = ".version 7.0\n.target sm_70\n.visible .func (.param .b32 r) weakling () { st.param.b32 [r], 9; ret; }\n"


class Linker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.log = program.place(bytes(500))
        values = program.place(struct.pack("<QQ", self.log, 500))
        self.handle = program.number("cuLinkCreate_v2", 2, given(struct.pack("<ii", 5, 6)), values, out(8))

    def add(self, data: bytes, kind: int = PTX) -> int:
        return self.program.status("cuLinkAddData_v2", self.handle, kind, given(data), len(data), None, 0, None, None)

    def complete(self) -> int:
        """The address of the image."""
        return self.program.number("cuLinkComplete", self.handle, out(8), out(8))

    def refused(self) -> str:
        """What the log says when it cannot be completed."""
        assert self.program.status("cuLinkComplete", self.handle, out(8), out(8)) == INVALID_IMAGE
        return bytes.fromhex(self.program.python(f"peek({self.log}, 500)")).split(b"\0")[0].decode()


def answers(program: Program, image: int) -> tuple[int, ...]:
    """What the kernel `run` of FIRST writes."""
    module = program.number("cuModuleLoadData", out(8), image)
    address = program.allocate(12)
    launch(program, function(program, module, "run"), u64(address))
    program.ok("cuCtxSynchronize")
    return struct.unpack("<3I", program.read(address, 12))


def test_one_input_is_what_comes_out(start: Start) -> None:
    program = start()
    program.start_up()
    linker = Linker(program)
    assert program.status("cuLinkComplete", linker.handle, out(8), out(8)) == INVALID_IMAGE  # nothing in it yet
    assert linker.add(TEXT) == SUCCESS
    image, size = (
        int.from_bytes(each, "little") for each in program.ok("cuLinkComplete", linker.handle, out(8), out(8))
    )
    assert size >= len(TEXT.rstrip(b"\0"))
    module = program.number("cuModuleLoadData", out(8), image)
    assert function(program, module, "store") != 0
    program.ok("cuLinkDestroy", linker.handle)
    assert program.status("cuLinkDestroy", linker.handle) == INVALID_HANDLE


@pytest.mark.parametrize("turned", [False, True])
def test_texts_that_need_each_other(start: Start, turned: bool) -> None:
    program = start()
    program.start_up()
    linker = Linker(program)
    for text in (SECOND, FIRST) if turned else (FIRST, SECOND):
        assert linker.add(text.encode()) == SUCCESS
    assert answers(program, linker.complete()) == (2 * 10 + 1 + 100, 8 if turned else 7, 15)


def test_a_strong_definition_takes_the_place_of_weak_ones(start: Start, tmp_path: Path) -> None:
    program = start()
    program.start_up()
    linker = Linker(program)
    assert linker.add(FIRST.encode()) == linker.add(SECOND.encode()) == SUCCESS
    (tmp_path / "strong.ptx").write_text(STRONG)
    path = given(str(tmp_path / "strong.ptx").encode() + b"\0")
    program.ok("cuLinkAddFile_v2", linker.handle, PTX, path, 0, None, None)
    assert answers(program, linker.complete()) == (121, 9, 15)


def test_a_fat_binary_is_an_input_too(start: Start) -> None:
    program = start()
    program.start_up()
    text = SECOND.encode() + bytes(-len(SECOND) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(text), 0, 0, 0, 7, 75, 0, 0, 0x11, 0, 0)
    linker = Linker(program)
    assert linker.add(FIRST.encode()) == SUCCESS
    assert linker.add(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry + text)) + entry + text, FATBIN) == SUCCESS
    assert answers(program, linker.complete()) == (121, 7, 15)


def test_what_is_nowhere_or_twice_is_named(start: Start) -> None:
    program = start()
    program.start_up()
    linker = Linker(program)
    assert linker.add(FIRST.encode()) == linker.add(STRONG.encode()) == SUCCESS
    assert "Undefined reference to 'other'" in linker.refused()
    assert linker.add(SECOND.encode()) == linker.add(STRONG.encode()) == SUCCESS
    assert "Multiple definition of 'weakling'" in linker.refused()


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        (CUBIN, b"\x7fELF", NO_BINARY),
        (OBJECT, TEXT, NOT_SUPPORTED),
        (PTX, b"?", INVALID_IMAGE),
        (PTX, b".version 7.0\n.target sm_70\n.func f() { foo; }", INVALID_PTX),
    ],
)
def test_what_cannot_be_linked(start: Start, kind: int, data: bytes, status: int) -> None:
    program = start()
    program.start_up()
    assert Linker(program).add(data, kind) == status
