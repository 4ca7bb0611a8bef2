"""Programs of the benchmark: Python scripts by path, and C sources compiled with this machine's compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

from torpor.errors import MissingPart, TorporError

_HERE = Path(__file__).parent


def path(name: str) -> Path:
    """A script of `programs/`."""
    found = _HERE / "programs" / name
    if not found.is_file():
        raise MissingPart(f"{found} is not there", hint="install the package again")
    return found


def compiled(name: str, scratch: Path) -> Path:
    """The program of `native/<name>.c`, compiled into `scratch` once. MissingPart without a compiler."""
    program = scratch / name
    if program.is_file():
        return program
    source = _HERE / "native" / f"{name}.c"
    command = ["cc", "-O2", "-std=gnu11", "-pthread", "-o", str(program), str(source), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingPart("there is no C compiler `cc`", hint="install gcc or clang") from None
    if done.returncode != 0:
        raise TorporError(f"{source.name} does not compile", hint=done.stderr.strip()[-1000:])
    return program
