"""A backend in memory, under wrappers: it counts what is asked of it, and fails as a test wants."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from torpor.store.backend import NoObject, Passing, Stored, check_kind, check_name, pour


class MemoryBackend:
    """Contract: `torpor.store.backend.Backend`. `objects` may be changed from outside."""

    url = "memory"
    readers = 1
    gathers = False

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.closed = False

    def list(self, kind: str) -> Iterator[Stored]:
        self._ask("list")
        check_kind(kind)
        for name, data in list(self.objects.items()):
            if name.startswith(f"{kind}/"):
                yield Stored(name, len(data))

    def size(self, name: str) -> int:
        self._ask("size")
        return len(self._found(name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self._ask("read")
        return self._found(name)[offset : None if length is None else offset + length]

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return pour(self.read(name, offset, sum(map(len, rooms))), rooms)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        self._ask("write")
        self.objects[check_name(name)] = b"".join(parts)

    def delete(self, names: Sequence[str]) -> None:
        self._ask("delete")
        for name in names:
            self.objects.pop(check_name(name), None)

    def sweep(self) -> int:
        self._ask("sweep")
        return 17

    def close(self) -> None:
        self.closed = True

    def _ask(self, what: str) -> None:
        self.asked[what] += 1

    def _found(self, name: str) -> bytes:
        try:
            return self.objects[check_name(name)]
        except KeyError:
            raise NoObject("the store memory", name) from None


class FlakyBackend(MemoryBackend):
    """One in three requests fails, some of them after they have been carried out; listings also in their middle."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self._chosen = random.Random(seed)
        self._lock = threading.Lock()

    def list(self, kind: str) -> Iterator[Stored]:
        for number, one in enumerate(super().list(kind)):
            if number % 100 == 1:
                self._fail("list", 4)
            yield one

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        super().write(name, parts)
        self._fail("write", 6)

    def delete(self, names: Sequence[str]) -> None:
        super().delete(names)
        self._fail("delete", 6)

    def _ask(self, what: str) -> None:
        super()._ask(what)
        self._fail(what, 6)

    def _fail(self, what: str, of: int) -> None:
        with self._lock:
            unlucky = self._chosen.randrange(of) == 0
        if unlucky:
            raise Passing(step="store", reason=f"{what} got no answer")
