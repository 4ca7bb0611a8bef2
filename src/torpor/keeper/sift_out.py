"""A job's blocks into a store: of all their chunks, those that it lacks.

The GPUs hash their memory, and only what is new leaves it. Where they cannot, every byte comes into pinned memory and
is hashed there; what the store gets is the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torpor.errors import StepFailed
from torpor.keeper.host import Host
from torpor.keeper.memory import MappedRow
from torpor.keeper.moves import TakenOut
from torpor.keeper.report import Report
from torpor.keeper.sift import BlockKey, CannotHash, Sieve, Sifter
from torpor.keeper.sift_host import HostSifter
from torpor.keeper.taken import Taken
from torpor.store.deposit import Deposit
from torpor.store.plan import block_label

log = logging.getLogger(__name__)

Where = Literal["gpu", "host"]

Digests = dict[BlockKey, list[bytes]]


def wanted() -> Where | None:
    """Where `TORPOR_HASH` says that device memory is to be hashed; None where it leaves that to us."""
    chosen = os.environ.get("TORPOR_HASH")
    return "gpu" if chosen == "gpu" else "host" if chosen == "host" else None


@dataclass
class Sifting:
    """What was found, in bytes: zeros, what the store had, what was there more than once, and what `moved`.

    `by` says who hashed; where that had to be the host, `because` says why.
    """

    by: Where
    because: str | None = None
    zero: int = 0
    known: int = 0
    repeated: int = 0
    moved: int = 0

    def facts(self) -> dict[str, Any]:
        """JSON-safe."""
        return dict(self.__dict__)


class SiftOut(TakenOut):
    """Brings what a store lacks of a job's blocks into it. `names` are there when it has finished."""

    def __init__(self, host: Host, taken: Taken, deposit: Deposit) -> None:
        super().__init__(host, taken)
        self._deposit = deposit
        self._chunk = deposit.repository.chunk
        # The software GPU is the host, and hashes its memory a hundred times slower than the host does.
        self.sifting = Sifting(wanted() or ("host" if host.backend == "sim" else "gpu"))

    def stop(self) -> None:
        """As for all; the store may take its time with what it has been given."""
        self._deposit.give_up(StepFailed(step="store", reason="an earlier step failed"))
        super().stop()

    def _move(self, mapped: dict[str, MappedRow], report: Report) -> None:
        with report.phase("sift", self.size) as phase:
            digests = None
            if self.sifting.by == "gpu":
                digests = self._on_the_gpu(mapped, phase.move)
            if digests is None:
                digests = self._on_the_host(mapped, phase.move)
        self.names = {block_label(pid, address): found for (pid, address), found in digests.items()}

    def _on_the_gpu(self, mapped: dict[str, MappedRow], on_bytes: Callable[[int], None]) -> Digests | None:
        """None when a device could not hash: then everything is at rest, and nothing is owed to the store."""
        host, deposit, found = self._host, self._deposit, self.sifting
        sieve = Sieve(deposit.claim)
        try:
            sifter = Sifter(
                host.driver, host.pool, host.hashers(self._chunk), sieve, deposit.bring, stop=self._stopping
            )
            sifted = sifter.sift(self._rows, mapped, on_bytes)
        except CannotHash as error:
            deposit.withdraw()
            host.forget_hashers(self._chunk)
            log.warning("device memory is hashed by the host: %s", error.__cause__)
            self.sifting = Sifting("host", str(error.__cause__))
            return None
        found.zero, found.known, found.repeated = sieve.zero, sieve.already_known, sieve.repeated
        found.moved = sifted.moved.bytes
        return sifted.digests

    def _on_the_host(self, mapped: dict[str, MappedRow], on_bytes: Callable[[int], None]) -> Digests:
        host = self._host
        sifter = HostSifter(host.driver, host.pool, self._chunk, self._deposit.take, stop=self._stopping)
        sifted = sifter.sift(self._rows, mapped, on_bytes)
        self.sifting.moved = sifted.moved.bytes
        return sifted.digests
