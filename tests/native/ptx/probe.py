"""Instructions on edge values: the texts, and what a device answers, for comparison of hardware and software GPU.

`python -m tests.native.ptx.probe FILE` runs them through the driver at hand and writes the results.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
from pathlib import Path

THREADS = 256
F32 = (0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x40200000, 0x40600000,
       0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x4B7FFFFF, 0x4F000000, 0xCF000000, 0x5F000000,
       0x33000000, 0x38800000, 0x477FE000, 0x477FF000, 0x33800001)  # fmt: skip

# one text per line: destination %r9 or %d9, inputs %r1 to %r3 (also as %h1 to %h3, low halves) and %d1 to %d3
INSTRUCTIONS = [
    *(f"{op}{m}.f32 %r9, %r1, %r2" for op in ("add", "sub", "mul") for m in ("", ".rz", ".rm", ".rp", ".ftz", ".sat")),
    *(f"fma.{m}.f32 %r9, %r1, %r2, %r3" for m in ("rn", "rz", "rm", "rp", "rn.ftz", "rn.sat")),
    *(f"div.{m}.f32 %r9, %r1, %r2" for m in ("rn", "rz", "rm", "rp", "rn.ftz")),
    *(f"{op}.{m}.f32 %r9, %r1" for op in ("rcp", "sqrt") for m in ("rn", "rz", "rm", "rp", "rn.ftz")),
    *(f"{op}.f32 %r9, %r1, %r2" for op in ("min", "max", "min.ftz", "max.ftz", "min.NaN", "max.NaN", "copysign")),
    *(f"{op}.f32 %r9, %r1" for op in ("abs", "neg", "abs.ftz", "neg.ftz")),
    *(f"{op}{m}.f64 %d9, %d1, %d2" for op in ("add", "mul", "sub") for m in ("", ".rz", ".rm", ".rp")),
    *(f"{op}.f64 %d9, %d1, %d2" for op in ("min", "max", "div.rn", "div.rp", "div.rz")),
    *(f"fma.{m}.f64 %d9, %d1, %d2, %d3" for m in ("rn", "rz", "rm", "rp")),
    *(f"{op}.{m}.f64 %d9, %d1" for op in ("rcp", "sqrt") for m in ("rn", "rz", "rm", "rp")),
    *(f"{op}.{t} %h9, %h1, %h2" for op in ("add", "sub", "mul", "min", "max", "min.NaN") for t in ("f16", "bf16")),
    *(f"{op}.{t} %r9, %r1, %r2" for op in ("add", "sub", "mul", "min", "max") for t in ("f16x2", "bf16x2")),
    *(f"fma.rn{m}.{t} %h9, %h1, %h2, %h3" for m in ("", ".relu") for t in ("f16", "bf16")),
    *(f"fma.rn{m}.{t} %r9, %r1, %r2, %r3" for m in ("", ".relu") for t in ("f16x2", "bf16x2")),
    *(f"cvt.{m}.{t}.f32 {'%d9' if '64' in t else '%r9'}, %r1"
      for m in ("rni", "rzi", "rmi", "rpi") for t in ("s32", "u32", "s64", "u64")),
    *(f"cvt.{m}.{t}.f64 {'%d9' if '64' in t else '%r9'}, %d1"
      for m in ("rni", "rzi", "rmi", "rpi") for t in ("s32", "u32", "s64", "u64")),
    *(f"cvt.{m}.f32.f32 %r9, %r1" for m in ("rni", "rzi", "rmi", "rpi", "rni.ftz", "sat")),
    *(f"cvt.{m}.f64.f64 %d9, %d1" for m in ("rni", "rzi", "rmi", "rpi")),
    *(f"cvt.{m}.f32.{t} %r9, {'%d1' if '64' in t else '%r1'}"
      for m in ("rn", "rz", "rm", "rp") for t in ("s32", "u32", "s64", "u64", "f64")),
    *(f"cvt.{m}.f64.{t} %d9, %d1" for m in ("rn", "rz", "rm", "rp") for t in ("s64", "u64")),
    *(f"cvt.{m}.f16.f32 %h9, %r1" for m in ("rn", "rz", "rn.sat", "rn.relu")),
    *(f"cvt.{m}.bf16.f32 %h9, %r1" for m in ("rn", "rz", "rn.relu")),
    *(f"cvt.{m}.{t}.f32 %r9, %r1, %r2" for m in ("rn", "rz", "rn.relu") for t in ("f16x2", "bf16x2")),
    *(f"cvt.{m}.f16.{t} %h9, {r}" for m in ("rn", "rz", "rm", "rp")
      for t, r in (("s32", "%r1"), ("u16", "%h1"), ("s64", "%d1"), ("f64", "%d1")) if t != "f64" or m == "rn"),
    *(f"cvt.{m}.s32.f16 %r9, %h1" for m in ("rni", "rzi")), "cvt.f32.f16 %r9, %h1", "cvt.f64.f16 %d9, %h1",
    "cvt.rna.tf32.f32 %r9, %r1", "cvt.f64.f32 %d9, %r1", "cvt.sat.s8.s32 %r9, %r1", "cvt.sat.u16.s64 %r9, %d1",
    "cvt.s64.s8 %d9, %r1", "cvt.u32.s16 %r9, %h1", "bfe.s32 %r9, %r1, %r2, %r3", "bfe.u64 %d9, %d1, %r2, %r3",
    "bfe.s64 %d9, %d1, %r2, %r3", "bfi.b32 %r9, %r1, %r2, %r3, %r1", "bfi.b64 %d9, %d1, %d2, %r3, %r1",
    "bfind.s32 %r9, %r1", "bfind.shiftamt.s64 %r9, %d1", "fns.b32 %r9, %r1, 3, 2", "prmt.b32 %r9, %r1, %r2, %r3",
    *(f"prmt.b32.{m} %r9, %r1, %r2, %r3" for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")),
    "mul24.hi.s32 %r9, %r1, %r2", "mul24.lo.u32 %r9, %r1, %r2", "mad.hi.sat.s32 %r9, %r1, %r2, %r3",
    "dp2a.hi.s32.u32 %r9, %r1, %r2, %r3", "dp4a.u32.s32 %r9, %r1, %r2, %r3", "sad.s32 %r9, %r1, %r2, %r3",
    "div.s32 %r9, %r1, %r2", "rem.s32 %r9, %r1, %r2", "div.u64 %d9, %d1, %d2", "rem.s64 %d9, %d1, %d2",
    "shf.l.clamp.b32 %r9, %r1, %r2, %r3", "shl.b64 %d9, %d1, %r2", "shr.s64 %d9, %d1, %r2", "shr.s16 %h9, %h1, %r2",
    *(f"set.{t}.f32.f32 %r9, %r1, %r2" for t in ("eq", "ne", "ltu", "geu", "num", "nan", "neu")),
    "slct.s32.f32 %r9, %r1, %r2, %r3", "mad.lo.cc.u32 %r9, %r1, %r2, %r3; madc.hi.u32 %r9, %r1, %r2, %r9",
    "add.cc.u32 %r8, %r1, %r2; addc.u32 %r9, %r3, %r1", "sub.cc.u64 %d8, %d1, %d2; subc.u64 %d9, %d3, %d1",
]  # fmt: skip


def text(instruction: str) -> str:
    """A kernel `k(results, inputs)`: 3 words of 64 bits for each thread in, one out."""
    store = "mov.b64 %d9, {%r9, 0};" if "%r9" in instruction else ""
    if "%h9" in instruction:
        store = "cvt.u64.u16 %d9, %h9;"
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{ .reg .b16 %h<10>; .reg .b32 %r<12>; .reg .b64 %d<12>; .reg .b64 %a<4>;
  ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; mov.u32 %r0, %tid.x; mad.wide.u32 %a2, %r0, 24, %a1;
  mad.wide.u32 %a3, %r0, 8, %a0; mov.u64 %d9, 0; mov.u32 %r9, 0; mov.u16 %h9, 0;
  ld.global.u64 %d1, [%a2]; ld.global.u64 %d2, [%a2+8]; ld.global.u64 %d3, [%a2+16];
  cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
  cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;
  {instruction}; {store} st.global.u64 [%a3], %d9; ret; }}
"""


