"""What the recordings were made on."""

from __future__ import annotations

from cuda import bindings

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program


@program
def machine(note: Notes) -> None:
    device = gpu.start()
    note("gpu", gpu.call("cuDeviceGetName", 64, device).rstrip(b"\0 ").decode())
    note("driver", gpu.call("cuDriverGetVersion"))
    note("nvrtc", gpu.nvrtc_version())
    note("cuda-bindings", bindings.__version__)
