"""Ctrl-C while a bucket does not answer: the command ends, what is under way is undone or goes on without it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cli, eventually
from tests.store.bad_network import BadNetwork, Fault
from tests.store.test_cycle import counts, passes
from tests.store.test_straight import goes_on, network, nothing_waits, puts, store
from torpor import api
from torpor.records import JobState
from torpor.store_handle import Store

__all__ = ["network", "store"]

pytestmark = pytest.mark.criu


class Hang:
    """From the first request on that is chosen, none is answered until `end`."""

    def __init__(self, network: BadNetwork) -> None:
        self.chosen: Callable[[bytes], bool] = lambda _line: False
        self.reached, self.over = threading.Event(), threading.Event()
        network.choose = self._choose

    def _choose(self, line: bytes) -> Fault:
        if self.reached.is_set() or self.chosen(line):
            self.reached.set()
            self.over.wait()
        return "none"

    def interrupt(self, torpor: Cli, *verb: str) -> int:
        """The exit code of a command that is interrupted when it gets no answer, and ends without one."""
        with torpor.start(*verb) as asking:
            assert self.reached.wait(PATIENCE)
            asking.send_signal(signal.SIGINT)
            _out, err = asking.communicate(timeout=PATIENCE)  # a server that says nothing is waited for longer
        assert b"Traceback" not in err
        return asking.returncode


@pytest.fixture
def hang(network: BadNetwork) -> Iterator[Hang]:
    made = Hang(network)
    yield made
    made.over.set()


@pytest.mark.parametrize("kind", ["locks", pytest.param("packs", marks=pytest.mark.full)])
def test_a_checkpoint_is_undone(torpor: Cli, store: Store, hang: Hang, kind: str) -> None:
    hang.chosen = lambda line: puts(line, kind)
    assert hang.interrupt(torpor, "checkpoint", "count", "--store", "@") == 14
    goes_on(torpor)
    hang.over.set()
    nothing_waits(store)
    assert store.images() == []
    # The keeper is done with it.
    eventually(lambda: torpor("checkpoint", "count", "--store", "@", check=None).returncode == 0)


def test_where_it_is_too_late_the_keeper_goes_on(torpor: Cli, store: Store, hang: Hang) -> None:
    hang.chosen = lambda line: puts(line, "images")
    assert hang.interrupt(torpor, "checkpoint", "count", "--store", "@") == 130
    hang.over.set()
    eventually(lambda: api.job("count").state is JobState.ASLEEP)
    assert store.verify().problems == []
    last = counts(torpor, "count")[-1]
    torpor("restore", "count-1@")
    passes(torpor, "count", last + 3)


def test_a_restore_leaves_nothing(torpor: Cli, store: Store, hang: Hang) -> None:
    del store
    torpor("checkpoint", "count", "--store", "@")
    hang.chosen = lambda line: line.startswith(b"GET") and b"/packs/" in line
    assert hang.interrupt(torpor, "restore", "count-1@") == 14
    hang.over.set()
    assert api.job("count").state is JobState.ASLEEP
    last = counts(torpor, "count")[-1]
    torpor("restore", "count-1@")
    passes(torpor, "count", last + 3)


def test_a_copy_leaves_what_a_killed_one_does(torpor: Cli, store: Store, hang: Hang, tmp_path: Path) -> None:
    torpor("checkpoint", "count", "--to", str(tmp_path / "image"))
    hang.chosen = lambda line: puts(line, "packs")
    assert hang.interrupt(torpor, "copy", str(tmp_path / "image"), "@") == 130
    hang.over.set()
    nothing_waits(store)
    assert store.images() == []
    torpor("copy", str(tmp_path / "image"), "@")
    assert store.verify().problems == []
