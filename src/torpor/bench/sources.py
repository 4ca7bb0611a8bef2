"""Programs of the benchmark: Python scripts by path, and C sources compiled with this machine's compiler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from torpor.bench import children
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
    build("cc", program, "-O2", "-std=gnu11", "-pthread", source, "-ldl")
    return program


def build(compiler: str, target: Path, *words: str | Path) -> None:
    """Compile sources, which are the paths among the words. MissingPart without a compiler, TorporError with what it
    says. The compiler's own files lie in the target's folder, as they stay where it is broken off."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    environment = {**os.environ, "TMPDIR": str(target.parent)}
    try:
        with children.started([compiler, "-o", target, *words], env=environment, **streams) as process:
            said, _ = process.communicate()
    except FileNotFoundError:
        raise MissingPart(f"there is no compiler `{compiler}`", hint="install gcc or clang") from None
    if process.returncode != 0:
        names = ", ".join(word.name for word in words if isinstance(word, Path))
        raise TorporError(f"{names} does not compile", hint=said.decode(errors="replace").strip()[-1000:])
