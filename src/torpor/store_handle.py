"""Stores and their images as their user handles them. The parts are in `torpor.store`; this joins them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from torpor import records, store_folders, writeback
from torpor.errors import NoSpace, NotFound, UsageError
from torpor.image_handle import Image, find_image
from torpor.job_handle import Job, adopted
from torpor.keeper.messages import Progress
from torpor.keeper.report import told
from torpor.records import Backend
from torpor.store import diff as differences
from torpor.store import keys, location
from torpor.store.archive import ArchiveBackend
from torpor.store.chooser import Compression
from torpor.store.contents import read_head
from torpor.store.deposit import PutResult
from torpor.store.get import get
from torpor.store.locks import break_lock
from torpor.store.naming import coming
from torpor.store.prune import PruneResult, prune
from torpor.store.put import put
from torpor.store.repository import CHUNK, Repository, StoredImage, create
from torpor.store.transfer import transfer
from torpor.store.verify import Findings, repair_index, verify_image, verify_store
from torpor.writeback import Target, order_to, place_now

log = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]


class Store:
    """An opened store. A context manager: leaving it closes connections."""

    def __init__(self, repository: Repository, limit: str | None = None) -> None:
        self.repository = repository
        self.limit = limit

    def __repr__(self) -> str:
        return f"<torpor.Store {self.url}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self.repository.url

    def opening(self) -> dict[str, str]:
        """The variables by which another process opens it as this one has; `repository.store_key` may go with them."""
        return writeback.opening() | ({location.LIMIT: self.limit} if self.limit is not None else {})

    def images(self) -> list[ImageInStore]:
        """The images, the oldest first. Raises ImageDamaged when one cannot be read."""
        tags = self.tags()
        return [ImageInStore(self, one, tags) for one in self.repository.images()]

    def image(self, name: str) -> ImageInStore:
        """The image of that name, tag or id (its first digits suffice). Raises NotFound, UsageError."""
        return ImageInStore(self, self.repository.find(name), None)

    def tags(self) -> dict[str, str]:
        """Images' ids by tag."""
        return self.repository.tags()

    def put(
        self,
        image: Image | ImageInStore,
        *,
        name: str | None = None,
        check: bool = True,
        or_next: bool = False,
        compression: Compression = "auto",
        progress: OnProgress | None = None,
    ) -> PutResult:
        """Bring an image into this store, durably; only what the store lacks is moved.

        `check` reads the image's own hashes first. Raises UsageError (the name is taken), ImageDamaged, NoSpace. With
        `or_next` an image of a folder gets the next name that is free (`job-8` for `job-7`) where its own is taken.
        """
        if isinstance(image, ImageInStore):
            with told("copy", image.stored.head.bytes, progress) as count:
                return transfer(image.store.repository, image.stored, self.repository, name=name, on_bytes=count)
        manifest = image.manifest
        with image.reading(), told("store", sum(entry.size for entry in manifest.files), progress) as count:
            return put(
                self.repository,
                image.path,
                name=name or image.name,
                check=check,
                or_next=or_next,
                compression=compression,
                on_bytes=count,
            )

    def checkpoint(
        self,
        job: Job,
        *,
        leave_running: bool = False,
        tier: str = "disk",
        deadline: float = 30.0,
        progress: OnProgress | None = None,
    ) -> PutResult:
        """Save a job into an image of this store; durable here when this returns.

        With `tier="dram"` the job stands still only until the image is whole in memory (`begin_checkpoint`); where that
        has no room for it, as with `"disk"`: until it is in the store, into which only what it lacks of the GPU's bytes
        is moved. If the store fails when the image is whole in memory, the error says so. Otherwise errors are as for
        `Job.checkpoint`, and the job is then as it was.
        """
        options: dict[str, Any] = {"leave_running": leave_running, "deadline": deadline, "progress": progress}
        return self._checkpoint(lambda: nullcontext(job), tier, options)

    def checkpoint_process(
        self,
        pid: int,
        *,
        name: str | None = None,
        leave_running: bool = False,
        tier: str = "disk",
        deadline: float = 30.0,
        progress: OnProgress | None = None,
    ) -> PutResult:
        """The same for a process that Torpor did not start, and all its descendants (`torpor.checkpoint_process`)."""
        options: dict[str, Any] = {"leave_running": leave_running, "deadline": deadline, "progress": progress}
        return self._checkpoint(lambda: adopted(pid, name, leave_running=leave_running), tier, options)

    def begin_checkpoint(
        self,
        job: Job,
        *,
        leave_running: bool = False,
        deadline: float = 30.0,
        progress: OnProgress | None = None,
    ) -> Image:
        """Save a job into an image in memory, which the keeper writes into this store from then on.

        The image is whole when this returns, and can be restored; it is durable when its `flush` (or this store's) says
        so. Then it is in this store under the same name, and in memory no more. Errors as for `Job.checkpoint`, NoSpace
        where memory has no room for it; the job is then as it was.
        """
        name = store_folders.free_name(job.name, self)
        target = Target(name=name, store=self.url, env=self.opening())
        path = store_folders.image_folder(name, "dram")
        return job.checkpoint(leave_running, to=path, tier="dram", deadline=deadline, progress=progress, target=target)

    def flush(self, image: Image, progress: OnProgress | None = None) -> PutResult:
        """Wait until an image in memory is in this store. Errors as for `Image.flush`."""
        put = image.flush(progress).put
        if put is None:
            raise UsageError(f"{image.name} is on its way to another place")
        return self._put_result(put)

    def _checkpoint(
        self, opened: Callable[[], AbstractContextManager[Job]], tier: str, options: dict[str, Any]
    ) -> PutResult:
        """`opened` gives the job for as long as it is at a checkpoint."""
        begun = time.monotonic()
        if tier == "dram":
            try:
                with opened() as job:
                    image = self.begin_checkpoint(job, **options)
            except NoSpace as error:
                log.warning("%s; the image goes straight into the store", error.message)
            else:
                return self.flush(image, options["progress"])._replace(seconds=time.monotonic() - begun)
        with opened() as job:
            told = job.checkpoint_into(self.url, env=self.opening(), key=self.repository.store_key, **options)
        return self._put_result(told["put"])._replace(seconds=time.monotonic() - begun)

    def _put_result(self, put: dict[str, Any]) -> PutResult:
        """What a keeper, or a writer of it, said of an image that is here now."""
        facts = dict(put)
        identity = facts.pop("image")
        return PutResult(StoredImage(identity, read_head(self.repository.backend, identity)), **facts)

    def verify(self, progress: OnProgress | None = None) -> Findings:
        """Read and check everything; changes nothing."""
        with told("verify", self._stored_bytes(), progress) as count:
            return verify_store(self.repository, count)

    def repair_index(self, progress: OnProgress | None = None) -> Findings:
        """Make the index anew from the packs."""
        with told("verify", self._stored_bytes(), progress) as count:
            return repair_index(self.repository, count)

    def prune(self, *, dry_run: bool = False) -> PruneResult:
        """Give back the room of what no image uses."""
        return prune(self.repository, dry_run=dry_run)

    def break_lock(self, name: str) -> None:
        """Remove a lock whose holder is known to be gone. Raises NotFound."""
        break_lock(self.repository.backend, name)

    def close(self) -> None:
        self.repository.backend.close()

    def _stored_bytes(self) -> int:
        return sum(one.size for one in self.repository.backend.list("packs"))


