"""What device code prints."""

from __future__ import annotations

import ctypes
import os

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program

SOURCE = r"""
KERNEL integers() {
  printf("%d %i %u %x %X %o|%5d|%-5d|%05d|%+d|% d\n",
         -5, 7, 4000000000u, 255, 255, 8, 42, 42, 42, 42, 42);
}
KERNEL longs() {
  printf("%lld %llu %llx %ld %hd\n",
         -1ll << 40, ~0ull, 0x123456789abcdefull, 5l, (short)-3);
}
KERNEL floats() {
  printf("%f %e %g %.3f %10.2f|%-10.1f|%E %G %a\n",
         1.5, 12345.678, 1e-7, 3.14159, 2.5, 2.5, 1e10, 1e20, 1.0);
}
KERNEL odd_floats() {
  printf("%f %f %f %g\n",
         __longlong_as_double(0x7ff0000000000000ll), -1.0 / 3, 0.0f * -1, 1e300 * 10);
}
KERNEL texts() {
  printf("%s and %s, %c%c %% %10s|%-6s|\n",
         "one", "two", 'a', 'b', "right", "left");
}
KERNEL stars() { printf("%*d %.*f\n", 6, 42, 2, 3.14159); }
KERNEL results(int* p) { p[0] = printf("none\n"); p[1] = printf("%d %d\n", 1, 2); p[2] = printf(""); }
KERNEL each() { printf("thread %d of block %d\n", threadIdx.x, blockIdx.x); }
KERNEL pointer() { printf("%p\n", (void*)0x1234); }
"""


def printed(module: object, name: str, *values: object, threads: int = 1) -> str:
    """What this launch writes to standard output, of which the worker has made a file."""
    begin = os.lseek(1, 0, os.SEEK_END)
    gpu.launch(gpu.function(module, name), *values, block=threads)
    gpu.call("cuCtxSynchronize")
    ctypes.CDLL(None).fflush(None)
    return os.pread(1, 1 << 16, begin).decode(errors="replace")


@program
def formats(note: Notes) -> None:
    module = gpu.module(SOURCE)
    for name in ("integers", "longs", "floats", "odd_floats", "texts", "stars", "pointer"):
        note(name, printed(module, name))


@program
def values_returned(note: Notes) -> None:
    memory = gpu.Memory(bytes(12))
    note("printed", printed(gpu.module(SOURCE), "results", memory))
    note("returned", memory.read())


@program
def lines_of_threads(note: Notes) -> None:
    note("printed", sorted(printed(gpu.module(SOURCE), "each", threads=70).splitlines()))
