"""Where a store is, as users write it: a folder, a file that `export` made, or a URL whose scheme names a backend."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from torpor.errors import NoRights, NotFound, UsageError
from torpor.store import cipher, keys
from torpor.store.apart import ApartBackend
from torpor.store.archive import ArchiveBackend
from torpor.store.backend import CONFIG, Backend, NoObject
from torpor.store.limit import LimitBackend, parse_rate
from torpor.store.local import LocalBackend
from torpor.store.repository import CHUNK, Keys, Repository, check_chunk, create, open_repository

VARIABLE = "TORPOR_STORE"
"""Names the store that is meant where none is named."""

LIMIT = "TORPOR_LIMIT"
"""How many bytes per second move into a store, and out of one, at the most; as 200MB/s."""

SCHEMES: dict[str, str] = {"s3": "torpor.store.s3_address:open_url"}
"""Scheme of a URL → `module:function` that makes a backend of the URL. The function gets the URL and `create`."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)")
_IMAGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)@(.*)")


class ImageAt(NamedTuple):
    """An image by its name, tag or id, and its store as the user wrote it; empty for the default one."""

    image: str
    store: str


def reaches_out() -> bool:
    """Whether this process has opened a place that a server may keep it waiting for."""
    return any(opener.partition(":")[0] in sys.modules for opener in SCHEMES.values())


def split(name: str) -> ImageAt | None:
    """`IMAGE@STORE` in its two parts; None for a name or path of an image that is in no store."""
    match = _IMAGE.fullmatch(name)
    return ImageAt(match[1], match[2]) if match else None


def chosen(store: str | None) -> str:
    """The store itself, or the default one where none is named. UsageError when there is none either."""
    found = store or os.environ.get(VARIABLE)
    if not found:
        raise UsageError("no store is named", hint=f"name one, as IMAGE@STORE or --store STORE, or set {VARIABLE}")
    return found


def is_store(place: str) -> bool:
    """Whether there is a store at a place, or its URL says that one is meant."""
    if place in ("", "@") or _URL.fullmatch(place):
        return True
    path = Path(place)
    return path.is_dir() and (path / CONFIG).is_file()


def named(store: str | None = None) -> str:
    """The place as an opened store there would name itself (`url`)."""
    place = chosen(store.removeprefix("@") if store else store)
    match = _URL.fullmatch(place)
    if match and match[1] != "file":
        return place
    return os.path.abspath(match[2] if match else place)


def open_store(store: str | None = None, *, limit: str | None = None) -> Repository:
    """The store at that place, by default that of TORPOR_STORE. Raises NotFound, UsageError, ImageDamaged.

    `limit` is a rate for each direction, by default that of TORPOR_LIMIT; empty for none. The key of an encrypted store
    comes from the environment (`keys`); NoRights where it does not fit.
    """
    backend = open_backend(chosen(store.removeprefix("@") if store else store), limit)
    return _opened(backend, lambda: keys.from_environment(backend.url))


def open_store_as(place: str, env: Mapping[str, str], store_key: bytes | None = None) -> Repository:
    """The store at that place as a process with these variables, and no others, would open it. Errors as above.

    The key of an encrypted one is `store_key` (`Repository.store_key` of whoever asks) or in a file: a command for it
    is not run here, since it is for its user to answer it, and may need more of his environment.
    """

    def given() -> list[bytes]:
        found = keys.from_environment(place, {keys.FILE: env.get(keys.FILE, "")})
        if not found and env.get(keys.COMMAND):
            raise NoRights(
                f"the store {place} is encrypted, and only who asks may run the command that prints its key",
                hint="is the keeper another user's, who is not told the key?",
            )
        return found

    return _opened(open_backend_as(place, env), given, store_key)


def open_backend_as(place: str, env: Mapping[str, str]) -> Backend:
    """What lies there, as a process with these variables would reach it; what is encrypted stays so."""
    match = _URL.fullmatch(place)
    if match and match[1] in SCHEMES:
        return ApartBackend(place, env)
    return open_backend(place, env.get(LIMIT, ""))


def open_backend(place: str, limit: str | None = None) -> Backend:
    """What lies there, which need be no store, with the limit as `open_store` has it."""
    backend = _backend(place, make=False)
    try:
        return _limited(backend, os.environ.get(LIMIT) if limit is None else limit)
    except BaseException:
        backend.close()
        raise


def _opened(backend: Backend, user: Keys, store_key: bytes | None = None) -> Repository:
    locked = not is_archive(backend.url)
    try:
        return open_repository(backend, locked=locked, keys=user, store_key=store_key)
    except BaseException:
        backend.close()
        raise


def is_archive(place: str) -> bool:
    """Whether the store at a place (its `url`) is a file that `export` made: it is not changed, and has no locks."""
    return Path(place).is_file()


def create_store(store: str | None = None, *, chunk: int = CHUNK, key: bytes | None = None) -> Repository:
    """Make an empty store, with `key` an encrypted one.

    UsageError when there is one already, or the place has something else in it.
    """
    check_chunk(chunk)  # both before anything is made in the place
    if key is not None:
        cipher.check_present()
    backend = _backend(chosen(store), make=True)
    try:
        return create(_limited(backend, os.environ.get(LIMIT)), chunk=chunk, key=key)
    except BaseException:
        backend.close()
        raise


def _limited(backend: Backend, limit: str | None) -> Backend:
    return LimitBackend(backend, parse_rate(limit)) if limit else backend


def _backend(place: str, *, make: bool) -> Backend:
    match = _URL.fullmatch(place)
    if match and match[1] == "file":
        place = match[2]
    elif match:
        if match[1] not in SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in ["file", *sorted(SCHEMES)])
            raise UsageError(f"{place} has a scheme that no backend knows", hint=f"a folder, or one of {known}")
        module, _, function = SCHEMES[match[1]].partition(":")
        backend: Backend = getattr(import_module(module), function)(place, create=make)
        return backend
    path = Path(os.path.abspath(place))
    return _make_folder(path) if make else _open_folder(path)


def _make_folder(path: Path) -> Backend:
    backend = LocalBackend(path)
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}", hint="make it first")
    needed = os.X_OK if os.path.lexists(path) else os.W_OK | os.X_OK
    if not os.access(path.parent, needed):
        raise NoRights(f"no right to make a store in {path.parent}", hint="choose another place")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is not a folder", hint="choose a new folder, or an empty one")
    if path.exists() and any(path.iterdir()):
        try:
            backend.size(CONFIG)
        except NoObject:
            raise UsageError(f"{path} has something else in it", hint="choose a new folder, or an empty one") from None
    else:
        try:
            backend.prepare()
        except NoObject:  # a file system whose folders are not made by hand, as /proc
            raise NoRights(f"no folder can be made at {path}", hint="choose another place") from None
    return backend


def _open_folder(path: Path) -> Backend:
    return ArchiveBackend(path) if path.is_file() else LocalBackend(path)
