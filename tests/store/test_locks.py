"""Who may work on a store beside whom, and what becomes of the locks of the dead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from tests.conftest import eventually
from tests.store.memory import MemoryBackend
from torpor.errors import ImageDamaged, NoSpace, StepFailed, WrongState
from torpor.store import locks, sealed
from torpor.store.backend import NoObject, Stored
from torpor.store.locks import Lock
from torpor.store.repository import Repository, create


def foreign(**changes: object) -> Lock:
    facts = {**locks.identity(), "host": "elsewhere", "pid": 4711, **changes}
    return Lock(mode="exclusive", verb="prune", user="ada", since="2025-11-29T12:00:00Z", **facts)  # type: ignore[arg-type]


def plant(repository: Repository, lock: Lock) -> str:
    repository.backend.write("locks/planted", sealed.pack_json(msgspec.to_builtins(lock)))
    return "locks/planted"


def names(repository: Repository) -> list[str]:
    return [one.name for one in repository.backend.list("locks")]


def test_sharing_is_for_any_number(repository: Repository) -> None:
    with repository.lock("shared", "copy"), repository.lock("shared", "verify"):
        assert len(names(repository)) == 2
    assert names(repository) == []


@pytest.mark.parametrize(("first", "second"), [("shared", "exclusive"), ("exclusive", "shared"), ("exclusive",) * 2])
def test_one_that_excludes_is_named(repository: Repository, first: locks.Mode, second: locks.Mode) -> None:
    with repository.lock(first, "copy"):
        with pytest.raises(WrongState) as caught:
            with repository.lock(second, "prune", wait=0):
                pass
    for part in ("`copy`", str(os.getpid()), locks.identity()["host"], "since 20"):
        assert part in caught.value.message
    assert names(repository) == []


def test_one_that_waits_gets_its_turn(repository: Repository) -> None:
    entered = threading.Event()

    def wait() -> None:
        with repository.lock("exclusive", "prune"):
            entered.set()

    with repository.lock("shared", "copy"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: len(names(repository)) == 2)
        assert not entered.is_set()
    waiting.join(100)
    assert entered.is_set()
    assert names(repository) == []


def test_at_most_one_excludes_all(repository: Repository) -> None:
    inside = []
    most = []

    def work() -> None:
        for _ in range(3):
            with repository.lock("exclusive", "prune"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert most == [1] * 12


def test_a_lock_of_a_dead_process_is_taken_over(repository: Repository) -> None:
    code = f"""
import os, signal
from pathlib import Path
from torpor.store.local import LocalBackend
from torpor.store.repository import open_repository
with open_repository(LocalBackend(Path({repository.url!r}))).lock("exclusive", "prune"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=100)
    assert len(names(repository)) == 1
    with repository.lock("shared", "copy", wait=0):
        assert len(names(repository)) == 1
    assert names(repository) == []


@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({}, False),
        ({"pid": os.getpid()}, False),
        ({"host": None}, True),
        ({"host": None, "boot": "another"}, True),
        ({"host": None, "namespace": 1}, False),
        ({"host": None, "pid": None}, False),
        ({"host": None, "pid": None, "start": 12345}, True),
        ({"host": None, "machine": "another", "boot": "another"}, False),
    ],
)
def test_only_who_is_known_to_be_dead_is_taken_for_dead(changes: dict[str, object], dead: bool) -> None:
    here = locks.identity()
    lock = foreign(**{key: here[key] if value is None else value for key, value in changes.items()})
    if lock.pid == 4711 and lock.host == here["host"]:
        # A process that has certainly ended.
        child = subprocess.Popen(["true"])
        child.wait()
        lock.pid = child.pid
    assert locks.is_dead(lock) is dead


def test_a_lock_from_elsewhere_is_named_and_left_until_it_is_broken(repository: Repository) -> None:
    name = plant(repository, foreign())
    with pytest.raises(WrongState, match="ada on elsewhere") as caught:
        with repository.lock("shared", "copy", wait=0):
            pass
    assert "--break-lock planted" in str(caught.value.hint)
    assert names(repository) == [name]
    locks.break_lock(repository.backend, "planted")
    with repository.lock("shared", "copy", wait=0):
        pass
    with pytest.raises(NoObject):
        locks.break_lock(repository.backend, "planted")


def test_who_lost_a_lock_finds_out(repository: Repository) -> None:
    with repository.lock("shared", "copy") as held:
        held.check()
        locks.break_lock(repository.backend, names(repository)[0])
        with pytest.raises(StepFailed, match="removed by somebody else"):
            held.check()


def test_a_damaged_lock_is_named(repository: Repository) -> None:
    repository.backend.write("locks/broken", [b"{}"])
    with pytest.raises(ImageDamaged, match="locks/broken"):
        with repository.lock("shared", "copy", wait=0):
            pass
    assert names(repository) == ["locks/broken"]


def test_a_place_whose_listings_lag_is_refused() -> None:
    """Two that come at once could both see nobody."""

    class Lagging(MemoryBackend):
        def list(self, kind: str) -> Iterator[Stored]:
            return (one for one in super().list(kind) if kind != "locks")

    repository = create(Lagging())
    with pytest.raises(StepFailed, match="does not show what was written a moment ago"):
        with repository.lock("shared", "copy"):
            pass


def test_what_went_wrong_is_told_and_not_that_the_lock_stays() -> None:
    class Lost(MemoryBackend):
        def delete(self, names: Sequence[str]) -> None:
            raise StepFailed(step="store", reason=f"{names}: no answer")

    repository = create(Lost())
    with pytest.raises(NoSpace, match="no space for packs"):
        with repository.lock("shared", "copy"):
            raise NoSpace("no space for packs")
    # Where all else went well, it is told.
    with pytest.raises(StepFailed, match="locks/"):
        with repository.lock("shared", "copy"):
            pass
