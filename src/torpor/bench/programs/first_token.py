"""A model server's start: weights from a file onto the GPU, then token after token, one line each.

    python first_token.py --make F     writes weights of the seed into the file F
    python first_token.py --weights F  reads them, and prints "token N ID AT" for as long as it lives; AT is the
                                       wall clock in nanoseconds

What it says of token N depends on the weights and on all tokens before, so that a process which was woken from an
image can be held against one that was not. When the cache is full it begins again with the same prompt.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from engines import engine, options


def main() -> None:
    parser = options(__doc__ or "", "decode")
    parser.add_argument("--make", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=1_000_000_000, help="how many to print")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds to rest after each token")
    chosen = parser.parse_args()
    if (chosen.make is None) == (chosen.weights is None):
        parser.error("one of --make and --weights is needed")

    decoder = engine(chosen, "decode").Decoder(chosen)
    if chosen.make is not None:
        decoder.fill()
        decoder.write(chosen.make)
        return
    decoder.read(chosen.weights)
    source = random.Random(chosen.seed)
    prompt = [source.randrange(chosen.vocabulary) for _ in range(chosen.prompt)]
    table = list(range(1, decoder.width + 1))
    length = chosen.longest
    for number in range(1, chosen.tokens + 1):
        if length == chosen.longest:
            token, length = decoder.prefill(prompt, table), len(prompt)
        else:
            [token] = decoder.decode([token], [length], [table], False)
            length += 1
        print(f"token {number} {token} {time.time_ns()}", flush=True)
        time.sleep(chosen.delay)


if __name__ == "__main__":
    main()
