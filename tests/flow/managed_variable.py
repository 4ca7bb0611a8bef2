"""Uses a variable that is managed (`__managed__`), in one of several ways; waits for a file, then works on and checks.

The ways: `asked` for by the program, `unasked` (the kernel alone uses it), `file`, `library`, `unloaded` (it was
there), and `none` (an ordinary variable of the same kind).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

TEXT = """.version 7.0
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 counter = 7;
.visible .entry count(.param .u64 to) {
  .reg .u64 a, c; .reg .u32 v;
  ld.param.u64 a, [to]; mov.u64 c, counter;
  ld.global.u32 v, [c]; add.u32 v, v, 1; st.global.u32 [c], v; st.global.u32 [a], v; ret;
}
"""
ROUNDS = 100


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def load(way: str, folder: Path) -> tuple[Any, Any]:
    """The kernel, and the variable's address or None."""
    text = TEXT.replace(".attribute(.managed) ", "") if way == "none" else TEXT
    if way == "library":
        library = check(driver.cuLibraryLoadData(text.encode(), [], [], 0, [], [], 0))
        return check(driver.cuKernelGetFunction(check(driver.cuLibraryGetKernel(library, b"count")))), None
    if way == "file":
        (folder / "module.ptx").write_text(text)
        module = check(driver.cuModuleLoad(os.fsencode(folder / "module.ptx")))
    else:
        module = check(driver.cuModuleLoadData(text.encode()))
    address = check(driver.cuModuleGetGlobal(module, b"counter"))[0] if way == "asked" else None
    if way == "unloaded":
        check(driver.cuModuleUnload(module))
        return load("none", folder)
    return check(driver.cuModuleGetFunction(module, b"count")), address


def main() -> None:
    way, go = sys.argv[1], Path(sys.argv[2])
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))
    kernel, address = load(way, go.parent)
    place = check(driver.cuMemAlloc(4))
    argument = ctypes.c_uint64(int(place))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))

    def count() -> int:
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(pointers), 0))
        check(driver.cuCtxSynchronize())
        word = bytearray(4)
        check(driver.cuMemcpyDtoH(word, place, 4))
        return int.from_bytes(word, "little")

    print("first", count(), flush=True)
    while not go.exists():
        time.sleep(0.01)
    seen = [count() for _round in range(ROUNDS)]
    if address is not None:
        seen.append(ctypes.c_uint32.from_address(int(address)).value)
    right = seen == [*range(9, 9 + ROUNDS), *([8 + ROUNDS] if address is not None else [])]
    print("right" if right else f"wrong: {seen}", flush=True)


main()
