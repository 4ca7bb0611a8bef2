"""A program with known numbers of driver calls: `counted.py LAUNCHES [--exit CODE] [--pause]`.

With `--pause` it then says "ready" and goes on launching, one at a time, for ever.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, NoReturn

from cuda.bindings import driver

KERNEL = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def launch_for_ever(kernel: Any) -> NoReturn:
    print("ready", flush=True)
    while True:
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
        check(driver.cuCtxSynchronize())
        time.sleep(0.005)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("launches", type=int)
    arguments.add_argument("--exit", type=int, default=0)
    arguments.add_argument("--pause", action="store_true")
    options = arguments.parse_args()
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(0))
    check(driver.cuCtxSetCurrent(context))
    kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(KERNEL)), b"nothing"))
    memory = check(driver.cuMemAlloc(1 << 20))
    data = bytes(1000)
    for _ in range(options.launches):
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
        check(driver.cuCtxGetDevice())
    for _ in range(3):
        check(driver.cuMemcpyHtoD(memory, data, len(data)))
    check(driver.cuCtxSynchronize())
    if options.pause:
        launch_for_ever(kernel)
    return int(options.exit)


if __name__ == "__main__":
    sys.exit(main())
