"""Random programs as cases: many to a source, because compiling is what takes long."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from tests.conformance import gpu
from tests.conformance.case import Case, Outcome
from tests.conformance.random_programs.generator import inputs, of_seed
from tests.conformance.random_programs.trees import THREADS, Program

HEADER = (Path(__file__).parent / "operations.h").read_text()
THEMES, BATCHES, BATCH = 6, 5, 20


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def run(programs: list[tuple[Program, bytes]]) -> list[bytes]:
    """What each program writes for its inputs."""
    gpu.start()
    source = HEADER + "".join(program.cpp(f"r{n}") for n, (program, _) in enumerate(programs))
    module = gpu.module(source)
    results = []
    for n, (_, words) in enumerate(programs):
        given, result = gpu.Memory(words), gpu.Memory(bytes(8 * THREADS))
        gpu.launch(gpu.function(module, f"r{n}"), result, given, block=THREADS)
        results.append(result.read())
        given.free()
        result.free()
    gpu.call("cuModuleUnload", module)
    return results


def seeds(theme: int, batch: int) -> range:
    begin = (theme * BATCHES + batch) * BATCH
    return range(begin, begin + BATCH)


def _batch(chosen: range) -> Outcome:
    results = run([(of_seed(seed), inputs(seed)) for seed in chosen])
    return [[str(seed), digest(result)] for seed, result in zip(chosen, results, strict=True)]


def cases() -> list[Case]:
    return [
        Case(f"random_{theme}", f"seeds_{seeds(theme, batch).start}", partial(_batch, seeds(theme, batch)))
        for theme in range(THEMES)
        for batch in range(BATCHES)
    ]
