"""Waiting in a process that has more descriptors open than `select` can tell."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import PATIENCE
from torpor import api
from torpor.keeper import messages
from torpor.keeper.client import _converse
from torpor.keeper.server import Teller
from torpor.keeper.taken import has_ended


@pytest.fixture
def crowded() -> Iterator[None]:
    """Whatever is opened from here on has a number of 1024 or more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < 1023:
        opened.append(os.dup(opened[0]))
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("crowded")
def test_a_process_that_has_ended() -> None:
    with subprocess.Popen(["true"]) as ended:
        assert has_ended(ended.pid)


@pytest.mark.usefixtures("home", "crowded")
def test_a_job_is_waited_for() -> None:
    job = api.run(["sleep", "0.1"], gpu="sim")
    assert job.wait(PATIENCE)
    assert job.exit_code == 0


@pytest.mark.usefixtures("crowded")
def test_an_answer_arrives_and_so_does_the_wish_to_cancel() -> None:
    ours, theirs = socket.socketpair()
    cancelled = threading.Event()
    with ours, theirs:
        messages.send(theirs, messages.Done(result={"said": 1}))
        assert _converse(ours, messages.Request(verb="figures"), None) == {"said": 1}
        messages.receive(theirs)
        Teller(theirs).on_cancel(cancelled.set)
        messages.send(ours, messages.Cancel())
        assert cancelled.wait(PATIENCE)
