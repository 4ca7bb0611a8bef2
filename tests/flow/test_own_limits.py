"""A job's limits, processors and priority are those of who started it, whichever shell has started the keeper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually

pytestmark = pytest.mark.criu

TELLS = """
import os, resource, time
while True:
    kinds = [resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("FSIZE", "CPU", "NOFILE")]
    print(sorted(os.sched_getaffinity(0)), os.nice(0), *kinds, flush=True)
    time.sleep(0.002)
"""


def by_shell(limits: str, *words: str) -> None:
    """Run torpor from a shell that is bound so. Files of much less than a MiB would spoil what Python compiles."""
    command = [sys.executable, "-m", "torpor", *words]
    subprocess.run(["sh", "-c", f'{limits}; exec "$@"', "sh", *command], check=True, timeout=60)


def test_a_job_keeps_its_own_limits_with_a_keeper_of_another_shell(torpor: Cli, home: Path) -> None:
    cpus = os.sched_getaffinity(0)
    first, last = (f"taskset -cp {cpu} $$ >&2" for cpu in (min(cpus), max(cpus)))
    by_shell(f"ulimit -S -f 2000; ulimit -S -n 300; renice -n 11 $$ >&2; {first}", "keeper", "start")
    by_shell(
        f"ulimit -S -f 2000; ulimit -S -t 500; ulimit -S -n 700; renice -n 5 $$ >&2; {last}",
        "run", "--gpu", "sim", "--detach", "--name", "own", "--", sys.executable, "-c", TELLS,
    )  # fmt: skip
    log = home / "jobs" / "own" / "log"
    eventually(lambda: len(log.read_text().splitlines()) > 2)
    torpor("checkpoint", "own", "--tier", "dram")
    torpor("keeper", "stop")
    by_shell(f"ulimit -S -f 2000; ulimit -S -t 50; renice -n 11 $$ >&2; {first}", "keeper", "start")
    before = len(log.read_text().splitlines())
    torpor("restore", "own-1", "--detach")
    eventually(lambda: len(log.read_text().splitlines()) > before + 4)
    lines = set(log.read_text().rpartition("\n")[0].splitlines())  # the last may be on its way
    assert len(lines) == 1, lines
    (told,) = lines
    assert told.startswith(f"[{max(cpus)}] 5 (1024000, ")  # less than Torpor's own library
    assert "(500, " in told
    assert "(700, " in told
