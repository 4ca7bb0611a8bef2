"""Kernels for tests, and launching them from a worker. The statuses in the tests that use this are an H200's."""

from __future__ import annotations

import struct
from typing import Any

from tests.native.simgpu.program import Program, given, out

PTX = """.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 7;
.const .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .entry store(.param .u64 to, .param .u32 value) {
  .reg .u64 a; .reg .u32 v;
  ld.param.u64 a, [to]; ld.param.u32 v, [value];
  st.global.u32 [a], v; ret;
}
.visible .entry add_counter(.param .u64 to) {
  .reg .u64 a; .reg .u32 v, w;
  ld.param.u64 a, [to]; ld.global.u32 v, [a]; ld.global.u32 w, [counter];
  add.u32 v, v, w; st.global.u32 [a], v; ret;
}
.visible .entry wait_for(.param .u64 flag) {
  .reg .u64 a; .reg .u32 v; .reg .pred p;
  ld.param.u64 a, [flag];
again:
  ld.volatile.global.u32 v, [a]; setp.eq.u32 p, v, 0; @p bra again; ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
.visible .entry required() .reqntid 32, 1, 1 { ret; }
.visible .entry shared() { .shared .align 4 .b8 s[1000]; .reg .u32 v; mov.u32 v, 1; st.shared.u32 [s], v; ret; }
.visible .entry trapping() { trap; }
"""
TEXT = PTX.encode() + b"\0"


def load(program: Program, image: bytes = TEXT) -> int:
    """The module."""
    return program.number("cuModuleLoadData", out(8), given(image))


def function(program: Program, module: int, name: str) -> int:
    return program.number("cuModuleGetFunction", out(8), module, given(name.encode() + b"\0"))


def launch(program: Program, kernel: int, *parameters: bytes, **how: Any) -> int:
    """The status of a launch; the grid, the block, the dynamic shared bytes and the stream by keyword."""
    grid, block = how.get("grid", (1, 1, 1)), how.get("block", (1, 1, 1))
    addresses = [program.place(each) for each in parameters]
    array = given(struct.pack(f"<{len(addresses)}Q", *addresses)) if addresses else None
    return program.status(
        "cuLaunchKernel", kernel, *grid, *block, how.get("shared", 0), how.get("stream", 0), array, None
    )


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)
