"""An empty store in a folder, with the smallest chunks, so that small images have many; an S3 server."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.s3_server import BUCKET, LentClient, S3Server
from torpor.store.local import LocalBackend
from torpor.store.repository import Repository, create

CHUNK = 64 << 10


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    backend = LocalBackend(tmp_path / "store")
    backend.prepare()
    return create(backend, chunk=CHUNK)


@pytest.fixture(scope="session")
def running_server() -> Iterator[S3Server]:
    """One for all tests: it takes seconds to start. Each test has a prefix of its own."""
    server = S3Server(Path(tempfile.mkdtemp(prefix="tp-s3-", dir="/tmp")))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_client(running_server: S3Server) -> Iterator[LentClient]:
    """One for all tests that need no client of their own."""
    with running_server.lend_client() as made:
        yield made


_PREFIXES = itertools.count(1)


@pytest.fixture
def s3(running_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, and in the environment what a client needs for it."""
    running_server.set_environment(monkeypatch)
    return running_server


@pytest.fixture
def s3_url() -> str:
    """A place where nothing is yet."""
    return f"s3://{BUCKET}/test/{next(_PREFIXES)}"
