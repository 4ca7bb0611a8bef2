"""A program with known work for the GPU: `timed.py LAUNCHES [--overlap] [--fork] [--no-files] [--pause]`.

`--overlap` adds a copy in and a copy out of 4 MB at the same time, `--fork` a child that ends as the program does.
With `--no-files` no file may grow any more when it ends. With `--pause` it then says "ready" and goes on launching, one
at a time, for ever.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

from counted import check, launch_for_ever
from cuda.bindings import driver

KERNEL = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry _Z7nothingPfi() { ret; }\n\0"
LARGE = 4_000_000


def overlap(memory: int) -> None:
    host = driver.cuMemAllocHost(2 * LARGE)[1]
    streams = [check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)) for _ in range(2)]
    check(driver.cuMemcpyHtoDAsync(memory, host, LARGE, streams[0]))
    check(driver.cuMemcpyDtoHAsync(int(host) + LARGE, int(memory) + LARGE, LARGE, streams[1]))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("launches", type=int)
    for option in ("--overlap", "--fork", "--no-files", "--pause"):
        arguments.add_argument(option, action="store_true")
    options = arguments.parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(KERNEL)), b"_Z7nothingPfi"))
    memory = check(driver.cuMemAlloc(2 * LARGE))
    data = bytearray(1000)
    for _ in range(options.launches):
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    for _ in range(3):
        check(driver.cuMemcpyHtoD(memory, bytes(data), len(data)))
    check(driver.cuMemcpyDtoH(data, memory, 500))
    check(driver.cuMemcpyDtoD(int(memory) + 1000, memory, 1000))
    for _ in range(4):
        check(driver.cuMemsetD8(memory, 7, 100))
    if options.overlap:
        overlap(memory)
    check(driver.cuCtxSynchronize())
    if options.no_files:
        profile = Path(os.environ["TORPOR_JOB_DIR"], "profile")
        while not any(profile.glob("*.kernels.json")):
            time.sleep(0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if options.fork and (child := os.fork()):
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if options.pause:
        launch_for_ever(kernel)


if __name__ == "__main__":
    main()
