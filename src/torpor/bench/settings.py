"""How a run is made: how long, how often, with what."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torpor import paths
from torpor.records import DEFAULT_VM, Backend, Vm

NATIVE, TORPOR, CONTROL, DRIVER = "native", "torpor", "control", "driver + CRIU"


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`groups` of fresh copies take `rounds` turns each, in batches of `batch` seconds. `repeats` is for what is done
    once in a process's life (a checkpoint), `driver_repeats` the same for the driver's own way, which is slow. `gib`:
    GPU memory to hold, GiB, and `requests` to serve; None: what suits the machine. `models`: names of those to run (in
    `bench.models`), where a part has any of them. `devices`: GPUs there are, of at least `device_memory` bytes each.
    `patience`: seconds for one answer of a program. `scratch`: a folder that is removed after the run."""

    backend: Backend
    quick: bool = False
    vm: Vm = DEFAULT_VM
    groups: int = 7
    rounds: int = 8
    batch: float = 0.05
    repeats: int = 3
    driver_repeats: int = 1
    gib: tuple[float, ...] | None = None
    requests: int | None = None
    models: tuple[str, ...] = ()
    devices: int = 1
    device_memory: int = 16 << 30
    patience: float = 300.0
    scratch: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    say: Callable[[str], None] = _silent

    @property
    def software_gpu(self) -> bool:
        return self.backend == "sim"

    def environment(self) -> dict[str, str]:
        """What a native program runs with: on the software GPU, that as its driver."""
        library = paths.software_gpu() if self.software_gpu else None
        if library is None:
            return dict(os.environ)
        before = os.environ.get("LD_LIBRARY_PATH")
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, [str(library.parent), before]))}


QUICK = {"groups": 3, "rounds": 3, "batch": 0.02, "repeats": 1}
"""What `--quick` makes of it: enough to see that everything runs, too little for a verdict."""
