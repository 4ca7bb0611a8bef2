"""A job whose driver has probes in its code is refused by name, and saved when they are gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.flow.walking import command, finish, reference, walk_on
from torpor import paths
from torpor.errors import Refused
from torpor.process import driver_text, tree
from torpor.records import JobState

BREAKPOINT = b"\xcc"


class Code:
    """A byte of an exported function of a library in a process, which nobody calls while it is changed."""

    def __init__(self, pid: int, name: str, symbol: str) -> None:
        maps = Path(f"/proc/{pid}/maps").read_text()
        found = re.search(rf"([0-9a-f]+)-[0-9a-f]+ r-xp ([0-9a-f]+) \S+ \d+ +(\S*{re.escape(name)})\n", maps)
        assert found is not None, maps
        self.path = found[3]
        listed = subprocess.run(
            ["readelf", "-W", "--dyn-syms", "-l", f"/proc/{pid}/root{self.path}"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        function = re.search(rf"\d+: ([0-9a-f]+) .* {symbol}(@.*)?\n", listed)
        segment = re.search(r"LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) .* R E 0x", listed)
        assert function is not None
        assert segment is not None
        self.offset = int(function[1], 16) - int(segment[2], 16) + int(segment[1], 16)
        self._memory = Path(f"/proc/{pid}/mem")
        self._address = int(found[1], 16) + self.offset - int(found[2], 16)
        self._before = self.swap(None)

    def swap(self, new: bytes | None) -> bytes:
        """What stands there; then `new`, if any."""
        with self._memory.open("r+b", buffering=0) as memory:
            before = os.pread(memory.fileno(), 1, self._address)
            if new is not None:
                os.pwrite(memory.fileno(), new, self._address)
        return before

    def restore(self) -> None:
        self.swap(self._before)


@pytest.mark.criu
@pytest.mark.parametrize(
    "library",
    [
        pytest.param("sim/libcuda.so.1", id="driver"),
        pytest.param("native/libcuda.so.1", id="interposer", marks=pytest.mark.full),
    ],
)
def test_probes_are_named(home: Path, library: str) -> None:
    del home
    undisturbed = reference()
    job = torpor.run(command(), name="walk", gpu="sim")
    walk_on(job, 3)
    assert job.record.supervisor_pid is not None
    pid = tree.host_pid(job.record.supervisor_pid, 300)
    assert pid is not None
    assert list(driver_text.changes(pid)) == []
    code = Code(pid, library, "cuProfilerStart")
    code.swap(BREAKPOINT)
    try:
        named = f"has the code of {code.path} changed in memory, at {code.offset:#x}"
        with pytest.raises(Refused, match=named) as caught:
            job.checkpoint()
    finally:
        code.restore()
    assert caught.value.details["resource"] == "probes"
    assert "debugger" in (caught.value.hint or "")
    assert job.state is JobState.RUNNING
    walk_on(job, 3)
    # The page stays the process's own; what counts is what stands in it.
    assert finish(torpor.restore(job.checkpoint(tier="dram"))) == undisturbed


def test_looking_costs_little() -> None:
    code = "from cuda.bindings import driver; driver.cuInit(0); print('up', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], **_PIPES, env=_on_sim())
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    began = time.process_time()
    for _ in range(10):
        assert list(driver_text.changes(process.pid)) == []
    assert (time.process_time() - began) / 10 < 0.05
    process.communicate(b"\n", timeout=100)
    assert list(driver_text.changes(process.pid)) == []


_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def _on_sim() -> dict[str, str]:
    library = paths.software_gpu()
    assert library is not None
    return {**os.environ, **rounds.ENVIRONMENT, "LD_LIBRARY_PATH": str(library.parent)}
