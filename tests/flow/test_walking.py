"""The programs of this folder keep what tests rely on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import end_family, eventually
from tests.flow import walking
from torpor import paths
from torpor.process import tree

HELD = """
import os, sys, time

while "worker1" in sys.orig_argv and not os.path.exists(os.environ["TORPOR_TEST_GO"]):
    time.sleep(0.01)
"""
"""A sitecustomize: the second worker starts when there is that file."""


@pytest.fixture
def walk(home: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A walk of three, without Torpor, the last of which is held; `out` and `go` are beside."""
    del home
    library = paths.software_gpu()
    assert library is not None
    (tmp_path / "sitecustomize.py").write_text(HELD)
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "PYTHONPATH": str(tmp_path),
        "TORPOR_TEST_GO": str(tmp_path / "go"),
    }
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(walking.command("--workers", "2"), env=env, stdout=out)
    yield process
    end_family(process)


def waits_at_a_pipe(pid: int) -> bool:
    """Whether the process's first thread is in a `read` of one."""
    try:
        call, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
        return call == "0" and str(Path(f"/proc/{pid}/fd/{int(arguments[0], 16)}").readlink()).startswith("pipe:")
    except OSError:  # closed meanwhile
        return False


def test_none_walks_before_all_can(walk: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Who sees a line may checkpoint: nobody begins to use the GPU later."""
    out = tmp_path / "out"
    pids = eventually(lambda: len(found := tree.family(walk.pid)) == 3 and found)
    held = eventually(lambda: [pid for pid in pids if b"worker1" in Path(f"/proc/{pid}/cmdline").read_bytes()])
    others = [pid for pid in pids if pid not in held]
    eventually(lambda: out.stat().st_size or all(map(waits_at_a_pipe, others)))
    assert out.read_bytes() == b""
    (tmp_path / "go").touch()
    walking.may_end().touch()
    assert walk.wait(100) == 0
    assert sorted(out.read_text().splitlines()) == walking.reference("--workers", "2")


def test_a_family_ends_with_its_first() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_family(process)
        assert process.stdout.read() == b""  # nobody has it open any more
