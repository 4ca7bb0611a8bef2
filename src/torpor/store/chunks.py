"""Reading chunks: ranges of packs, several at a time, and every chunk checked against its name before it is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from torpor.errors import ImageDamaged, TorporError
from torpor.store import codec
from torpor.store.backend import Backend, NoObject
from torpor.store.index import Index, Place

READ = 8 << 20
"""Bytes of one read: chunks that lie beside each other, or nearly, are read together."""

GAP = 256 << 10
"""Bytes between two chunks that are rather read than asked for twice."""

Use = Callable[[int, bytes | memoryview], None]
"""Is given a row of the index and that chunk's bytes, in one of the reading threads."""

Wrong = Callable[[int, TorporError], None]
"""Is given a row of the index and what is wrong with that chunk."""


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

    def read(group: list[int]) -> None:
        _read_group(backend, index, group, use, encoded, wrong)

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
    backend: Backend, index: Index, rows: NDArray[np.int64], use: Use, workers: ThreadPoolExecutor | None = None
) -> None:
    """As `read_all`, in the calling thread or in those of `workers`, which use nothing more when this has returned."""
    if workers is None:
        for group in _groups(index, rows):
            _read_group(backend, index, group, use, False, None)
        return
    pending = [workers.submit(_read_group, backend, index, group, use, False, None) for group in _groups(index, rows)]
    try:
        for one in pending:
            one.result()
    finally:
        wait([one for one in pending if not one.cancel()])


def opened(backend: Backend, index: Index, row: int, data: bytes | memoryview) -> bytes | memoryview:
    """A chunk's bytes from its stored ones. Raises ImageDamaged when they are not what its name says."""
    place = index.place(row)
    digest = index.rows["id"][row].tobytes()
    try:
        if len(data) != place.stored:
            raise ValueError(f"its pack ends after {len(data)} of its {place.stored} bytes")
        plain = codec.decode(place.codec, data, place.length)
        if blake3(plain).digest() != digest:
            raise ValueError("its contents have changed")
    except ValueError as error:
        raise broken(backend, digest, place, str(error)) from error
    return plain


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


def _read_group(backend: Backend, index: Index, group: list[int], use: Use, encoded: bool, wrong: Wrong | None) -> None:
    first, last = index.place(group[0]), index.place(group[-1])
    try:
        data = memoryview(backend.read(f"packs/{first.pack}", first.offset, last.offset + last.stored - first.offset))
    except NoObject as missing:
        _lost(backend, index, group, wrong, "its pack is missing", missing)
        return
    except ImageDamaged as damage:
        # The place checks what it holds. It is asked again for each, to find out which chunks this concerns.
        if len(group) == 1:
            _lost(backend, index, group, wrong, "what is stored has changed", damage)
        else:
            for row in group:
                _read_group(backend, index, [row], use, encoded, wrong)
        return
    for row in group:
        place = index.place(row)
        at = place.offset - first.offset
        stored = data[at : at + place.stored]
        try:
            plain = opened(backend, index, row, stored)
        except ImageDamaged as error:
            if wrong is None:
                raise
            wrong(row, error)
            continue
        use(row, stored if encoded else plain)


def _lost(backend: Backend, index: Index, group: list[int], wrong: Wrong | None, why: str, cause: TorporError) -> None:
    error = broken(backend, index.rows["id"][group[0]].tobytes(), index.place(group[0]), why)
    if wrong is None:
        raise error from cause
    for row in group:
        wrong(row, error)


def _groups(index: Index, rows: NDArray[np.int64]) -> Iterator[list[int]]:
    """The rows in the order of packs and offsets, those together that one read brings."""
    table = index.rows[rows]
    order = np.lexsort((table["offset"], table["pack"]))
    group: list[int] = []
    pack = start = end = -1
    for row, its_pack, offset, stored in zip(
        rows[order].tolist(),
        table["pack"][order].tolist(),
        table["offset"][order].tolist(),
        table["stored"][order].tolist(),
        strict=True,
    ):
        if group and (its_pack != pack or offset - end > GAP or offset + stored - start > READ):
            yield group
            group = []
        if not group:
            pack, start = its_pack, offset
        group.append(row)
        end = offset + stored
    if group:
        yield group
