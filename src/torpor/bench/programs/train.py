"""Question: what does one iteration of training cost?  (`torpor bench` runs it, taking turns.)

For each line "step <count>" on standard input, trains that many steps and prints the nanoseconds of each. After any
other word it prints the number of the last step and its loss, exactly: two runs that did as many steps print the
same.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from engines import engine, options


def answer(trainer: Any) -> None:
    """Do what the lines ask for, until the input ends."""
    gc.disable()
    for line in sys.stdin:
        kind, count = line.split()
        if kind != "step":
            print(trainer.number, trainer.loss(), flush=True)
            continue
        trainer.wait()
        start = time.perf_counter_ns()
        for _ in range(int(count)):
            trainer.step()
        trainer.wait()
        print(f"{(time.perf_counter_ns() - start) / int(count):.1f}", flush=True)


def main() -> None:
    chosen = options(__doc__ or "", "train").parse_args()
    answer(engine(chosen, "train").Trainer(chosen))


if __name__ == "__main__":
    main()
