"""`python -m gen` rewrites everything generated; `python -m gen --check` shows the difference and fails on any."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from gen import abi, counted, interposer, kernels

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS: dict[str, Callable[[], str]] = {
    "native/abi/cuda_driver.h": abi.cuda_driver_h,
    "native/abi/symbols.inc": abi.symbols_inc,
    "native/interposer/generated/counted.cpp": counted.counted_cpp,
    "native/interposer/generated/directions.h": counted.directions_h,
    "native/interposer/generated/entries.S": interposer.entries_s,
    "native/interposer/generated/hooks.h": interposer.hooks_h,
    "native/interposer/generated/real.h": interposer.real_h,
    "native/interposer/generated/symbols.cpp": interposer.symbols_cpp,
    "native/interposer/generated/symbols.h": interposer.symbols_h,
    "native/interposer/generated/wrappers.cpp": interposer.wrappers_cpp,
    "src/torpor/profiling/calls.txt": counted.calls_txt,
    "src/torpor/driver/ptx/blake3_sm75.ptx": kernels.blake3_sm75,
    "src/torpor/driver/ptx/blake3_sm80.ptx": kernels.blake3_sm80,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    check = parser.parse_args().check
    stale = 0
    for name, produce in OUTPUTS.items():
        path, text = ROOT / name, produce()
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        stale += 1
        if check:
            lines = difflib.unified_diff(
                old.splitlines(), text.splitlines(), name, f"{name} (regenerated)", lineterm=""
            )
            print("\n".join(list(lines)[:60]))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    if check and stale:
        print(f"{stale} generated file(s) are stale: run `python -m gen`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
