"""A store in a bucket of an S3 server. An object is an object, its key the store's prefix and the object's name.

S3 takes an object wholly or not at all, answers when it is durable, and since then every read and listing shows it.
Large objects go in parts, several at a time. Parts of a write that was cut short are no object; `sweep` removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any

from botocore.exceptions import ClientError

from torpor.errors import UsageError
from torpor.store.backend import CONFIG, NoObject, Stored, check_kind, pour
from torpor.store.retry import Patience
from torpor.store.s3_address import Address
from torpor.store.s3_bucket import Bucket
from torpor.store.s3_errors import code_of, refused, status_of
from torpor.store.s3_parts import Uploads

PART = 8 << 20
"""Bytes of a part; an object that is not larger goes in one piece. S3 wants at least 5 MiB of each but the last."""

PAGE = 1000
"""Names of one request: to list objects, or to delete them. S3 takes no more."""

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class S3Backend:
    """Objects in `address.bucket` under `address.prefix`. Contract: `backend.Backend`.

    `client` is botocore's, which is for any thread and is closed with the backend. `patience` is for single parts, so
    that a large object need not be sent again for one of them.
    """

    readers = 16
    gathers = False

    def __init__(
        self, client: Any, address: Address, *, part: int = PART, page: int = PAGE, patience: Patience | None = None
    ) -> None:
        self._client = client
        self._bucket = Bucket(client, address)
        self._uploads = Uploads(self._bucket, patience)
        self._part = part
        self._page = page

    @property
    def url(self) -> str:
        return self._bucket.url

    def any_key(self) -> str | None:
        """A key under the prefix, if there is one."""
        arguments = {**self._bucket.where(), "Prefix": self._bucket.prefix, "MaxKeys": 1}
        with self._bucket.reported("the listing"):
            page = self._bucket.whole("the listing", self._client.list_objects_v2(**arguments), "IsTruncated")
        return next((str(one["Key"]) for one in page.get("Contents", ())), None)

    def list(self, kind: str) -> Iterator[Stored]:
        arguments = {
            **self._bucket.where(),
            "Prefix": f"{self._bucket.prefix}{check_kind(kind)}/",
            "MaxKeys": self._page,
        }
        while True:
            with self._bucket.reported(kind):
                page = self._bucket.whole(kind, self._client.list_objects_v2(**arguments), "IsTruncated")
            for one in page.get("Contents", ()):
                name = self._bucket.name_of(one["Key"])
                if name is not None:
                    yield Stored(name, int(one["Size"]))
            if not page["IsTruncated"]:
                return
            arguments["ContinuationToken"] = self._bucket.whole(kind, page, "NextContinuationToken")[
                "NextContinuationToken"
            ]

    def size(self, name: str) -> int:
        # Not by HEAD: nobody can tell whether the head of an answer without a body came as a whole.
        with self._bucket.reported(name):
            try:
                answer = self._client.get_object(**self._bucket.where(name), Range="bytes=0-0")
            except ClientError as error:
                if _is_behind(error):
                    return 0
                raise
            with closing(answer["Body"]) as body:
                if "ContentRange" not in answer:  # from a server that does not know ranges
                    return len(self._bucket.whole_body(name, answer, body))
                self._bucket.whole_body(name, answer, body)
        match = _RANGE.fullmatch(answer["ContentRange"])
        if not match:
            raise self._bucket.passing(name, f"the answer speaks of {answer['ContentRange']!r}")
        return int(match[3])

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            self.size(name)
            return b""
        ranged = offset > 0 or length is not None
        arguments = self._bucket.where(name)
        if ranged:
            arguments["Range"] = f"bytes={offset}-" + ("" if length is None else str(offset + length - 1))
        with self._bucket.reported(name):
            try:
                answer = self._client.get_object(**arguments)
            except ClientError as error:
                if ranged and _is_behind(error):
                    return b""  # it begins at the end of the object, or behind it
                raise
            with closing(answer["Body"]) as body:
                data = self._bucket.whole_body(name, answer, body)
        told = answer.get("ContentRange")
        if told is None and answer["ResponseMetadata"]["HTTPStatusCode"] == 200:
            # All of it was asked for, or the server does not know ranges.
            return data[offset : None if length is None else offset + length]
        match = _RANGE.fullmatch(told or "")
        end = min(int(match[3]), int(match[3]) if length is None else offset + length) if match else 0
        if not match or (int(match[1]), len(data)) != (offset, end - offset):
            raise self._bucket.passing(name, f"{told!r}, with {len(data)} bytes, came for {arguments.get('Range')!r}")
        return data

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return pour(self.read(name, offset, sum(map(len, rooms))), rooms)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        target = self._bucket.where(name)
        pieces = _pieces(parts, self._part)
        first, second = next(pieces), next(pieces, None)
        with self._bucket.reported(name):
            if second is None and name == CONFIG:
                self._write_once(name, first)
            elif second is None:
                self._client.put_object(**target, Body=first)
            else:
                self._uploads.write(name, chain((first, second), pieces))

    def delete(self, names: Sequence[str]) -> None:
        targets = [self._bucket.where(name) for name in dict.fromkeys(names)]
        if len(targets) == 1:
            with suppress(NoObject), self._bucket.reported(names[0]):
                self._client.delete_object(**targets[0])
            return
        for at in range(0, len(targets), self._page):
            some = [{"Key": target["Key"]} for target in targets[at : at + self._page]]
            with self._bucket.reported("objects"):
                answer = self._client.delete_objects(**self._bucket.where(), Delete={"Objects": some})
            for one in answer.get("Errors", ()):
                what = self._bucket.name_of(str(one.get("Key"))) or "an object"
                with suppress(NoObject):
                    raise refused(str(one.get("Code")), 0, str(one.get("Message") or ""), self.url, what)
            told = {one.get("Key") for one in chain(answer.get("Deleted", ()), answer.get("Errors", ()))}
            if not told.issuperset(one["Key"] for one in some):
                raise self._bucket.passing(
                    "objects", f"of {len(some)} that were to go, the answer speaks of {len(told)}"
                )

    def sweep(self) -> int:
        return sum(self._uploads.remove(name, upload) for name, upload in [*self._uploads.unfinished()])

    def close(self) -> None:
        self._uploads.close()
        self._client.close()

    def _write_once(self, name: str, data: bytes) -> None:
        """Write what is never replaced: of two that make a store here at once, one is told so. Some servers cannot."""
        target = self._bucket.where(name)
        try:
            self._client.put_object(**target, Body=data, IfNoneMatch="*")
        except ClientError as error:
            if status_of(error) == 501:
                self._client.put_object(**target, Body=data)
            # It is there; after a write of ours of which no answer came, that is as it should be.
            elif status_of(error) != 412:
                raise
            elif self.read(name) != data:
                raise UsageError(f"{self.url} has become a store just now") from error


def _is_behind(error: ClientError) -> bool:
    """Whether a range was asked for that begins at the object's end, or behind it."""
    return code_of(error) == "InvalidRange" or status_of(error) == 416


def _pieces(parts: Sequence[bytes | memoryview], size: int) -> Iterator[bytes]:
    """The parts' bytes in pieces of `size`, the last shorter; at least one. A part is taken when its piece is made."""
    pending: list[memoryview] = []
    have = 0
    made = False
    for part in parts:
        view = memoryview(part).cast("B") if len(part) else memoryview(b"")
        at = 0
        while at < len(view):
            taken = view[at : at + size - have]
            pending.append(taken)
            at += len(taken)
            have += len(taken)
            if have == size:
                yield b"".join(pending)
                pending, have, made = [], 0, True
    if pending or not made:
        yield b"".join(pending)