class ImageInStore:
    """An image of a store."""

    def __init__(self, store: Store, stored: StoredImage, tags: dict[str, str] | None) -> None:
        self.store = store
        self.stored = stored
        self._tags = tags

    def __repr__(self) -> str:
        return f"<torpor.ImageInStore {self.name}@{self.store.url}>"

    @property
    def id(self) -> str:
        return self.stored.id

    @property
    def name(self) -> str:
        return self.stored.head.name

    @property
    def tags(self) -> list[str]:
        """Its further names."""
        known = self.store.tags() if self._tags is None else self._tags
        return sorted(tag for tag, target in known.items() if target == self.id)

    @property
    def backend(self) -> Backend:
        return "sim" if self.stored.head.driver == "sim" else "gpu"

    def summary(self) -> dict[str, Any]:
        """JSON-safe: as `Image.summary`, with id, store and tags."""
        head = self.stored.head
        return {
            "name": head.name,
            "id": self.id,
            "store": self.store.url,
            "job": head.job,
            "tier": "store",
            "driver": head.driver,
            "gpu_bytes": head.gpu_bytes,
            "cpu_bytes": head.cpu_bytes,
            "bytes": head.bytes,
            "chunks": head.chunks,
            "created": head.created,
            "stored": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(head.stored / 1e9)),
            "tags": self.tags,
            "state": "durable",
            "durable": True,
            "writing": None,
        }

    def show(self) -> dict[str, Any]:
        """JSON-safe: as `Image.show`, with the streams and what they take."""
        from torpor.image.describe import describe
        from torpor.image.reader import decode_manifest

        found = self.store.repository.read(self.stored)
        where = f"{self.name}@{self.store.url}"
        manifest = decode_manifest(Path(where), found.document.manifest, hashed=found.document.hashed)
        data = describe(Path(where), manifest)
        streams = [
            {"label": one.label, "kind": one.kind, "pieces": one.pieces, "size": sum(part[2] for part in one.extents)}
            for one in found.document.streams
        ]
        used = len({one.tobytes() for one in found.used()})
        return {
            **self.summary(),
            **data,
            "name": self.name,
            "path": where,
            "chunk": found.document.chunk,
            "distinct": used,
            "streams": streams,
        }

    def verify(self, progress: OnProgress | None = None) -> None:
        """Read and check every chunk. Raises ImageDamaged, which names the first wrong one."""
        with told("verify", self.stored.head.bytes, progress) as count:
            verify_image(self.store.repository, self.stored, count)

    def remove(self) -> None:
        """Forget the image and its tags; its room is given back by a prune."""
        self.store.repository.remove(self.stored)

    def tag(self, name: str) -> None:
        """Give it a further name, which another image loses if it has it. UsageError when an image is named so."""
        repository = self.store.repository
        if any(one.head.name == name for one in repository.images()) or name in coming(repository):
            raise UsageError(f"the store {self.store.url} has an image named {name}", hint="choose another tag")
        repository.tag(self.stored, name)

    def untag(self, name: str) -> None:
        """Take a further name from it; the image stays. NotFound when the store has no such tag."""
        self.store.repository.untag(name)

    def get(self, path: str | os.PathLike[str], *, durable: bool = True, progress: OnProgress | None = None) -> Image:
        """Bring it back as the folder `path`, every chunk checked. Raises UsageError, ImageDamaged, NoSpace."""
        target = Path(os.path.abspath(path))
        records.check_name(target.name)
        with told("fetch", self.stored.head.bytes, progress) as count:
            return Image(get(self.store.repository, self.stored, target, durable=durable, on_bytes=count))


