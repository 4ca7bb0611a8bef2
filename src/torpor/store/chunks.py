"""Reading chunks: ranges of packs, several at a time, and every chunk checked against its name before it is used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from torpor.errors import ImageDamaged, TorporError
from torpor.store import codec
from torpor.store.backend import Backend, NoObject, copy
from torpor.store.index import Index, Place

READ = 8 << 20
"""Bytes of one read: chunks that lie beside each other, or nearly, are read together."""

GAP = 256 << 10
"""Bytes between two chunks that are rather read than asked for twice."""

Use = Callable[[int, bytes | memoryview], None]
"""Is given a row of the index and that chunk's bytes, in one of the reading threads; they are gone when it returns."""

Wrong = Callable[[int, TorporError], None]
"""Is given a row of the index and what is wrong with that chunk."""

Rooms = Mapping[int, memoryview]
"""Memory in which chunks are wanted as they are, by their rows of the index: so many bytes as each chunk has."""

_own = threading.local()
"""Memory to read into, kept by each thread: fresh memory costs more than the reading."""


class _Chunk(NamedTuple):
    """A chunk to be read: its row in the index, its name, and where it is."""

    row: int
    digest: bytes
    place: Place


def read_all(
    backend: Backend,
    index: Index,
    rows: NDArray[np.int64],
    use: Use,
    threads: int,
    *,
    encoded: bool = False,
    wrong: Wrong | None = None,
) -> None:
    """Give every chunk of these rows (each once) to `use`, checked, in any order.

    In so many threads, or in more where the place serves more reads at once. With `encoded` it gets the stored bytes,
    of a chunk that was checked. Raises ImageDamaged for the first that is not as it was, naming chunk, pack and offset,
    and no byte of it is used; `wrong` takes such errors instead.
    """

    def read(group: list[_Chunk]) -> None:
        _read_group(backend, group, use, {}, encoded, wrong)

    threads = max(threads, backend.readers)
    with ThreadPoolExecutor(threads, "store-get") as workers:
        pending: deque[Future[None]] = deque()
        try:
            for group in _groups(index, rows):
                pending.append(workers.submit(read, group))
                if len(pending) > 2 * threads:
                    pending.popleft().result()
            while pending:
                pending.popleft().result()
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise


def read_here(
    backend: Backend,
    index: Index,
    rows: NDArray[np.int64],
    use: Use,
    rooms: Rooms,
    workers: ThreadPoolExecutor | None = None,
) -> None:
    """As `read_all`, in the calling thread or in those of `workers`, which use nothing more when this has returned.

    Chunks that have a room are brought there, and `use` is given that; an unchecked one may be in it until this has
    returned, and after an error.
    """
    if workers is None:
        for group in _groups(index, rows):
            _read_group(backend, group, use, rooms)
        return
    pending = [workers.submit(_read_group, backend, group, use, rooms) for group in _groups(index, rows)]
    try:
        for one in pending:
            one.result()
    finally:
        wait([one for one in pending if not one.cancel()])


def broken(backend: Backend, digest: bytes, place: Place, why: str) -> ImageDamaged:
    """The error for a chunk that is not as it was written."""
    return ImageDamaged(
        f"chunk {digest.hex()[:16]}… of the store {backend.url}, at {place.offset} of packs/{place.pack}, "
        f"is damaged: {why}",
        hint="restore another image; `torpor verify` tells what else is damaged",
        details=facts(digest, place),
    )


def facts(digest: bytes, place: Place) -> dict[str, Any]:
    """Which chunk, and where, as errors tell it."""
    return {"chunk": digest.hex(), "pack": place.pack, "offset": place.offset, "stored": place.stored}


def _read_group(
    backend: Backend,
    group: list[_Chunk],
    use: Use,
    rooms: Rooms,
    encoded: bool = False,
    wrong: Wrong | None = None,
) -> None:
    start = group[0].place.offset
    last = group[-1].place
    memory = _memory(last.offset + last.stored - start)
    straight = {one.row for one in group if one.row in rooms and _as_it_is(one.place)}
    try:
        count = backend.read_into(f"packs/{last.pack}", start, _parts(group, memory, rooms, straight))
    except NoObject as missing:
        _lost(backend, group, wrong, "its pack is missing", missing)
        return
    except ImageDamaged as damage:
        # The place checks what it holds. It is asked again for each, to find out which chunks this concerns.
        if len(group) == 1:
            _lost(backend, group, wrong, "what is stored has changed", damage)
        else:
            for one in group:
                _read_group(backend, [one], use, rooms, encoded, wrong)
        return
    for one in group:
        at = one.place.offset - start
        room = rooms.get(one.row)
        stored = room if room is not None and one.row in straight else memory[at : at + one.place.stored]
        try:
            plain = _opened(backend, one, stored, count - at)
        except ImageDamaged as error:
            if wrong is None:
                raise
            wrong(one.row, error)
            continue
        if room is not None and one.row not in straight:
            copy(plain, room)
        use(one.row, stored if encoded else plain if room is None else room)


def _as_it_is(place: Place) -> bool:
    """Whether its stored bytes are the chunk; an index that is wrong about one must not move what lies behind it."""
    return place.codec == codec.RAW and place.stored == place.length


def _parts(group: list[_Chunk], memory: memoryview, rooms: Rooms, straight: set[int]) -> list[memoryview]:
    """Where a read of the whole group puts it: chunks that go straight to their rooms there, all else into `memory`."""
    parts = []
    at, start = 0, group[0].place.offset
    for one in group:
        if one.row in straight:
            begin = one.place.offset - start
            parts += [memory[at:begin], rooms[one.row]]
            at = begin + one.place.stored
    return [*parts, memory[at:]]


def _memory(size: int) -> memoryview:
    found = getattr(_own, "memory", None)
    if found is None or len(found) < size:
        found = _own.memory = np.empty(max(size, READ), np.uint8).data
    return found[:size]


def _opened(backend: Backend, one: _Chunk, data: memoryview, came: int) -> bytes | memoryview:
    """A chunk's bytes from its stored ones, of which `came` bytes did. ImageDamaged when its name is not theirs."""
    try:
        if came < one.place.stored:
            raise ValueError(f"its pack ends after {max(came, 0)} of its {one.place.stored} bytes")
        plain = codec.decode(one.place.codec, data, one.place.length)
        if blake3(plain).digest() != one.digest:
            raise ValueError("its contents have changed")
    except ValueError as error:
        raise broken(backend, one.digest, one.place, str(error)) from error
    return plain


def _lost(backend: Backend, group: list[_Chunk], wrong: Wrong | None, why: str, cause: TorporError) -> None:
    error = broken(backend, group[0].digest, group[0].place, why)
    if wrong is None:
        raise error from cause
    for one in group:
        wrong(one.row, error)


def _groups(index: Index, rows: NDArray[np.int64]) -> Iterator[list[_Chunk]]:
    """The rows in the order of packs and offsets, those together that one read brings."""
    rows = rows[np.lexsort((index.rows["offset"][rows], index.rows["pack"][rows]))]
    group: list[_Chunk] = []
    start = end = 0
    for row, digest, place in zip(rows.tolist(), index.names(rows), index.places(rows), strict=True):
        reach = place.offset + place.stored
        if group and (place.pack != group[0].place.pack or place.offset - end > GAP or reach - start > READ):
            yield group
            group = []
        if not group:
            start = place.offset
        group.append(_Chunk(row, digest, place))
        end = reach
    if group:
        yield group
