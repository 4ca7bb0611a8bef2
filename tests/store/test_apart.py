"""A backend in a process of its own: the contract, whose variables count, and what becomes of it when one dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import eventually
from tests.store.contract import NAME, BackendContract
from tests.store.s3_server import KEYS, S3Server
from torpor.errors import NoRights, NotFound, StepFailed, UsageError
from torpor.records import process_start
from torpor.store import location
from torpor.store.apart import Answer, ApartBackend
from torpor.store.backend import CONFIG, KINDS, Backend, Passing
from torpor.store.local import LocalBackend


@pytest.fixture(scope="class")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApartBackend]:
    """One for all tests of a class: it takes a moment to start."""
    folder = tmp_path_factory.mktemp("apart") / "store"
    LocalBackend(folder).prepare()
    made = ApartBackend(str(folder), os.environ)
    yield made
    made.close()


class TestApart(BackendContract):
    @pytest.fixture
    def backend(self, process: ApartBackend) -> Backend:
        process.delete([CONFIG, *(one.name for kind in KINDS for one in process.list(kind))])
        return process


def pid_of(backend: ApartBackend) -> int:
    return backend._process.pid


def test_what_is_there_is_opened_with_the_variables_that_are_given(
    s3: S3Server, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.create_store(s3_url).backend.close()
    theirs = dict(os.environ)
    for name in (*KEYS, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    repository = location.open_store_as(s3_url, theirs)
    assert repository.backend.readers == 16
    assert (repository.url, repository.images()) == (s3_url, [])
    repository.backend.close()
    with pytest.raises(NoRights, match="InvalidAccessKeyId"):
        location.open_store_as(s3_url, {**theirs, "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "else"})
    with pytest.raises(UsageError, match="not a rate"):
        location.open_store_as(s3_url, {**theirs, "TORPOR_LIMIT": "often"})
    with pytest.raises(NotFound, match="no store"):
        location.open_store_as(f"{s3_url}/not-there", theirs)
    del s3


def test_its_death_is_an_error_and_not_a_wait(process: ApartBackend) -> None:
    backend = ApartBackend(process.url, os.environ)
    backend.write(NAME, [b"1"])
    os.kill(pid_of(backend), signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(StepFailed, match="has ended"):
            backend.read(NAME)
    backend.close()


def test_it_ends_with_whoever_uses_it(process: ApartBackend) -> None:
    reader, writer = os.pipe()
    user = os.fork()
    if user == 0:
        os.write(writer, b"%d " % pid_of(ApartBackend(process.url, os.environ)))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(user, 0)
    pid = int(os.read(reader, 20))
    eventually(lambda: process_start(pid) is None)
    os.close(reader)
    os.close(writer)


def test_errors_stay_what_they_are() -> None:
    busy = Passing(step="store", reason="busy", hint="later")
    with pytest.raises(Passing, match="busy") as caught:
        Answer.of_error(busy).result()
    assert (caught.value.hint, caught.value.reason) == ("later", "busy")
