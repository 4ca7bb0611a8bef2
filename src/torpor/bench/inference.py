"""Question: how many requests does a served model answer under Torpor?   Target: within 1 % of native.

Continuous batching of a fixed set of requests over a paged cache, by a small engine in PyTorch (`programs/serve.py`)
and a Llama-3.1-8B-shaped model with random weights in bfloat16, or the largest of which three copies fit; where vLLM is
installed, by vLLM as well. Decoding steps are launched kernel by kernel, and as CUDA graphs. The tokens that come out
must be the same on every side, to the last: unless an engine's native copies already differ, which is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from torpor.bench import models, parts, turns
from torpor.bench.models import Llama
from torpor.bench.parts import Part
from torpor.bench.results import Figure, Measurement, Spread, within
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.errors import MissingPart, TorporError

BAR = within(0.01)
MODES = {"eager": "kernel by kernel", "graphs": "CUDA graphs"}
GROUPS, ROUNDS = 3, 4
"""At most: one turn answers the whole set, and takes seconds."""


def run(settings: Settings) -> Iterator[Measurement]:
    """Requests and tokens a second in both modes, after a check that all sides give the same tokens."""
    for name, model in _chosen(settings).items():
        command = models.command("serve.py", model, settings, *_requests(settings))
        yield from _measure(name, command, tuple(MODES), settings)
        for mode in MODES if _has_vllm(settings) else ():  # each in processes of its own
            rest = ("--mode", mode, "--folder", str(settings.scratch))  # what a killed one leaves there goes with it
            command = models.command("serve_vllm.py", model, settings, *_requests(settings), *rest)
            yield from _measure(f"{name} by vLLM", command, (mode,), settings)


def _has_vllm(settings: Settings) -> bool:
    if settings.software_gpu:
        return False
    if not parts.has("vllm"):
        settings.say("vLLM is not installed, and left out")
        return False
    return True


def _measure(name: str, command: list[str], modes: Sequence[str], settings: Settings) -> Iterator[Measurement]:
    settings.say(f"{name}: the same tokens on both sides?")
    counts, note = _check(command, modes, settings)
    few = replace(settings, groups=min(settings.groups, GROUPS), rounds=min(settings.rounds, ROUNDS))
    kinds = {kind.name: kind for kind in (_kind(name, mode, counts, note) for mode in modes)}
    for measured in turns.compare(command, list(kinds.values()), few, cores=None):
        yield measured
        if measured.sides:  # of what is left out there is nothing to derive
            yield from _derived(name, kinds[measured.name], counts, measured)


def _chosen(settings: Settings) -> dict[str, Llama]:
    if settings.software_gpu:
        return dict(models.of(models.TOY_LLAMA, ("toy",), settings))
    if any(name in models.LLAMA for name in settings.models):
        return models.of(models.LLAMA, (), settings)
    if settings.quick:
        return {"0.5b": models.LLAMA["0.5b"]}
    free = models.free_memory(settings)
    fitting = [name for name, model in models.LLAMA.items() if 3 * model.serving_bytes <= free]
    if not fitting:
        raise MissingPart("the GPU has too little free memory for three copies of any model")
    return {fitting[-1]: models.LLAMA[fitting[-1]]}


def _requests(settings: Settings) -> list[str]:
    if settings.software_gpu:
        return ["--requests", str(settings.requests or 6), "--longest-prompt", "24", "--longest-answer", "20"]
    return ["--requests", str(settings.requests or (24 if settings.quick else 64))]


def _check(command: list[str], modes: Sequence[str], settings: Settings) -> tuple[dict[str, int], str]:
    """What the set is, and what is to be said of its answers.

    TorporError where Torpor's are not the native ones, and two native copies agree."""
    counts: list[int] = []

    def answers(side: str) -> list[str]:
        with turns.Copy(command, side, settings) as copy:
            counts[:] = [int(word) for word in copy.ask("requests 1").split()]
            found = []
            for mode in modes:
                copy.batch(mode, 1)
                found.append(copy.ask("tokens 1"))
        return found

    native, torpor = answers(NATIVE), answers(TORPOR)
    notes = [] if len(set(native)) == 1 else ["other tokens than kernel by kernel"]
    if native != torpor:
        if answers(CONTROL) == native:
            raise TorporError(f"Torpor's answers differ from the native ones: {native} and {torpor}")
        notes.append("two native copies give different tokens")
    return dict(zip(("requests", "prompt tokens", "output tokens"), counts, strict=True)), "; ".join(notes)


def _kind(model: str, mode: str, counts: Mapping[str, int], note: str) -> turns.Kind:
    return turns.Kind(
        name=f"{model}, {MODES[mode]}: output tokens/s",
        ask=mode,
        unit="tokens/s",
        better="higher",
        value=lambda ns: counts["output tokens"] / ns * 1e9,
        bars=(BAR,),
        figures=("output", "cost"),
        series=f"{model}, {MODES[mode]}",
        note=note,
    )


def _derived(
    model: str, kind: turns.Kind, counts: Mapping[str, int], measured: Measurement
) -> Iterator[Measurement]:
    """The same turns as requests a second, and as tokens of prompts and answers a second."""
    totals = {"requests": counts["requests"], "total tokens": counts["prompt tokens"] + counts["output tokens"]}
    for what, total in totals.items():
        times = total / counts["output tokens"]
        yield msgspec.structs.replace(
            measured,
            name=f"{model}, {MODES[kind.ask]}: {what}/s",
            unit=f"{what.split()[-1]}/s",
            sides={side: _scaled(value, times) for side, value in measured.sides.items()},
            bars=[],
            figures=[what.split()[0]],
            note="",
        )


def _scaled(value: Spread, times: float) -> Spread:
    return Spread(value.median * times, value.low * times, value.high * times, value.n)


PART = Part(
    "inference",
    "Inference: continuous batching of a fixed set of requests",
    run,
    needs=("torch-on-gpu",),
    figures=(
        Figure(name="output", title="Inference: output tokens", kind="bars", y="tokens/s"),
        Figure(name="total", title="Inference: tokens of prompts and answers", kind="bars", y="tokens/s"),
        Figure(name="requests", title="Inference: requests", kind="bars", y="requests/s"),
        Figure(name="cost", title="Inference under Torpor, relative to native", kind="cost"),
    ),
)
