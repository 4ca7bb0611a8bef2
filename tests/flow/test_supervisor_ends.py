"""A CRIU that fails while the job that it restores ends: what became of every process decides, not the root alone."""

from __future__ import annotations

import pytest

from tests.flow.supervised import World, world
from torpor.errors import StepFailed
from torpor.process.namespace import RestoreSpec, Spec, start_supervisor

__all__ = ["world"]
pytestmark = pytest.mark.criu

PRETENDED = """#!/bin/sh
cd {folder}
(sh -c 'echo $$ > pid; {other}' &)
until [ -s pid ]; do sleep 0.01; done
(echo 299 > /proc/sys/kernel/ns_last_pid; sh -c 'exit {code}' &)
{end}
"""
"""As CRIU leaves them, both processes are the supervisor's children; the second is the job's root."""

FAIL = "exit 1"
KILL = "kill -9 $(cat pid); exit 1"


def restored(world: World, *, other: str, code: int, end: str) -> None:
    job = world()
    file = job.folder / "pretended"
    file.write_text(PRETENDED.format(folder=job.folder, other=other, code=code, end=end))
    file.chmod(0o700)
    job.supervisor = start_supervisor(Spec("restore", str(job.folder), restore=RestoreSpec([str(file)], 300)))
    assert job.end()["exit_code"] == 0


@pytest.mark.parametrize("other", ["exit 0", "exit 3", "kill -15 $$"])
def test_all_came_to_their_own_end(world: World, other: str) -> None:
    restored(world, other=other, code=0, end=FAIL)


@pytest.mark.parametrize(
    ("other", "code", "end"),
    [
        pytest.param("exec sleep 1000", 0, KILL, id="another was killed"),
        pytest.param("exec sleep 1000", 0, FAIL, id="another lives", marks=pytest.mark.full),
        pytest.param("exit 0", 3, FAIL, id="the root ended by an error"),
        pytest.param("exit 0", 0, "kill -9 $$", id="CRIU was killed"),
    ],
)
def test_what_is_lost_is_a_failure(world: World, other: str, code: int, end: str) -> None:
    with pytest.raises(StepFailed, match="criu restore ended with status"):
        restored(world, other=other, code=code, end=end)
