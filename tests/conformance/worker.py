"""Runs cases of one theme in this process, and writes a line of JSON for each as soon as it is done.

`python -m tests.conformance.worker THEME [CASE…]`
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from tests.conformance.case import encode
from tests.conformance.themes import of_theme


def main(theme: str, *wanted: str) -> None:
    with os.fdopen(os.dup(1), "w", buffering=1) as out, tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)  # what kernels print is for the cases to read
        for case in of_theme(theme):
            if wanted and case.name not in wanted:
                continue
            out.write(json.dumps({"begin": case.name}) + "\n")
            try:
                outcome = case.run()
            except Exception as error:  # noqa: BLE001 - whatever went wrong is the outcome
                told = {"failed": f"{type(error).__name__}: {error}"[:2000]}
            else:
                told = encode(outcome)
            out.write(json.dumps({"case": case.name, **told}) + "\n")
        out.flush()
        os._exit(0)  # a broken context must not have a say in how this ends


if __name__ == "__main__":
    main(*sys.argv[1:])
