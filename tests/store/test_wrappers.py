"""Each wrapper passes the contract that every backend has to pass, and so do all of them together."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PATIENCE
from tests.store.contract import BackendContract
from tests.store.images import make_image, noise
from tests.store.memory import FlakyBackend, MemoryBackend
from torpor.store import chunks
from torpor.store.backend import Backend
from torpor.store.encrypt import EncryptBackend
from torpor.store.limit import LimitBackend
from torpor.store.put import put
from torpor.store.repository import create
from torpor.store.retry import Patience, RetryBackend

FAST = 10**12
EAGER = Patience(tries=40, first=0.0)


class TestMemory(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestRetry(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return RetryBackend(FlakyBackend(), EAGER)


class TestLimit(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return LimitBackend(MemoryBackend(), FAST)


class TestEncrypt(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return EncryptBackend(MemoryBackend(), os.urandom(32))


class TestAll(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return EncryptBackend(LimitBackend(RetryBackend(FlakyBackend(), EAGER), FAST), os.urandom(32))


def test_a_place_that_serves_many_reads_at_once_is_asked_for_many(tmp_path: Path) -> None:
    together = threading.Barrier(12)

    class Parallel(MemoryBackend):
        readers = 12

        def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
            if name.startswith("packs/"):
                together.wait(PATIENCE)  # each waits for eleven others, which have to be under way
            return super().read(name, offset, length)

    repository = create(EncryptBackend(Parallel(), bytes(32)), chunk=64 << 10)
    put(repository, make_image(tmp_path / "image", blocks={1 << 40: noise(1, 12 * (64 << 10))}), pack_size=1)
    packs = {one.name for one in repository.backend.list("packs")}
    rows = np.arange(12)
    place = repository.load_index()
    assert len(packs) >= 12
    chunks.read_all(repository.backend, place, rows, lambda _row, _data: None, threads=1)


@pytest.mark.parametrize(
    "wrap",
    [
        RetryBackend,
        lambda inner: LimitBackend(inner, FAST),
        lambda inner: EncryptBackend(inner, bytes(32)),
    ],
)
def test_what_a_wrapper_has_no_say_in_goes_through(wrap) -> None:  # type: ignore[no-untyped-def]
    inner = MemoryBackend()
    inner.readers = 7
    backend = wrap(inner)
    assert (backend.url, backend.readers, backend.sweep()) == ("memory", 7, 17)
    backend.close()
    assert inner.closed
