"""The keeper serves everybody: what the shell that started it is bound to does not bind it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from torpor.process import limits

PROGRAM = """
import os, resource, sys
from torpor.process import limits
chosen = [getattr(resource, f"RLIMIT_{name}") for name in ("AS", "CPU", "DATA", "FSIZE")]
for limit in chosen:
    resource.setrlimit(limit, (1 << 32, resource.getrlimit(limit)[1]))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.nice(7)
limits.shed()
print(all(len(set(resource.getrlimit(limit))) == 1 for limit in chosen), len(os.sched_getaffinity(0)))
print(os.getpriority(os.PRIO_PROCESS, 0))
try:
    os.setpriority(os.PRIO_PROCESS, 0, 0)
except OSError:
    pass
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


def test_a_shells_limits_are_shed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    lifted, cpus, nice, possible = done.stdout.split()
    assert (lifted, int(cpus)) == ("True", len(os.sched_getaffinity(0)))
    assert nice == possible


def test_what_may_not_be_lifted_is_lifted_as_far_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(limit: int, wanted: tuple[int, int]) -> None:
        asked.append((limit, wanted))
        if wanted[1] == resource.RLIM_INFINITY:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 5))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limits.lift(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY) == (1, 5)
    assert asked[-1] == (resource.RLIMIT_FSIZE, (5, 5))


def test_the_keeper_of_a_bound_shell_is_not_bound(home: Path) -> None:
    del home
    torpor = f"{sys.executable} -m torpor keeper"
    script = f"ulimit -S -f 1000; ulimit -S -t 100; nice -n 5 {torpor} start >&2 && {torpor} status --json"
    told = subprocess.run(["sh", "-c", script], check=True, timeout=120, stdout=subprocess.PIPE).stdout
    lines = Path(f"/proc/{json.loads(told)['pid']}/limits").read_text().splitlines()
    limits_of = [line.split()[3:5] for line in lines if line.startswith(("Max cpu time", "Max file size"))]
    assert len(limits_of) == 2
    assert all(soft == hard for soft, hard in limits_of)
