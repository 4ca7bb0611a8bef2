"""An image from one store into another: chunks that the other lacks, as they are stored, each checked on the way."""

from __future__ import annotations

import time

import msgspec
import numpy as np

from torpor.records import check_name
from torpor.store import chunks, contents, locks
from torpor.store.deposit import PutResult
from torpor.store.naming import named
from torpor.store.pack import PACK, Chunk
from torpor.store.pieces import rows_of
from torpor.store.repository import Repository, StoredImage
from torpor.store.scan import OnBytes, thread_count
from torpor.store.writer import StoreWriter


def transfer(
    source: Repository,
    image: StoredImage,
    target: Repository,
    *,
    name: str | None = None,
    pack_size: int = PACK,
    wait: float = locks.WAIT,
    on_bytes: OnBytes = lambda _count: None,
) -> PutResult:
    """Copy an image, durably; `name` is what it is called there. Errors as for `get` and `put`."""
    begin = time.monotonic()
    name = check_name(name or image.head.name)
    with (
        source.lock("shared", "copy", wait=wait, read_only=True),
        named(target, "copy", name, wait=wait) as (_, held),
    ):
        found = source.read(image)
        table = source.load_index()
        rows = np.unique(rows_of(source, found, table))
        rows = rows[rows >= 0]
        writer = StoreWriter(target.backend, target.load_index(only_present=True), pack_size=pack_size)
        wanted = writer.claim([digest.tobytes() for digest in table.rows["id"][rows]])

        def use(row: int, data: bytes | memoryview) -> None:
            place = table.place(row)
            writer.add(Chunk(table.rows["id"][row].tobytes(), place.length, place.codec, memoryview(data)))
            on_bytes(place.length)

        try:
            chunks.read_all(source.backend, table, rows[np.array(wanted, np.bool_)], use, thread_count(), encoded=True)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        head = msgspec.structs.replace(found.head, name=name, stored=time.time_ns())
        identity, parts = contents.encode(msgspec.structs.replace(found, head=head))
        held.check()
        target.backend.write(f"images/{identity}", parts)
    return PutResult(
        image=StoredImage(identity, head),
        bytes=head.bytes,
        new=writer.new_bytes,
        stored=writer.stored_bytes + sum(map(len, parts)),
        chunks=len(rows),
        new_chunks=writer.new_chunks,
        seconds=time.monotonic() - begin,
    )
