"""Pages of zeros cost an image nothing, and come back as zeros: also where a parent process holds something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually

PROGRAM = """
import mmap, os, sys, time

PAGE, PAGES = mmap.PAGESIZE, 4096

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one piece, whoever else writes

def fill(memory, start, stop, byte):
    for page in range(start, stop):
        memory[page * PAGE:(page + 1) * PAGE] = bytes([byte]) * PAGE

def check(memory, who, expected):
    for page in range(PAGES):
        if memory[page * PAGE:(page + 1) * PAGE] != bytes([expected(page)]) * PAGE:
            say(who, "page", page, "is wrong")

private = mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared = mmap.mmap(-1, PAGES * PAGE)
fill(private, 0, PAGES, 7)
fill(shared, 0, PAGES, 0)
shared[5 * PAGE] = 1
shared[5 * PAGE] = 0
child = os.fork()
if child == 0:
    fill(private, 1000, 3000, 0)      # the parent's pages are not zero there
    expected, who = (lambda page: 0 if 1000 <= page < 3000 else 7), "child"
else:
    fill(private, 2000, 4000, 0)      # nor the child's everywhere here
    expected, who = (lambda page: 0 if 2000 <= page < 4000 else 7), "parent"
say(who, "ready")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
check(private, who, expected)
check(shared, who, lambda page: 0)
say(who, "checked")
if child:
    os.waitpid(child, 0)
    fill(private, 2000, 4000, 9)
    check(private, "parent again", lambda page: 9 if 2000 <= page < 4000 else 7)
"""


@pytest.mark.criu
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_zero_pages_are_left_out_and_come_back(tmp_path: Path, tier: str) -> None:
    go = tmp_path / "go"
    job = torpor.run([sys.executable, "-c", PROGRAM, str(go)])
    eventually(lambda: b"".join(job.logs()).count(b"ready") == 2)
    image = job.checkpoint(tier=tier)
    # 16 MiB in each of two processes; half of each is zeros (1000-3000 of the child, 2000-4000 of the parent).
    assert image.manifest.cpu_bytes < 2 * (16 << 20) + (24 << 20)
    woken = torpor.restore(image)
    go.touch()
    assert woken.wait(100)
    assert woken.exit_code == 0
    lines = b"".join(woken.logs()).decode().splitlines()
    assert sorted(lines) == ["child checked", "child ready", "parent checked", "parent ready"]
