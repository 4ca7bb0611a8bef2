"""The models that are trained and served: their shapes, the programs' command lines, and what fits on this machine.

On the software GPU tiny stand-ins made of driver calls (`programs/toy.py`) take their place.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torpor.bench import machine, sources
from torpor.bench.settings import Settings
from torpor.errors import TorporError

_FREE = (
    "import sys; from torpor.driver.devices import Driver; d = Driver(); d.bind(0); "
    "sys.stdout.write(str(d.free_memory(0)))"
)
VOCABULARY = 50304
TRAINING_BYTES = 16
"""Of a trained parameter: itself, its gradient and two moments of the optimiser, in float32."""


@dataclass(frozen=True)
class Gpt:
    """A model for training. `length`: tokens of a sequence; `batch`: sequences."""

    width: int
    layers: int
    heads: int
    batch: int = 8
    length: int = 1024
    vocabulary: int = VOCABULARY

    @property
    def parameters(self) -> int:
        """Without biases and norms, which are less than a thousandth."""
        return 12 * self.layers * self.width**2 + (self.vocabulary + self.length) * self.width

    @property
    def training_bytes(self) -> int:
        """GPU memory of one copy: parameters, what the backward pass keeps, the logits, and PyTorch's own."""
        tokens = self.batch * self.length
        kept = tokens * self.width * self.layers * 40 + 4 * tokens * self.vocabulary * 4
        return self.parameters * TRAINING_BYTES + kept + (2 << 30)

    def options(self) -> list[str]:
        return _options(self.__dict__)


@dataclass(frozen=True)
class Llama:
    """A model for serving, weights in bfloat16. `longest`: tokens of a request at most; `slots`: requests at once."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    longest: int = 768
    slots: int = 32

    @property
    def weights_bytes(self) -> int:
        head = self.width // self.heads
        layer = (self.heads + 2 * self.kv_heads) * head * self.width + self.heads * head * self.width
        return 2 * (self.layers * (layer + 3 * self.width * self.inner) + 2 * self.vocabulary * self.width)

    @property
    def serving_bytes(self) -> int:
        """GPU memory of one copy: weights, cache, what a step needs, and PyTorch's own."""
        cache = 4 * self.layers * self.kv_heads * (self.width // self.heads) * self.longest * self.slots
        return self.weights_bytes + cache + (3 << 30)

    def options(self) -> list[str]:
        return _options(self.__dict__)


GPT: Mapping[str, Gpt] = {
    "30m": Gpt(384, 6, 6),
    "60m": Gpt(512, 11, 8),
    "120m": Gpt(768, 12, 12),
    "350m": Gpt(1024, 24, 16),
    "760m": Gpt(1536, 24, 16),
    "1b": Gpt(1792, 24, 14),
}
"""By name, the smallest first: about as many parameters."""

LLAMA: Mapping[str, Llama] = {
    "0.5b": Llama(896, 24, 14, 2, 4864, 151936),
    "1b": Llama(2048, 16, 32, 8, 8192, 128256),
    "3b": Llama(3072, 28, 24, 8, 8192, 128256),
    "8b": Llama(4096, 32, 32, 8, 14336, 128256),
}
"""Shapes of Qwen2.5-0.5B, Llama-3.2-1B, Llama-3.2-3B and Llama-3.1-8B; the output has weights of its own in all."""

TOY_GPT: Mapping[str, Gpt] = {"toy": Gpt(64, 2, 2), "larger toy": Gpt(96, 3, 2)}
TOY_LLAMA: Mapping[str, Llama] = {
    "toy": Llama(64, 2, 2, 2, 64, 5000, longest=48, slots=4),
    "larger toy": Llama(256, 4, 2, 2, 256, 5000, longest=48, slots=4),
}
"""For the software GPU; of these only width, layers and vocabulary mean something."""

Model = TypeVar("Model", Gpt, Llama)


def of(known: Mapping[str, Model], usual: Sequence[str], settings: Settings) -> dict[str, Model]:
    """Those that `settings.models` names, in the order of `known`; where it names none of them, the `usual` ones."""
    wanted = [name for name in known if name in settings.models] or [name for name in known if name in usual]
    return {name: known[name] for name in wanted}


def command(program: str, model: Gpt | Llama, settings: Settings, *more: str) -> list[str]:
    """The command line of a program of `programs/` with this model."""
    engine = "driver" if settings.software_gpu else "torch"
    return [sys.executable, str(sources.path(program)), "--engine", engine, *model.options(), *more]


def free_memory(settings: Settings) -> int:
    """Bytes that are free on the first GPU. Asked in a process of its own: this one is to hold no context."""
    asked = subprocess.run(
        [sys.executable, "-c", _FREE], env=settings.environment(), capture_output=True, text=True, check=False
    )
    if asked.returncode != 0 or not asked.stdout.isdigit():
        raise TorporError("the driver cannot be used", hint=asked.stderr.strip()[-500:] or "see `torpor doctor`")
    return int(asked.stdout)


def touch(size: int, settings: Settings) -> None:
    """Have `size` bytes of the host's memory, or most of what is free, used once before anything is timed."""
    if not settings.software_gpu:
        settings.say("touching the host's memory, so that no first use of a page is timed")
        machine.touch_memory(min(size, host_memory() * 8 // 10))


def host_memory() -> int:
    """Bytes of the host's memory that are free, or can be made so."""
    words = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return next(int(word[1]) << 10 for word in words if word[0] == "MemAvailable:")


def too_large(needed: int, free: int, what: str) -> str | None:
    """Why a model is left out, or None."""
    if needed <= free:
        return None
    return f"left out: {what} need {needed / (1 << 30):.1f} GiB, {free / (1 << 30):.1f} GiB are free"


def _options(fields: Mapping[str, int]) -> list[str]:
    return [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", str(value))]
