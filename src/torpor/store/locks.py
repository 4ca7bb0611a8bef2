"""Locks of a store: objects that say who works on it, and how. Any number may share it; one alone may prune it.

The protocol needs nothing but whole objects and listings: write the own lock, look at all others, and give way where
one of them excludes it. Of two that come at once at least one sees the other. Locks of processes that are known to be
dead are removed; of a lock from elsewhere nobody here can say, so it is named and waited for.
"""

from __future__ import annotations

import getpass
import os
import platform
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from torpor.errors import ImageDamaged, NoRights, StepFailed, TorporError, WrongState
from torpor.records import process_start
from torpor.store import sealed
from torpor.store.backend import Backend, NoObject

Mode = Literal["shared", "exclusive"]
WAIT = 60.0
"""Seconds that a verb waits for others by default."""


class Lock(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who holds it: `start` is the process's start time in clock ticks since that `boot`; `since` a UTC time.

    `name` is that of the image which the holder brings, if he brings one, and nobody else may meanwhile (`naming`).
    """

    mode: Mode
    verb: str
    host: str
    machine: str
    boot: str
    namespace: int
    pid: int
    start: int
    user: str
    since: str
    name: str | None = None

    def describe(self) -> str:
        return f"`{self.verb}`, process {self.pid} of {self.user} on {self.host}, since {self.since}"


class Held:
    """A lock that this process holds. `others` have these names of images in theirs: who they are, by name; `ahead` of
    those with the same one are so many, in an order that all of them see alike."""

    def __init__(
        self, backend: Backend, name: str | None, others: Mapping[str, str] | None = None, ahead: int = 0
    ) -> None:
        self._backend = backend
        self._name = name
        self.others = others or {}
        self.ahead = ahead

    def check(self) -> None:
        """StepFailed when somebody took the lock away: what was written may be gone, so nothing may refer to it."""
        if self._name is None:
            return
        try:
            self._backend.size(self._name)
        except NoObject:
            raise StepFailed(
                step="store lock",
                reason=f"the lock on {self._backend.url} was removed by somebody else meanwhile",
                hint="try again; nothing was added",
            ) from None

    def release(self) -> None:
        if self._name is not None:
            self._backend.delete([self._name])


@contextmanager
def hold(
    backend: Backend,
    mode: Mode,
    verb: str,
    *,
    wait: float = WAIT,
    read_only: bool = False,
    name: str | None = None,
) -> Iterator[Held]:
    """Hold a lock while the block runs. WrongState names who holds what excludes it after `wait` seconds.

    With `read_only` a store that cannot be written is used without one. `name` is written in it (`naming`).
    """
    try:
        held = _acquire(backend, mode, verb, wait, image=name)
    except NoRights:
        if not read_only:
            raise
        held = Held(backend, None)
    try:
        yield held
    except BaseException:
        with suppress(TorporError):  # the place may be the reason; then this is what to tell, and not the lock
            held.release()
        raise
    held.release()


def every(backend: Backend) -> dict[str, Lock]:
    """All locks by their objects' names, dead ones included. One that cannot be read is passed over if it is gone."""
    found = {}
    for one in backend.list("locks"):
        try:
            found[one.name] = read(backend, one.name)
        except NoObject:
            continue
    return found


def read(backend: Backend, name: str) -> Lock:
    """One lock by its object's name. Raises NoObject, ImageDamaged."""
    hint = f"when nobody uses the store: `torpor prune --break-lock {name.removeprefix('locks/')}`"
    try:
        return msgspec.convert(sealed.unpack_json(backend, name), Lock)
    except msgspec.ValidationError as error:
        raise sealed.damaged(backend, name, str(error), hint) from error
    except ImageDamaged as error:
        error.hint = hint
        raise


def is_dead(lock: Lock) -> bool:
    """Whether its process is known to be gone: it was of this host, and is not there, or the host started again."""
    here = identity()
    if (lock.host, lock.machine) != (here["host"], here["machine"]):
        return False
    if lock.boot != here["boot"]:
        return True
    # Another PID namespace of this host has other numbers; its processes cannot be judged from here.
    return lock.namespace == here["namespace"] and process_start(lock.pid) != lock.start


def break_lock(backend: Backend, name: str) -> None:
    """Remove a lock by its name, with or without `locks/`. Its holder finds out before it commits anything."""
    key = f"locks/{name.removeprefix('locks/')}"
    backend.size(key)
    backend.delete([key])


def identity() -> dict[str, Any]:
    """This host and process, as locks name them."""
    return {
        "host": platform.node(),
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": Path("/proc/self/ns/pid").stat().st_ino,
        "pid": os.getpid(),
        "start": process_start(os.getpid()),
    }


def _acquire(
    backend: Backend,
    mode: Mode,
    verb: str,
    wait: float,
    pause: Callable[[float], None] = time.sleep,
    image: str | None = None,
) -> Held:
    end = time.monotonic() + wait
    while True:
        name = f"locks/{secrets.token_hex(16)}"
        mine = Lock(mode=mode, verb=verb, user=_user(), since=_now(), name=image, **identity())
        backend.write(name, sealed.pack_json(msgspec.to_builtins(mine)))
        try:
            found = _others(backend, name)
            in_way = _in_way(backend, found, mode)
        except BaseException:
            backend.delete([name])
            raise
        if in_way is None:
            bringing = {other: lock for other, lock in found.items() if lock.name and not is_dead(lock)}
            ahead = sum(other < name and lock.name == image for other, lock in bringing.items())
            return Held(backend, name, {str(lock.name): lock.describe() for lock in bringing.values()}, ahead)
        backend.delete([name])
        if time.monotonic() > end:
            other, lock = in_way
            raise WrongState(
                f"the store {backend.url} is in use by {lock.describe()}",
                hint=f"wait for it; if it is gone for good, `torpor prune --break-lock {other.removeprefix('locks/')}`",
                details={"lock": other, **msgspec.to_builtins(lock)},
            )
        pause(random.uniform(0.02, 0.2))


def _others(backend: Backend, own: str) -> dict[str, Lock]:
    found = every(backend)
    if own not in found:
        # Who comes second could not see this lock either.
        raise StepFailed(
            step="store lock",
            reason=f"the listing of {backend.url} does not show what was written a moment ago",
            hint="a place whose listings lag cannot hold a store; if somebody removed the lock, try again",
        )
    del found[own]
    return found


def _in_way(backend: Backend, others: Mapping[str, Lock], mode: Mode) -> tuple[str, Lock] | None:
    for name, lock in others.items():
        if mode == "shared" and lock.mode == "shared":
            continue
        if is_dead(lock):
            backend.delete([name])
            continue
        return name, lock
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
