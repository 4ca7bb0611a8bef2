"""New chunks on their way into packs: each once, in bounded memory, and nobody waits for ever."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

from tests.conftest import eventually
from torpor.errors import Cancelled, NoSpace
from torpor.store import chunks, index, writer
from torpor.store.local import LocalBackend
from torpor.store.pack import Chunk, PackBuilder
from torpor.store.repository import Repository
from torpor.store.verify import verify_store
from torpor.store.writer import WRITERS, StoreWriter

SIZE = 4096
PACK = 8 * SIZE


class Gate:
    """A backend whose writes wait until they are let through, or fail."""

    def __init__(self, repository: Repository) -> None:
        self._backend = repository.backend
        self.open = threading.Event()
        self.waiting = 0
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        self.waiting += 1
        assert self.open.wait(100)
        if self.fails:
            raise NoSpace("no space")
        self._backend.write(name, parts)


def data(number: int) -> Chunk:
    plain = number.to_bytes(8, "little") * (SIZE // 8)
    return Chunk(blake3(plain).digest(), SIZE, 0, plain)


def test_memory_is_bounded_however_many_bring_chunks(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def count(memory: Any) -> PackBuilder:
        made.append(memory is None)
        return PackBuilder(memory)

    monkeypatch.setattr(writer, "PackBuilder", count)
    gate = Gate(repository)
    taking = StoreWriter(gate, index.build([]), pack_size=PACK)  # type: ignore[arg-type]
    added = []

    def bring(first: int) -> None:
        for number in range(first, 400, 8):
            taking.add(data(number))
            added.append(number)

    with ThreadPoolExecutor(8) as threads:
        bringing = [threads.submit(bring, first) for first in range(8)]
        eventually(lambda: gate.waiting == WRITERS)
        # Packs that are being written, one that is full, and the chunks that close it.
        eventually(lambda: len(added) >= WRITERS * 8)
        assert len(made) <= WRITERS + 1
        gate.open.set()
        for one in bringing:
            one.result()
    taking.finish()
    assert sum(made) <= WRITERS + 1
    assert len(made) > 40
    table = repository.load_index()
    assert len(table) == 400
    seen = set()

    def use(row: int, plain: bytes | memoryview) -> None:
        seen.add(bytes(plain[:8]))
        assert blake3(plain).digest() == table.rows["id"][row].tobytes()

    chunks.read_all(repository.backend, table, np.arange(400), use, 2)
    assert len(seen) == 400


@pytest.mark.parametrize("size", [PACK, 3 * PACK])
def test_chunks_that_make_packs_where_they_are_make_the_same_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    given = [data(number) for number in range(size // SIZE + 5)]
    names = []
    for gathers in (False, True):
        monkeypatch.setattr(LocalBackend, "gathers", gathers)
        backend = LocalBackend(tmp_path / f"store-{gathers}")
        backend.prepare()
        taking = StoreWriter(backend, index.build([]), pack_size=PACK - SIZE // 2)
        taking.add_all(given)
        taking.finish()
        assert taking.new_chunks == len(given)
        names.append({(one.name, one.size) for one in backend.list("packs")})
        assert set(taking.objects) >= {name for name, _size in names[-1]}
    assert names[0] == names[1]


def test_a_failure_where_chunks_are_reaches_all(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalBackend, "gathers", True)
    gate = Gate(repository)
    gate.fails = True
    gate.open.set()
    taking = StoreWriter(gate, index.build([]), pack_size=PACK)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(NoSpace):
            taking.add_all([data(number) for number in range(8)])
    with pytest.raises(NoSpace):
        taking.add(data(9))
    with pytest.raises(NoSpace):
        taking.finish()
    taking.abandon()
    assert gate.waiting == 1
    assert list(repository.backend.list("index")) == []


def bring_in(count: int, threads: ThreadPoolExecutor, taking: StoreWriter) -> list[Future[None]]:
    """4000 chunks, divided among so many threads."""

    def bring(first: int) -> None:
        for number in range(first, 4000, count):
            taking.add(data(number))

    return [threads.submit(bring, first) for first in range(count)]


def test_a_failure_reaches_all_who_bring_chunks(repository: Repository) -> None:
    gate = Gate(repository)
    gate.fails = True
    taking = StoreWriter(gate, index.build([]), pack_size=PACK)  # type: ignore[arg-type]
    with ThreadPoolExecutor(8) as threads:
        bringing = bring_in(8, threads, taking)
        eventually(lambda: gate.waiting == WRITERS)
        gate.open.set()
        for one in bringing:
            with pytest.raises(NoSpace):
                one.result(timeout=100)
    with pytest.raises(NoSpace):
        taking.finish()
    assert list(repository.backend.list("index")) == []


@pytest.mark.parametrize(("owner", "name", "when"), [(PackBuilder, "fill", 3), (StoreWriter, "_empty", 2)])
def test_no_memory_for_a_pack_reaches_all_who_bring_chunks(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: int
) -> None:
    calls = itertools.count(1)
    real = getattr(owner, name)

    def once_without(*arguments: Any) -> Any:
        if next(calls) == when:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(owner, name, once_without)
    taking = StoreWriter(repository.backend, index.build([]), pack_size=PACK)
    with ThreadPoolExecutor(4) as threads:
        for one in bring_in(4, threads, taking):
            with pytest.raises(MemoryError):
                one.result(timeout=100)
    with pytest.raises(MemoryError):
        taking.finish()
    taking.abandon()
    assert verify_store(repository).problems == []


def test_who_gives_up_waits_for_no_store(repository: Repository) -> None:
    gate = Gate(repository)
    taking = StoreWriter(gate, index.build([]), pack_size=PACK)  # type: ignore[arg-type]
    with ThreadPoolExecutor(4) as threads:
        bringing = bring_in(4, threads, taking)
        eventually(lambda: gate.waiting == WRITERS)
        taking.give_up(Cancelled("not wanted any more"))
        for one in bringing:
            with pytest.raises(Cancelled):
                one.result(timeout=100)
    with pytest.raises(Cancelled):
        taking.finish()
    taking.abandon()
    gate.open.set()


def test_what_was_written_before_a_failure_is_not_written_again(repository: Repository) -> None:
    taking = StoreWriter(repository.backend, index.build([]), pack_size=PACK)
    for number in range(20):  # two packs, and half of one
        taking.add(data(number))
    eventually(lambda: len(taking.objects) == 2)
    taking.abandon()
    again = StoreWriter(repository.backend, repository.load_index(only_present=True), pack_size=PACK)
    assert again.claim([data(number).digest for number in range(20)]).count(False) == 16
    again.finish()


def test_a_chunk_is_asked_for_once(repository: Repository) -> None:
    taking = StoreWriter(repository.backend, index.build([]))
    digests = [os.urandom(32) for _ in range(100)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(taking.claim, [digests] * 8))
    assert np.array(answers).sum(axis=0).tolist() == [1] * 100
    assert taking.claim([digests[0], digests[0]]) == [False, False]
    assert taking.claim([]) == []
    taking.finish()


def test_packs_say_where_their_chunks_are(repository: Repository) -> None:
    builder = PackBuilder()
    for number in range(5):
        builder.add(data(number))
    made = builder.finish()
    repository.backend.write(f"packs/{made.name}", made.parts)
    assert repository.backend.size(f"packs/{made.name}") == made.size
    for number, entry in enumerate(made.entries):
        stored = repository.backend.read(f"packs/{made.name}", int(entry["offset"]), int(entry["stored"]))
        assert stored == data(number).data
    again = PackBuilder(builder.memory)
    for number in range(5):
        again.add(data(number))
    assert again.finish().name == made.name
