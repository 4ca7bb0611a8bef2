"""Mappings of files whose names are no ordinary text, and processes that end."""

from __future__ import annotations

import mmap
import os
import subprocess
from pathlib import Path

import pytest

from torpor.process import maps, pinned, shm, zero_pages
from torpor.process.page_worker import PAGE


@pytest.mark.parametrize("name", [b"a\rb", b"a\x0cb", "a\u2028b".encode(), b"a\x85b", b"a\xffb", b" a b "])
def test_names_that_end_a_line_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "w+b") as file:  # noqa: PTH123
        file.write(bytes(PAGE))
        file.flush()
        mapping = mmap.mmap(file.fileno(), PAGE, flags=mmap.MAP_PRIVATE)
    lines = maps.lines(os.getpid())
    [line] = [one for one in lines if one.endswith(os.fsdecode(path))]
    assert all("-" in one.split(maxsplit=5)[0] for one in lines)
    place = int(line.split("-")[0], 16)
    assert zero_pages.mapped(os.getpid())
    assert not any(start <= place < stop for start, stop in zero_pages.mapped(os.getpid()))
    assert shm.lost_names([os.getpid()]) == {}
    monkeypatch.setattr(pinned, "_mount", lambda _pid: (1, "of no file"))
    assert pinned.find([os.getpid()]) == []
    mapping.close()


def test_a_process_that_ends_has_no_mounts() -> None:
    """The kernel then says EINVAL, where it says that one is gone of everything else."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as it is until somebody waits
        with pytest.raises(OSError, match="Invalid argument"):
            Path(f"/proc/{process.pid}/mountinfo").read_bytes()
        with pytest.raises(ProcessLookupError):
            maps.mounts(process.pid)
        assert pinned.find([process.pid]) == []
    with pytest.raises(FileNotFoundError):
        maps.mounts(process.pid)
    assert maps.mounts(os.getpid())
