"""Whole cycles of real programs on a real GPU. Run by `scripts/test` where there is one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import torpor

EXAMPLES = Path(__file__).parents[2] / "examples"


def command(example: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / example), *arguments]


class Reference:
    """What a program prints when nothing happens to it: run once per command and kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}

    def __call__(self, argv: list[str]) -> str:
        key = tuple(argv)
        if key not in self._known:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
            assert done.returncode == 0, done.stderr
            self._known[key] = done.stdout
        return self._known[key]


def output(job: torpor.Job) -> str:
    return b"".join(job.logs()).decode()


def wait_for_line(job: torpor.Job, start: str, timeout: float = 120.0) -> None:
    """Wait until the job has printed a line that starts with `start`."""
    deadline = time.monotonic() + timeout
    while not any(line.startswith(start) for line in output(job).splitlines()):
        assert job.exit_code is None, f"{job.name} ended before {start!r}:\n{output(job)[-2000:]}"
        assert time.monotonic() < deadline, f"{job.name} never printed {start!r}:\n{output(job)[-2000:]}"
        time.sleep(0.02)


class ToldAtOnce:
    """Prints a failure when it happens: a run that is killed later would tell nothing of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\n{report.nodeid}, {report.when}, {report.duration:.1f} s: {report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ToldAtOnce(config))


@pytest.fixture(scope="session")
def reference() -> Reference:
    return Reference()


@pytest.fixture
def start() -> Iterator[Callable[..., torpor.Job]]:
    """Start a job; it and every image made of it are removed at the end."""
    jobs: list[torpor.Job] = []

    def begin(argv: list[str], **options: Any) -> torpor.Job:
        job = torpor.run(argv, **options)
        jobs.append(job)
        return job

    yield begin
    for image in torpor.images():
        image.remove()
    for job in torpor.jobs():
        if job.exit_code is None:
            job.kill()
            job.wait(timeout=30)
        job.remove()
