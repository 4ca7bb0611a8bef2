"""Managed memory: refused with what to do, or host-backed and back after a cycle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.flow.walking import STEPS, Reference, finish, paced, program, walk_on
from torpor import api

pytestmark = pytest.mark.criu



@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return Reference("managed.py")


@pytest.mark.parametrize("arena", [True, False], ids=["arena", "no-arena"])
def test_host_backed_killed_and_restored(home: Path, undisturbed: Reference, arena: bool) -> None:
    del home
    job = api.run(paced("managed.py"), name="managed", gpu="sim", managed="host", arena=arena)
    walk_on(job, 5)
    for tier in ("disk", "dram"):
        job = api.restore(job.checkpoint(tier=tier))
        walk_on(job, 5)
    job.suspend()
    job.resume()
    assert finish(job) == undisturbed


def test_the_drivers_is_refused_by_the_name_of_the_flag(torpor: Cli, undisturbed: Reference) -> None:
    torpor("run", "-d", "--name", "plain", "--gpu", "sim", "--", *paced("managed.py"))
    job = api.job("plain")
    walk_on(job, 5)
    refused = torpor("checkpoint", "plain", check=None)
    assert refused.returncode != 0
    assert b"--managed host" in refused.stderr
    assert finish(job) == undisturbed


def test_the_flag_of_the_command_line(torpor: Cli, undisturbed: Reference) -> None:
    done = torpor("run", "--managed", "host", "--gpu", "sim", "--", *program("managed.py", "--steps", str(STEPS)))
    assert sorted(done.stdout.decode().splitlines()) == undisturbed
