"""Names of images on their way into a store: whoever brings one has its name to himself until it is there, or given up.

The name is written in the lock that he holds anyway (`locks`), and what holds of locks holds of names: whoever comes
writes first and looks second, so of two who want one name at once at least one sees the other, and gives way. No image
is ever replaced, and none gets the name of another.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from torpor.errors import UsageError
from torpor.records import check_name
from torpor.store import locks
from torpor.store.locks import Held
from torpor.store.repository import Repository, StoredImage

TRIES = 10
"""How often somebody who wants one name and no other gives way to others who want it at the same time."""

_NUMBERED = re.compile(r"(.*)-(\d+)")


class Named(NamedTuple):
    """A name that is free, and the lock (shared) that keeps it so."""

    name: str
    held: Held


@contextmanager
def named(
    repository: Repository,
    verb: str,
    name: str,
    *,
    or_next: bool = False,
    taken: Collection[str] = (),
    wait: float = locks.WAIT,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Named]:
    """Hold the store's lock, and with it that name for an image, while the block runs.

    With `or_next` it is the next one that is free, by the number at its end, and not `taken`. Otherwise a UsageError
    when the store has an image or a tag of that name, or somebody brings one. Locks' errors as `Repository.lock`.
    """
    check_name(name)
    known: dict[str, StoredImage] = {}
    tries = ahead = 0
    while True:
        tries += 1
        before = _in_store(repository, known)
        chosen = name
        if or_next:
            before |= coming(repository) | set(taken)
            # Many who come at once would choose the same name again and again, and none of them would ever get it.
            chosen = next(islice(_free(name, before), ahead, None))
        elif chosen in before:
            raise _is_taken(repository, chosen)
        with repository.lock("shared", verb, wait=wait, name=chosen) as held:
            # Locks were listed before: whoever has gone since has left an image, or nothing.
            if chosen not in held.others and chosen not in _in_store(repository, known):
                yield Named(chosen, held)
                return
        if not or_next and tries >= TRIES:
            raise UsageError(
                f"{held.others.get(chosen, 'somebody')} brings an image named {chosen} into the store {repository.url}",
                hint="choose another name",
            )
        ahead = held.ahead
        pause(random.uniform(0.02, 0.2))


def coming(repository: Repository) -> set[str]:
    """Names of images that somebody brings at this moment."""
    return {lock.name for lock in repository.every_lock() if lock.name and not locks.is_dead(lock)}


def next_name(name: str) -> str:
    """`job-8` for `job-7`, and `job-2` for `job`."""
    match = _NUMBERED.fullmatch(name)
    return f"{match[1]}-{int(match[2]) + 1}" if match else f"{name}-2"


def _free(name: str, taken: Collection[str]) -> Iterator[str]:
    """The name, and the next ones, but for those that are taken."""
    while True:
        if name not in taken:
            yield name
        name = next_name(name)


def _in_store(repository: Repository, known: dict[str, StoredImage]) -> set[str]:
    """Names of the images, and tags. Heads of images that are `known` are not read again."""
    found = repository.readable_images(known)[0]
    known.update((one.id, one) for one in found)
    return {one.head.name for one in found} | repository.tags().keys()


def _is_taken(repository: Repository, name: str) -> UsageError:
    return UsageError(f"the store {repository.url} has an image named {name}", hint="choose another with --name")
