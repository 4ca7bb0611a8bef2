"""Names of images on their way: each is one image's, however many come at once, and no image is ever replaced."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import PATIENCE
from tests.store.images import make_image
from torpor.errors import UsageError
from torpor.store import locks, sealed
from torpor.store.naming import coming, named, next_name
from torpor.store.put import put
from torpor.store.repository import Repository

AT_ONCE = 6


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make_image(tmp_path / "job-1")


def test_names_that_follow_each_other() -> None:
    assert [next_name(name) for name in ("job-1", "job-9", "a-1-9", "job", "7")] == [
        "job-2",
        "job-10",
        "a-1-10",
        "job-2",
        "7-2",
    ]


def test_of_many_who_come_at_once_each_gets_a_name_of_its_own(repository: Repository, image: Path) -> None:
    put(repository, image, name="job-2")
    have_theirs = threading.Barrier(AT_ONCE)

    def take(_number: int) -> str:
        with named(repository, "test", "job-1", or_next=True, taken=["job-3"]) as found:
            have_theirs.wait(PATIENCE)  # all of them at the same time
            return found.name

    with ThreadPoolExecutor(AT_ONCE) as threads:
        names = set(threads.map(take, range(AT_ONCE)))
    assert len(names) == AT_ONCE
    assert not names & {"job-2", "job-3"}
    assert coming(repository) == set()


def test_who_was_in_the_way_of_each_other_is_not_again(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """In step, so that each always sees all others."""
    together = threading.Barrier(AT_ONCE, timeout=PATIENCE)
    backend = repository.backend
    write, delete = backend.write, backend.delete
    monkeypatch.setattr(backend, "write", lambda *what: (together.wait(), write(*what), together.wait()))
    monkeypatch.setattr(backend, "delete", lambda names: (together.wait(), delete(names)))

    def take(_number: int) -> tuple[str, int]:
        rounds = iter(range(2))

        def pause(_seconds: float) -> None:
            if next(rounds, None) is None:
                together.abort()
            together.wait()

        with named(repository, "test", "job-1", or_next=True, pause=pause) as found:
            return found.name, next(rounds)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        taken = set(threads.map(take, range(AT_ONCE)))
    assert taken == {(f"job-{number + 1}", 1) for number in range(AT_ONCE)}


def test_who_wants_one_name_and_no_other_is_refused_while_somebody_brings_it(
    repository: Repository, image: Path
) -> None:
    with named(repository, "test", "job-1") as found:
        assert (found.name, coming(repository)) == ("job-1", {"job-1"})
        with pytest.raises(UsageError, match="`test`, process"):
            put(repository, image)
        assert put(repository, image, or_next=True).image.head.name == "job-2"
    assert put(repository, image).image.head.name == "job-1"
    with pytest.raises(UsageError, match="has an image named job-1"):
        put(repository, image)
    assert put(repository, image, or_next=True).image.head.name == "job-3"
    assert [one.head.name for one in repository.images()] == ["job-2", "job-1", "job-3"]


def test_the_dead_have_no_names(repository: Repository, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with named(repository, "test", "job-1"):
        monkeypatch.setattr(locks, "is_dead", lambda _lock: True)
        assert put(repository, image).image.head.name == "job-1"


def test_locks_without_a_name_are_as_they_were(repository: Repository) -> None:
    with repository.lock("shared", "test"):
        (lock,) = repository.backend.list("locks")
        assert "name" not in sealed.unpack_json(repository.backend, lock.name)
