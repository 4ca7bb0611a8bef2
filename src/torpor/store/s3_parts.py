"""Objects that go to an S3 server in parts, several at a time, and what is left of those that were cut short."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from torpor.store.retry import Patience
from torpor.store.s3_bucket import FAILURES, Bucket
from torpor.store.s3_errors import code_of, status_of

PARTS_AT_ONCE = 6
"""Parts of one object that are under way together."""

_THREADS = 18
"""Parts of all objects that are under way together."""

_CHECKSUMS = {f"Checksum{kind}" for kind in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")}

_Parts = deque[Future[dict[str, Any] | None]]


class Uploads:
    """Writes in parts. `patience` is for single parts, so that an object need not go again as a whole for one."""

    def __init__(self, bucket: Bucket, patience: Patience | None) -> None:
        self._bucket = bucket
        self._client = bucket.client
        self._patience = patience
        self._threads = ThreadPoolExecutor(_THREADS, "store-s3")

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Make an object of these pieces, at least one. Raises Torpor's errors, and the library's."""
        begun = self._client.create_multipart_upload(**self._bucket.where(name))
        upload: str = self._bucket.whole(name, begun, "UploadId")["UploadId"]
        pending: _Parts = deque()
        done = []
        try:
            for number, piece in enumerate(pieces, start=1):
                pending.append(self._threads.submit(self._write_part, name, upload, number, piece))
                if len(pending) >= PARTS_AT_ONCE:
                    done.append(pending.popleft().result())
            while pending:
                done.append(pending.popleft().result())
            parts = [one for one in done if one is not None]
            if len(parts) < len(done):
                raise self._bucket.passing(name, "its parts were removed meanwhile")
            answer = self._client.complete_multipart_upload(
                **self._bucket.where(name), UploadId=upload, MultipartUpload={"Parts": parts}
            )
            # The status says nothing: a server sends it before it begins, so as to keep the connection.
            self._bucket.whole(name, answer, "ETag")
        except BaseException:
            self._give_up(name, upload, pending)
            raise

    def _write_part(self, name: str, upload: str, number: int, piece: bytes) -> dict[str, Any] | None:
        """What completes the write needs to know of the part; None when the server does not know the write any more."""

        def once() -> dict[str, Any] | None:
            with self._bucket.reported(name):
                try:
                    answer = self._client.upload_part(
                        **self._bucket.where(name), UploadId=upload, PartNumber=number, Body=piece
                    )
                except ClientError as error:
                    if code_of(error) == "NoSuchUpload":
                        return None
                    raise
            sums = {key: value for key, value in answer.items() if key in _CHECKSUMS}
            return {"PartNumber": number, "ETag": self._bucket.whole(name, answer, "ETag")["ETag"], **sums}

        return once() if self._patience is None else self._patience.run(once)

    def _give_up(self, name: str, upload: str, pending: _Parts) -> None:
        """Remove the parts, once none is under way; what cannot be removed now, `sweep` finds."""
        for future in pending:
            future.cancel()
        for future in pending:
            if not future.cancelled():
                future.exception()
        try:
            self._client.abort_multipart_upload(**self._bucket.where(name), UploadId=upload)
        except FAILURES:
            pass

    def unfinished(self) -> Iterator[tuple[str, str]]:
        """Names and ids of the writes in parts that have neither been completed nor given up."""
        arguments = {**self._bucket.where(), "Prefix": self._bucket.prefix}
        while True:
            with self._bucket.reported("unfinished writes"):
                try:
                    found = self._client.list_multipart_uploads(**arguments)
                    page = self._bucket.whole("unfinished writes", found, "IsTruncated")
                except ClientError as error:
                    if status_of(error) in (405, 501):
                        return  # a server that does not tell removes them by itself, or never
                    raise
            for one in page.get("Uploads", ()):
                name = self._bucket.name_of(one["Key"])
                if name is not None:
                    yield name, str(one["UploadId"])
            if not page["IsTruncated"]:
                return
            arguments["KeyMarker"] = self._bucket.whole("unfinished writes", page, "NextKeyMarker")["NextKeyMarker"]
            arguments["UploadIdMarker"] = page.get("NextUploadIdMarker", "")

    def remove(self, name: str, upload: str) -> int:
        """Remove the parts of one; returns their bytes."""
        target = self._bucket.where(name)
        with self._bucket.reported(name):
            try:
                pages = self._client.get_paginator("list_parts").paginate(**target, UploadId=upload)
                size = sum(int(part["Size"]) for page in pages for part in page.get("Parts", ()))
                self._client.abort_multipart_upload(**target, UploadId=upload)
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
                return 0
        return size
