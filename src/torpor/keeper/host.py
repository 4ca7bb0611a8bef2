"""What a keeper has: the driver, the pinned pool, and the flows that are under way."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress

from torpor import paths
from torpor.driver import Checkpointing, Driver, copies
from torpor.errors import NoSpace, TorporError
from torpor.keeper.flows import Flows
from torpor.keeper.pool import Pool
from torpor.keeper.rollback import each
from torpor.keeper.sift import Hashers
from torpor.keeper.writeback import Writeback
from torpor.records import Backend

log = logging.getLogger(__name__)

POOL_FOLDER = ".pool"
SUSPENDED_FOLDER = ".jobs"
"""Inside TORPOR_DRAM. The dots keep them apart from images, whose names begin with a letter or digit."""


class Host:
    """Shared by all flows of a keeper. The driver is initialised in the background; `driver` waits for it."""

    def __init__(self, backend: Backend) -> None:
        self.backend: Backend = backend
        self._ready = threading.Event()
        self._failure: TorporError | None = None
        self._driver: Driver | None = None
        self._checkpointing: Checkpointing | None = None
        self._checkpointing_failure: TorporError | None = None
        self.flows = Flows()
        self._lock = threading.Lock()
        paths.make_private(paths.dram_dir())
        self.pool = Pool(
            folder=paths.dram_dir() / POOL_FOLDER / backend, pin=self._pin, unpin=self._unpin, limit=pool_limit()
        )
        self._hashers: dict[int, Hashers] = {}
        self.profiles_to_end: dict[str, int] = {}  # owners by job: their profiles ended while it could not be told so
        self.writeback = Writeback(self)
        threading.Thread(target=self._initialise, name="initialise", daemon=True).start()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set() and self._failure is None

    @property
    def driver(self) -> Driver:
        """The driver, initialised; raises what its initialisation raised."""
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        assert self._driver is not None
        return self._driver

    @property
    def checkpointing(self) -> Checkpointing:
        """The vendor's checkpoint calls; MissingPart when this driver lacks them."""
        _ = self.driver
        if self._checkpointing_failure is not None:
            raise self._checkpointing_failure
        assert self._checkpointing is not None
        return self._checkpointing

    def hashers(self, chunk: int) -> Hashers:
        """Who hashes device memory in chunks of so many bytes, on any device; kept for the next time."""
        with self._lock:
            if chunk not in self._hashers:
                self._hashers[chunk] = Hashers(self.driver, chunk)
            return self._hashers[chunk]

    def forget_hashers(self, chunk: int) -> None:
        """They have failed: the next time, begin anew."""
        with self._lock:
            gone = self._hashers.pop(chunk, None)
        if gone is not None:
            with suppress(TorporError):
                gone.close()

    def warm(self, size: int) -> None:
        """Grow the pool to `size` free bytes with several threads; NoSpace, and no growth, where they do not fit."""
        _ = self.driver
        status = os.statvfs(self.pool.folder)
        needed = size - self.pool.figures().free
        free = min(status.f_bavail * status.f_frsize, paths.memory_available())
        if needed > free:  # to try would take all memory from everybody else first
            raise NoSpace(
                f"{needed / (1 << 30):.1f} GiB more cannot be pinned, this host has {free / (1 << 30):.1f} GiB free",
                hint="ask for less, or make room in memory",
                details={"needed": needed, "free": free},
            )
        each(range(min(8, max(2, os.cpu_count() or 2))), lambda _number: self.pool.warm(size))

    def close(self) -> None:
        """Give back what the keeper holds; jobs and images stay."""
        self._ready.wait()
        self.pool.close()
        for chunk in list(self._hashers):
            self.forget_hashers(chunk)
        if self._driver is not None:
            self._driver.close()

    def _initialise(self) -> None:
        try:
            driver = Driver()
            driver.warm()
            self._driver = driver
        except TorporError as error:
            self._failure = error
            log.error("the driver cannot be used: %s", error)
        except Exception as error:  # a client must learn of it, whatever it is
            log.exception("the driver cannot be used")
            self._failure = TorporError(f"the driver cannot be used: {error}")
        else:
            try:
                self._checkpointing = Checkpointing(driver.version)
            except TorporError as error:
                self._checkpointing_failure = error
            log.info("driver %d ready, devices: %s", driver.version, [d.name for d in driver.devices])
        self._ready.set()
        if self._failure is None and os.environ.get("TORPOR_POOL"):
            try:
                self.warm(_bytes(os.environ["TORPOR_POOL"]))
            except NoSpace as error:
                log.error("TORPOR_POOL: %s", error)

    def _pin(self, address: int, size: int) -> None:
        self.driver.bind_any()
        copies.pin(address, size)

    def _unpin(self, address: int) -> None:
        self.driver.bind_any()
        copies.unpin(address)


def pool_limit() -> int:
    """Most bytes that the pool keeps: `TORPOR_POOL_MAX`, else a quarter of the host's memory, half of tmpfs at most."""
    chosen = os.environ.get("TORPOR_POOL_MAX")
    if chosen:
        return _bytes(chosen)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    status = os.statvfs(paths.dram_dir())
    return min(memory // 4, status.f_blocks * status.f_frsize // 2)


def _bytes(text: str) -> int:
    """`64M`, `16G`, or plain bytes."""
    text = text.strip().upper().removesuffix("B").removesuffix("I")
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    if text and text[-1] in units:
        return int(float(text[:-1]) * units[text[-1]])
    return int(text)
