"""Question: how fast are a fixed set of requests answered?  (`torpor bench` runs it, taking turns.)

Continuous batching over a paged cache: a request is taken up as soon as a slot and all of its pages are free, its
prompt is worked through at once, and then it takes part in every decoding step until it is done. Prompts, lengths and
with them the whole schedule follow from the seed.

For each line "eager <count>" or "graphs <count>" on standard input, answers the set so many times and prints the
nanoseconds of each. After "requests 1" it prints what the set is: requests, tokens of all prompts, tokens of all
answers; after "tokens 1" a hash of all tokens that the last run answered with, which every run must have in common.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from engines import engine, options


@dataclass
class Request:
    """`tokens` are the prompt's and then the new ones; `length`: how many there shall be in all."""

    prompt: tuple[int, ...]
    length: int
    tokens: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)


def requests(count: int, longest_prompt: int, longest_answer: int, vocabulary: int, seed: int) -> list[Request]:
    """The fixed set: lengths between a sixteenth of the longest and the longest."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        prompt = source.randint(max(1, longest_prompt // 16), longest_prompt)
        answer = source.randint(max(1, longest_answer // 16), longest_answer)
        found.append(Request(tuple(source.randrange(vocabulary) for _ in range(prompt)), prompt + answer))
    return found


def serve(decoder: Any, wanted: list[Request], slots: int, pages: int, graphs: bool) -> None:
    """Answer all requests, in place. `pages`: of the cache, numbered from 1."""
    free = list(range(pages, 0, -1))
    waiting, running = list(reversed(wanted)), list[Request]()
    for request in wanted:
        request.tokens, request.table = list(request.prompt), []

    def retire() -> None:
        for request in [one for one in running if len(one.tokens) == one.length]:
            running.remove(request)
            free.extend(reversed(request.table))

    while waiting or running:
        while waiting and len(running) < slots and len(free) >= (needed := -(-waiting[-1].length // decoder.page)):
            request = waiting.pop()
            request.table = [free.pop() for _ in range(needed)]
            request.tokens.append(decoder.prefill(request.tokens, request.table))
            running.append(request)
        retire()
        if running:
            last = [request.tokens[-1] for request in running]
            places = [len(request.tokens) - 1 for request in running]
            new = decoder.decode(last, places, [request.table for request in running], graphs)
            for request, token in zip(running, new, strict=True):
                request.tokens.append(token)
            retire()


def chosen_by(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What the command line asks for: a model, and requests that its longest sequences can hold."""
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--longest-prompt", type=int, default=512)
    parser.add_argument("--longest-answer", type=int, default=256)
    chosen = parser.parse_args()
    if chosen.longest_prompt + chosen.longest_answer > chosen.longest or chosen.longest % chosen.page:
        parser.error("--longest must be whole pages, and hold the longest prompt and the longest answer")
    return chosen


def asked_for(chosen: argparse.Namespace) -> list[Request]:
    return requests(chosen.requests, chosen.longest_prompt, chosen.longest_answer, chosen.vocabulary, chosen.seed)


def converse(
    wanted: list[Request], answer: Callable[[str], None], modes: Sequence[str], out: TextIO = sys.stdout
) -> None:
    """Read lines and print what they ask for. `answer` has all requests answered once, in one of the modes."""
    gc.disable()
    for line in sys.stdin:
        kind, count = line.split()
        if kind == "requests":
            prompts = sum(len(request.prompt) for request in wanted)
            print(len(wanted), prompts, sum(request.length for request in wanted) - prompts, file=out, flush=True)
        elif kind == "tokens":
            text = ";".join(",".join(map(str, request.tokens)) for request in wanted)
            print(hashlib.sha256(text.encode()).hexdigest(), file=out, flush=True)
        elif kind not in modes:
            sys.exit(f"{kind!r} is none of {', '.join(modes)}")
        else:
            start = time.perf_counter_ns()
            for _ in range(int(count)):
                answer(kind)
            print(f"{(time.perf_counter_ns() - start) / int(count):.1f}", file=out, flush=True)


def main() -> None:
    chosen = chosen_by(options(__doc__ or "", "decode"))
    decoder = engine(chosen, "decode").Decoder(chosen)
    decoder.fill()
    wanted = asked_for(chosen)
    pages = chosen.slots * decoder.width
    converse(wanted, lambda mode: serve(decoder, wanted, chosen.slots, pages, mode == "graphs"), ("eager", "graphs"))


if __name__ == "__main__":
    main()
