"""The parts of `torpor bench`, and what they need of the machine."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module

from torpor.bench.results import Figure, Measurement
from torpor.bench.settings import Settings
from torpor.errors import TorporError, UsageError

REGISTRY = {
    "raw": "torpor.bench.raw",
    "launch": "torpor.bench.launches",
    "transfers": "torpor.bench.transfers",
    "training": "torpor.bench.training",
    "inference": "torpor.bench.inference",
    "cold-start": "torpor.bench.cold_start",
    "checkpoint": "torpor.bench.checkpoints",
    "application": "torpor.bench.application",
    "gpus": "torpor.bench.several",
}
"""Name → module that has the `PART`, in the order in which they are run."""


@dataclass(frozen=True)
class Part:
    """`run` yields measurements as they are made. `needs` are keys of `NEEDS`."""

    name: str
    title: str
    run: Callable[[Settings], Iterable[Measurement]]
    needs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


def has(module: str) -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec(module) is not None


def _no_torch(settings: Settings) -> str | None:
    del settings
    return None if has("torch") else "PyTorch is not installed (pip install torch)"


def _no_torch_for_the_gpu(settings: Settings) -> str | None:
    return None if settings.software_gpu else _no_torch(settings)


def _no_gpu(settings: Settings) -> str | None:
    return "there is no NVIDIA GPU" if settings.software_gpu else None


def _no_compiler(settings: Settings) -> str | None:
    del settings
    return None if shutil.which("cc") else "there is no C compiler `cc` (its loop of calls is compiled here)"


def _one_gpu(settings: Settings) -> str | None:
    return None if settings.devices > 1 else "there is one GPU, it compares several"


def _no_checkpoints(settings: Settings) -> str | None:
    del settings
    from torpor import doctor

    for check in (doctor.criu, doctor.rights):
        found = check()
        if found.level == "fail":
            return f"jobs cannot be saved here: {found.name}: {found.found} ({found.fix})"
    return None


NEEDS: dict[str, Callable[[Settings], str | None]] = {
    "gpu": _no_gpu,
    "torch": _no_torch,
    "torch-on-gpu": _no_torch_for_the_gpu,
    "compiler": _no_compiler,
    "several-gpus": _one_gpu,
    "checkpoints": _no_checkpoints,
}
"""Each says what is missing, or None. `torch-on-gpu`: on the software GPU the part has something in PyTorch's place."""


def load(name: str) -> Part:
    """The part of that name. UsageError when there is none."""
    if name not in REGISTRY:
        raise UsageError(f"there is no part {name!r}", hint=f"parts: {', '.join(REGISTRY)}")
    part: Part = import_module(REGISTRY[name]).PART
    return part


def missing(part: Part, settings: Settings) -> str | None:
    """The first thing that the part needs and that is not here."""
    for need in part.needs:
        try:
            found = NEEDS[need](settings)
        except TorporError as error:
            found = error.message
        if found is not None:
            return found
    return None
