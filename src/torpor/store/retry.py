"""Trying again what may go better the next time: a backend over one whose failures are sometimes Passing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from torpor.errors import StepFailed
from torpor.store.backend import Backend, Passing, Stored

T = TypeVar("T")

_FEWEST = 3
"""Tries of what takes long: a limit on bytes per second may be why."""


class Patience:
    """How often, and after which pauses, something is tried that fails with Passing.

    Before try n + 1 it waits for a random part of `first` · 2ⁿ⁻¹ seconds, of `most` at the most: those whom one failure
    has hit together do not come back together. By default nine tries, in about 20 seconds. Where each takes long, as it
    does when no answer comes, the first failure after `longest` seconds is the last, but not before the third: a job
    may stand still meanwhile.
    """

    def __init__(
        self,
        tries: int = 9,
        first: float = 0.2,
        most: float = 10.0,
        pause: Callable[[float], None] = time.sleep,
        longest: float = 100.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tries = tries
        self.first = first
        self.most = most
        self.longest = longest
        self._pause = pause
        self._clock = clock

    def run(self, call: Callable[[], T]) -> T:
        """What `call()` gives in the end. StepFailed, which is not Passing, when the last try has failed as well."""
        begin = self._clock()
        number = 1
        while True:
            try:
                return call()
            except Passing as error:
                waited = self._clock() - begin
                if number == self.tries or (number >= _FEWEST and waited > self.longest):
                    reason = f"{error.reason} (the last of {number} tries in {waited:.0f} s)"
                    raise StepFailed(step=error.step, reason=reason, hint=error.hint, details=error.details) from error
            self._pause(random.uniform(0, min(self.most, self.first * 2 ** (number - 1))))
            number += 1


class RetryBackend:
    """Contract: `backend.Backend`. What is repeated has the same effect twice as once: objects are written whole."""

    gathers = False

    def __init__(self, inner: Backend, patience: Patience | None = None) -> None:
        self._inner = inner
        self._patience = patience or Patience()

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def readers(self) -> int:
        return self._inner.readers

    def list(self, kind: str) -> Iterator[Stored]:
        # As a whole, so that what a listing that broke off has given is not given again.
        yield from self._patience.run(lambda: [*self._inner.list(kind)])

    def size(self, name: str) -> int:
        return self._patience.run(lambda: self._inner.size(name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._patience.run(lambda: self._inner.read(name, offset, length))

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return self._patience.run(lambda: self._inner.read_into(name, offset, rooms))

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        self._patience.run(lambda: self._inner.write(name, parts))

    def delete(self, names: Sequence[str]) -> None:
        self._patience.run(lambda: self._inner.delete(names))

    def sweep(self) -> int:
        return self._patience.run(self._inner.sweep)

    def close(self) -> None:
        self._inner.close()
