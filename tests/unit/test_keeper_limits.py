"""The keeper serves everybody: what the shell that started it is bound to does not bind it."""

from __future__ import annotations

import json
import os
import resource
import signal
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


AMBIENT = """
import ctypes, os, signal
from torpor.process import limits
system = ctypes.CDLL(None)
bound = ctypes.c_ulong(1)
system.syscall(238, 2, ctypes.byref(bound), 64)  # set_mempolicy: MPOL_BIND to node 0
system.syscall(251, 1, 0, 3 << 13)  # ioprio_set: idle
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
limits.shed()
policy = ctypes.c_int(-1)
known = system.syscall(239, ctypes.byref(policy), None, 0, None, 0) == 0  # get_mempolicy
print(policy.value if known else 0, system.syscall(252, 1, 0) >> 13)
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.waitstatus_to_exitcode(os.system("exit 3")))
"""


def test_nodes_io_priority_and_signals_are_shed() -> None:
    done = subprocess.run([sys.executable, "-c", AMBIENT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["0", "0", "set()", "3"]


def test_a_job_comes_back_though_who_asks_holds_signals_back(home: Path) -> None:
    """Its supervisor has to hear of SIGCHLD, and is started by whoever runs the job."""
    del home
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:  # the child has them blocked, too, so nothing but SIGKILL ends it
        done = subprocess.run(
            [sys.executable, "-m", "torpor", "run", "--gpu", "sim", "--", "true"], timeout=60, stdin=subprocess.DEVNULL
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    assert done.returncode == 0


def test_no_limit_keeps_the_keeper_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limits.lift(resource.RLIMIT_NOFILE, 1 << 30) == resource.getrlimit(resource.RLIMIT_NOFILE)


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
