"""Cases from the kernels in kernels/*.cu: one theme per file, one case per `KERNEL`.

A kernel's parameters say what it gets: `const T*` are inputs of one value per thread, drawn for their type; the one
pointer without `const` is the result. A line `//! key=value …` in front of it says what is not usual:

| key | meaning | usual |
| --- | --- | --- |
| `per` | results per thread | 1 |
| `grid`, `block` | blocks, threads of each (`x`, or `x.y.z`) | 2, 64 |
| `shared` | dynamic shared memory in bytes | 0 |
| `bounds` | `low:high`, of all inputs | the whole type |
| `ulp`, `abs` | how far results may be from the recorded ones | 0 |
| `fill` | the byte that the results are filled with before | 165 |
| `cooperative` | a cooperative launch | |
| `alone` | in a process of its own | |

A line `//! options …` at the head of a file has options for NVRTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.conformance import gpu, values
from tests.conformance.case import Case, Data, Form, Outcome, Tolerance

FOLDER = Path(__file__).parent / "kernels"
_KERNEL = re.compile(r"(?:^//! (?P<notes>[^\n]*)\n)?^KERNEL (?P<name>\w+)\((?P<parameters>[^)]*)\)", re.MULTILINE)
_OPTIONS = re.compile(r"^//! options (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Kernel:
    """What is written about a kernel."""

    file: str
    name: str
    result: str
    inputs: tuple[str, ...]
    notes: dict[str, str]

    def number(self, key: str, usual: float) -> float:
        return float(self.notes.get(key, usual))

    @property
    def form(self) -> Form:
        return Form(self.result, int(self.number("per", 1)), Tolerance(self.number("ulp", 0), self.number("abs", 0)))

    def shape(self, key: str, usual: str) -> tuple[int, int, int]:
        x, y, z = (*self.notes.get(key, usual).split("."), "1", "1")[:3]
        return int(x), int(y), int(z)


def read(file: Path) -> list[Kernel]:
    """The kernels of a file, in its order."""
    found = []
    for match in _KERNEL.finditer(file.read_text()):
        notes = dict(((*word.split("=", 1), "")[:2]) for word in (match["notes"] or "").split())
        parameters = [one.split() for one in match["parameters"].split(",")]
        inputs = tuple(words[1].rstrip("*") for words in parameters if words[0] == "const")
        (result,) = (words[0].rstrip("*") for words in parameters if words[0] != "const")
        assert parameters[0][0] != "const", f"{file.name}: {match['name']}: the result comes first"
        found.append(Kernel(file.name, match["name"], result, inputs, notes))
    assert len({kernel.name for kernel in found}) == len(found), file
    return found


def run(kernel: Kernel) -> Outcome:
    gpu.start()
    source = (FOLDER / kernel.file).read_text()
    options = [word for line in _OPTIONS.findall(source) for word in line.split()]
    function = gpu.function(loaded(source, *options), kernel.name)
    grid, block = kernel.shape("grid", "2"), kernel.shape("block", "64")
    threads = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
    bounds = None
    if "bounds" in kernel.notes:
        low, high = kernel.notes["bounds"].split(":")
        bounds = (float(low), float(high))
    size = values.SIZES[kernel.result] * kernel.form.columns * threads
    inputs = [
        gpu.Memory(values.draw(kind, threads, f"{kernel.name} {place}", bounds))
        for place, kind in enumerate(kernel.inputs)
    ]
    result = gpu.Memory(bytes([int(kernel.number("fill", 165))]) * size)
    how = "cuLaunchCooperativeKernel" if "cooperative" in kernel.notes else "cuLaunchKernel"
    arguments = [gpu.parameters(result, *inputs)] + ([] if "cooperative" in kernel.notes else [0])
    gpu.call(how, function, *grid, *block, int(kernel.number("shared", 0)), 0, *arguments)
    gpu.call("cuCtxSynchronize")
    data = result.read()
    for memory in (result, *inputs):
        memory.free()
    return Data(kernel.form, data)


_modules: dict[tuple[str, ...], object] = {}


def loaded(source: str, *options: str) -> object:
    """One module per source and process."""
    if (source, *options) not in _modules:
        _modules[source, *options] = gpu.module(source, *options)
    return _modules[source, *options]


def cases() -> list[Case]:
    return [
        Case(file.stem, kernel.name, partial(run, kernel), "alone" in kernel.notes, kernel.form)
        for file in sorted(FOLDER.glob("*.cu"))
        for kernel in read(file)
    ]
