"""`python -m torpor.keeper.writer IMAGE`: brings one image out of memory to where its order says, and ends.

Started by the keeper (`writeback`), which holds the other end of standard input: when that closes, the keeper is dead
and this ends at once. Whatever it had done by then is found again by the next one: chunks by their names, and the image
itself by the proof that was noted before it was committed.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from pathlib import Path

import msgspec

from torpor import paths, writeback
from torpor.errors import ImageDamaged, NotFound, TorporError
from torpor.image import read_manifest
from torpor.image.copying import copy_to_disk
from torpor.keeper import fault
from torpor.keeper.rollback import step
from torpor.store import location, plan
from torpor.store.backend import NoObject
from torpor.store.deposit import PutResult
from torpor.store.put import put
from torpor.writeback import Course, Order

NICE = 5
"""Jobs and flows come first."""

_TELL_SECONDS = 0.2


def main() -> int:
    image = paths.dram_dir() / sys.argv[1]
    threading.Thread(target=_end_with_keeper, daemon=True).start()
    os.nice(NICE)
    fault.arm()
    # The writer of a keeper that has just died may not have noticed yet: two would make two images of one name.
    lock = os.open(writeback.lock_file(image), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    order = writeback.order_of(image)
    before = writeback.course_of(image)
    if order is None or before is None:
        return 0
    telling = Telling(image, before)
    try:
        with step("write"):
            telling.begin(sum(plan.used_sizes(read_manifest(image)).values()))
            _write(order, telling)
            telling.written()
    except TorporError as error:
        telling.failed(error)
        return 1
    return 0


def _end_with_keeper() -> None:
    os.read(0, 1)
    os._exit(1)


class Telling:
    """Writes an image's course as it goes."""

    def __init__(self, image: Path, before: Course) -> None:
        self._image = image
        self._lock = threading.Lock()
        self._told = 0.0
        self.course = Course(
            phase="writing",
            place=before.place,
            tries=before.tries,
            proof=before.proof,
            put=before.put,
            asked=before.asked,
        )

    def begin(self, total: int) -> None:
        """So many bytes are going to be read."""
        self.course.total = total
        writeback.save_course(self._image, self.course)

    def move(self, count: int) -> None:
        """So many more have been. Threads may call this at once."""
        fault.point("write chunks")
        with self._lock:
            self.course.bytes += count
            if time.monotonic() - self._told >= _TELL_SECONDS:
                self._told = time.monotonic()
                writeback.save_course(self._image, self.course)

    def prove(self, proof: str, put: PutResult | None = None) -> None:
        """What is committed next is this image."""
        with self._lock:
            self.course.proof = proof
            self.course.put = None if put is None else msgspec.to_builtins({**put._asdict(), "image": proof})
            writeback.save_course(self._image, self.course)
        fault.point("write image")

    def failed(self, error: TorporError) -> None:
        self.course.phase, self.course.error = "failed", error.to_dict()
        self.course.tries += 1
        writeback.save_course(self._image, self.course)

    def written(self) -> None:
        fault.point("write image:end")
        self.course.phase, self.course.bytes = "written", self.course.total
        writeback.save_course(self._image, self.course)


def _write(order: Order, telling: Telling) -> None:
    """To its target; not again where an earlier writer had done it, and died before it could say so."""
    image, target = Path(order.image), order.target
    if target.store is not None:
        _into_store(order, target.store, telling)
        return
    assert target.path is not None
    path = Path(target.path)
    if telling.course.proof is None or _checksum(path) != telling.course.proof:
        sizes = plan.used_sizes(read_manifest(image))
        copy_to_disk(image, path, sizes, on_bytes=telling.move, on_sealed=telling.prove)


def _into_store(order: Order, store: str, telling: Telling) -> None:
    image, target = Path(order.image), order.target
    repository = location.open_store(store)

    def prove(result: PutResult) -> None:
        asked = target.place
        target.name = result.image.head.name
        if asked != target.place:
            telling.course.asked = telling.course.asked or asked
        telling.course.place = target.place
        telling.prove(result.image.id, result)
        if asked != target.place:
            writeback.save(order)

    try:
        proof = telling.course.proof
        if proof is not None:
            try:
                repository.backend.size(f"images/{proof}")
            except NoObject:
                pass
            else:
                return
        put(
            repository,
            image,
            name=target.name,
            or_next=True,  # the name was free when the image was made, and whoever was faster meanwhile keeps it
            hash_files=False,
            on_bytes=telling.move,
            on_sealed=prove,
        )
    finally:
        repository.backend.close()


def _checksum(path: Path) -> str | None:
    try:
        return read_manifest(path).checksum
    except (NotFound, ImageDamaged):
        return None


if __name__ == "__main__":
    sys.exit(main())
