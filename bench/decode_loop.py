"""Question: what does a decoding step of a Llama-shaped model cost?  (bench/overhead.py runs it, taking turns.)

For each line "<form>_<rows> <steps>" on standard input, decodes one token of so many requests so often and prints the
nanoseconds of each step. The tokens go to the host after each, as a server needs them. Forms: `eager`, kernel by
kernel; `pieces`, attention kernel by kernel and what lies between two attentions as a CUDA graph, as servers do whose
attention cannot be captured. Both must give the same tokens.
"""

from __future__ import annotations

import script  # noqa: F401 - of a job only the beginning

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from torpor.bench import models

sys.path.insert(0, str(Path(models.__file__).parent / "programs"))

from engines import options
from llama import Decoder

MODEL = models.LLAMA["8b"]
PLACE = 200
"""Tokens that each request has already."""


class Requests:
    """So many at work, each where it always is: every step does the same."""

    def __init__(self, decoder: Decoder, rows: int) -> None:
        self.decoder = decoder
        pages = [[1 + row * decoder.width + page for page in range(decoder.width)] for row in range(rows)]
        self.given = list(range(1, rows + 1)), [PLACE] * rows, pages

    def eager(self) -> list[int]:
        return self.decoder.decode(*self.given, graphs=False)


class Pieces:
    """A decoding step in graphs, but for the attention. One graph more than layers: each ends where one begins."""

    @torch.inference_mode()
    def __init__(self, requests: Requests) -> None:
        self.requests, self.decoder = requests, requests.decoder
        self.inputs = [each.to(self.decoder.device) for each in self.decoder.inputs(*requests.given)]
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.queries: list[torch.Tensor] = []
        requests.eager()  # so that nothing is made for the first time while capturing
        self.mixed = torch.empty(
            len(self.inputs[0]), self.decoder.heads * self.decoder.head, dtype=torch.bfloat16, device="cuda"
        )
        pool = torch.cuda.graph_pool_handle()
        for number in range(self.decoder.options.layers + 1):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self._piece(number)
            self.graphs.append(graph)

    def _piece(self, number: int) -> None:
        ids, places, tables = self.inputs
        if number == 0:
            self.slots, self.mine, self.mask = self.decoder.reach(places, tables)
            self.x = functional.embedding(ids, self.decoder.weights["embed"])
        else:
            self.x = self.decoder.rest(number - 1, self.x, self.mixed)
        if number == self.decoder.options.layers:
            self.found = self.decoder.next(self.x)
        else:
            self.queries.append(self.decoder.heads_of(number, self.x, places, self.mine)[0])

    @torch.inference_mode()
    def step(self) -> list[int]:
        for to, each in zip(self.inputs, self.decoder.inputs(*self.requests.given), strict=True):
            to.copy_(each)
        for layer, (graph, query) in enumerate(zip(self.graphs, self.queries, strict=False)):
            graph.replay()
            self.mixed.copy_(self.decoder.attend(layer, query, self.slots, self.mask))
        self.graphs[-1].replay()
        found: list[int] = self.found.tolist()
        return found[: len(self.requests.given[0])]


def step_of(decoder: Decoder, kind: str) -> Callable[[], list[int]]:
    """What decodes one token in this form for so many requests."""
    form, rows = kind.removeprefix("decode_").split("_")
    requests = Requests(decoder, int(rows))
    if form == "eager":
        return requests.eager
    pieces = Pieces(requests)
    if pieces.step() != requests.eager():
        raise SystemExit("in pieces the tokens are others")
    return pieces.step


def main() -> None:
    chosen = options(__doc__, "decode").parse_args([*MODEL.options(), "--longest", "256", "--slots", "64"])
    decoder = Decoder(chosen)
    decoder.fill()
    known: dict[str, Callable[[], list[int]]] = {}
    gc.disable()
    for line in sys.stdin:
        kind, steps = line.split()
        if kind not in known:
            known[kind] = step_of(decoder, kind)
        step = known[kind]
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(int(steps)):
            step()
        torch.cuda.synchronize()
        print(f"{(time.perf_counter_ns() - start) / int(steps):.1f}", flush=True)


if __name__ == "__main__":
    main()
