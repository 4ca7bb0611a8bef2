"""examples/cupy_walk.py with CuPy's allocator on top of the driver's stream-ordered pool."""

from __future__ import annotations

import runpy
from pathlib import Path

import cupy

cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
runpy.run_path(str(Path(__file__).parents[2] / "examples" / "cupy_walk.py"), run_name="__main__")