def open_store(url: str | None = None, *, limit: str | None = None) -> Store:
    """The store at a folder, archive or URL; by default that of TORPOR_STORE. Raises NotFound, UsageError, NoRights.

    `limit` bounds what moves into it, and out of it, per second (`200MB/s`); by default TORPOR_LIMIT does.
    """
    return Store(location.open_store(url, limit=limit), limit)


def create_store(
    url: str | None = None,
    *,
    chunk: int = CHUNK,
    encrypt: bool = False,
    key_file: str | os.PathLike[str] | None = None,
    key_command: str | None = None,
) -> Store:
    """Make an empty store with chunks of `chunk` bytes, with `encrypt` an encrypted one.

    Its key is in `key_file`, which is made where it is not there, or is what `key_command` prints; by default it comes
    from where an opened store's does: TORPOR_KEY_FILE, TORPOR_KEY_COMMAND.
    """
    if not encrypt and (key_file is not None or key_command is not None):
        raise UsageError("a key goes with an encrypted store", hint="ask for one with --encrypt")
    key = None
    if encrypt:
        file = None if key_file is None else Path(os.path.abspath(key_file))
        key = keys.for_new_store(location.chosen(url), file, key_command)
    return Store(location.create_store(url, chunk=chunk, key=key))


def find(name: str | os.PathLike[str]) -> Image | ImageInStore:
    """An image by name or path, or as `IMAGE@STORE`. Raises NotFound, UsageError, ImageDamaged."""
    where = location.split(os.fspath(name))
    if where is None:
        return find_image(name)
    place = place_now(f"{where.image}@{location.named(where.store)}")
    if order := order_to(place):
        return Image(Path(order.image))
    return open_store(where.store).image(place.partition("@")[0])


def diff(old: Image | ImageInStore, new: Image | ImageInStore) -> dict[str, Any]:
    """What changed from one image to another; see `torpor.store.diff.diff`."""
    sizes = [one.store.repository.chunk for one in (old, new) if isinstance(one, ImageInStore)]
    if len(set(sizes)) > 1:
        raise UsageError("the two stores have chunks of different sizes", hint="copy one image into the other's store")
    chunk = sizes[0] if sizes else CHUNK
    return differences.diff(_view(old, chunk), _view(new, chunk))


def export(image: Image | ImageInStore, path: str | os.PathLike[str], progress: OnProgress | None = None) -> PutResult:
    """Write an image into one file, which is a store in a tar archive. UsageError when `path` is taken."""
    archive = ArchiveBackend(Path(os.path.abspath(path)), create=True)
    try:
        chunk = image.store.repository.chunk if isinstance(image, ImageInStore) else CHUNK
        result = Store(create(archive, chunk=chunk, locked=False)).put(image, progress=progress)
        archive.finish()
    finally:
        archive.close()
    return result


def only_image(archive: str | os.PathLike[str]) -> ImageInStore:
    """The image of a file that `export` wrote. Raises NotFound, ImageDamaged."""
    path = Path(os.path.abspath(archive))
    if not path.is_file():
        raise NotFound(
            f"{path} is not a file" if path.exists() else f"there is no file {path}", hint="`torpor export` writes one"
        )
    images = open_store(str(path)).images()
    if len(images) != 1:
        raise UsageError(f"{path} holds {len(images)} images", hint="name one as IMAGE@FILE")
    return images[0]


def _view(image: Image | ImageInStore, chunk: int) -> differences.View:
    if isinstance(image, ImageInStore):
        return differences.view_of_stored(image.store.repository.read(image.stored))
    return differences.view_of_folder(image.path, chunk)