def inputs(instruction: str) -> bytes:
    """The same for the same text: edge values and random ones of the width that the text reads."""
    chance = random.Random(instruction)

    def word() -> int:
        small = chance.choice(
            (chance.choice(F32), chance.getrandbits(32), chance.getrandbits(6), 0x3F800000 + chance.getrandbits(4))
        )
        if "64" not in instruction:
            return small
        double = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", small))[0]))[0]
        return chance.choice((double, double, double + chance.getrandbits(3), chance.getrandbits(64), small)) & (
            2**64 - 1
        )

    return struct.pack(f"<{3 * THREADS}Q", *(word() for _ in range(3 * THREADS)))


def main(out: str) -> None:
    from cuda.bindings import driver

    def call(result: tuple) -> object:  # type: ignore[type-arg]
        status, *values = result
        assert status == driver.CUresult.CUDA_SUCCESS, status
        return values[0] if values else None

    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
    results = {}
    for instruction in INSTRUCTIONS:
        status, module = driver.cuModuleLoadData(text(instruction).encode() + b"\0")
        if int(status):
            results[instruction] = f"status {int(status)}"
            continue
        function = call(driver.cuModuleGetFunction(module, b"k"))
        data = inputs(instruction)
        target, source = call(driver.cuMemAlloc(8 * THREADS)), call(driver.cuMemAlloc(len(data)))
        call(driver.cuMemcpyHtoD(source, data, len(data)))
        values = ((target, source), (ctypes.c_void_p, ctypes.c_void_p))
        call(driver.cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, 0, values, 0))
        back = bytearray(8 * THREADS)
        call(driver.cuMemcpyDtoH(back, target, len(back)))
        results[instruction] = back.hex()
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
