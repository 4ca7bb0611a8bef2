"""Runs themes in processes of their own, so that no case can take others with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.themes import of_theme

REPOSITORY = Path(__file__).resolve().parents[2]
Outcomes = dict[str, dict[str, Any]]


def run_theme(
    theme: str,
    env: Mapping[str, str] | None = None,
    limit: float = 45,
    keep: Callable[[Outcomes], None] | None = None,
    cases: Collection[str] = (),
) -> Outcomes:
    """Outcome of every case (or of those named), as encoded.

    A case that ends its process or takes more than `limit` seconds says so. `keep` gets what is known so far, each
    time a process has ended.
    """
    chosen = [case for case in of_theme(theme) if not cases or case.name in cases]
    waiting = [case.name for case in chosen if not case.alone]
    done: Outcomes = {}
    while waiting:
        done |= _run(theme, waiting, env, limit)
        if keep:
            keep(done)
        waiting = [name for name in waiting if name not in done]
    for case in chosen:
        if case.alone:
            done |= _run(theme, [case.name], env, limit)
    if keep:
        keep(done)
    return {case.name: done[case.name] for case in chosen}


def _run(theme: str, names: list[str], env: Mapping[str, str] | None, limit: float) -> Outcomes:
    """At least one of the cases; fewer than all when one of them ends the process."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.worker", theme, *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, **(env or {})},
    ) as process:
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
        timer.start()
        out, errors = process.communicate()
        timer.cancel()
    done: Outcomes = {}
    begun = names[0]
    for line in out.decode(errors="replace").splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue  # cut off in the middle
        if "begin" in told:
            begun = told["begin"]
        else:
            done[told.pop("case")] = told
    if begun not in done:
        how = f"took more than {limit:.0f} s" if late.is_set() else f"ended the process ({process.returncode})"
        done[begun] = {"failed": f"{how}: {errors.decode(errors='replace')[-500:]}"}
    return done
