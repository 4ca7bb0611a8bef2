"""How many steps a program of this folder takes: as many as a test wants to see, however slow the test is.

Without `--until` a program takes `--steps`. With it, it goes on until there is that file, then to the next multiple of
`--steps`. It rests for `--delay` seconds after each, and no more once the file is there.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator


def parser(steps: int = 60) -> argparse.ArgumentParser:
    """The options that all have."""
    made = argparse.ArgumentParser()
    made.add_argument("--steps", type=int, default=steps)
    made.add_argument("--delay", type=float, default=0.0)
    made.add_argument("--until")
    return made


def steps(arguments: argparse.Namespace) -> Iterator[int]:
    """The numbers of the steps to take, from 0 on."""
    number = 0
    while True:
        yield number
        number += 1
        may_end = arguments.until is None or os.path.exists(arguments.until)
        if may_end and number % arguments.steps == 0:
            return
        if arguments.until is None or not may_end:
            time.sleep(arguments.delay)
