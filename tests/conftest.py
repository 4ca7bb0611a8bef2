"""Shared by every test: a home of its own for Torpor, short enough for Unix sockets, and the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is in tests/gpu needs a GPU."""
    for item in items:
        if REPOSITORY / "tests" / "gpu" in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty TORPOR_HOME (and TORPOR_DRAM in memory), on the software GPU; jobs and keeper are ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    dram = Path(tempfile.mkdtemp(prefix="tp-", dir="/dev/shm"))
    monkeypatch.setenv("TORPOR_HOME", str(folder))
    monkeypatch.setenv("TORPOR_DRAM", str(dram))
    monkeypatch.setenv("TORPOR_GPU", "sim")
    yield folder
    end_everything(folder)
    shutil.rmtree(folder)
    shutil.rmtree(dram)


def end_everything(folder: Path) -> None:
    """End every job and keeper whose files are in this home."""
    from torpor import api
    from torpor.errors import TorporError
    from torpor.process.client import SupervisorClient
    from torpor.records import LIVE_STATES

    for job in api.jobs():
        if job.state in LIVE_STATES:
            try:
                with SupervisorClient(folder / "jobs" / job.name) as supervisor:
                    supervisor.shutdown()
            except TorporError:
                pass  # it ended by itself in between
            eventually(lambda job=job: job.state not in LIVE_STATES)
    api.keeper_stop("sim")
    # A keeper that was just started does not listen yet, and one that stops still has its memory to give back.
    eventually(lambda: not keepers(folder), doing=lambda: api.keeper_stop("sim"))


def keepers(folder: Path) -> list[int]:
    """Pids of the keepers of this home."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if b"torpor.keeper" not in (entry / "cmdline").read_bytes():
                continue
            environ = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"TORPOR_HOME={folder}".encode() in environ:
            found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], Any], *, seconds: float = 30.0, doing: Callable[[], Any] | None = None) -> Any:
    """Wait until `condition()` is true and return what it gave; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"this did not come true within {seconds} s")
        if doing is not None:
            doing()
        time.sleep(0.01)


class Cli:
    """Runs `torpor`; `check` is the exit code that the test expects, None for any."""

    command = (sys.executable, "-m", "torpor")

    def __call__(
        self,
        *args: str,
        check: int | None = 0,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*self.command, *args],
            input=given,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=60,
            check=False,
        )
        if check is not None:
            assert done.returncode == check, f"torpor {args} ended with {done.returncode}: {done.stderr.decode()}"
        return done

    def json(self, *args: str, check: int = 0) -> Any:
        """What the verb prints with `--json`."""
        return json.loads(self(*args, "--json", check=check).stdout)

    def start(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start `torpor` with pipes to all its streams, or with what `options` say."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([*self.command, *args], **{**streams, **options})


@pytest.fixture
def torpor(home: Path) -> Cli:
    """The command line, in a home of its own."""
    del home
    return Cli()
