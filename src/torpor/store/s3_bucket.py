"""What is common to all requests for a store in a bucket: keys of objects, and what a failure is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from torpor.errors import TorporError
from torpor.store.backend import Passing, check_name
from torpor.store.s3_address import Address
from torpor.store.s3_errors import translated

FAILURES = (BotoCoreError, ClientError, ResponseParserError)
"""What the library raises when a request fails."""


class Bucket:
    """A bucket as one store uses it: `client` is botocore's, for any thread; keys begin with the address's prefix."""

    def __init__(self, client: Any, address: Address) -> None:
        self.client = client
        self.url = address.url
        self.prefix = address.prefix
        self._bucket = address.bucket

    def where(self, name: str | None = None) -> dict[str, str]:
        """Bucket, and key of an object, as arguments of a request."""
        if name is None:
            return {"Bucket": self._bucket}
        return {"Bucket": self._bucket, "Key": self.prefix + check_name(name)}

    def name_of(self, key: str) -> str | None:
        """The name of the object with that key; None when it is none of a store's."""
        name = key.removeprefix(self.prefix)
        try:
            return check_name(name) if key.startswith(self.prefix) else None
        except TorporError:
            return None

    def whole(self, what: str, answer: dict[str, Any], key: str) -> dict[str, Any]:
        """The answer, which has that key: without a body, the library takes a broken-off one for one that says nothing.

        An empty listing would be the worst of it.
        """
        if not answer.get(key) and answer.get(key) is not False:
            raise self.passing(what, f"the answer broke off before {key}")
        return answer

    def whole_body(self, name: str, answer: dict[str, Any], body: Any) -> bytes:
        """An object's bytes, as many as the answer said."""
        data: bytes = body.read()
        if answer.get("ContentLength") != len(data):
            raise self.passing(name, f"{len(data)} of {answer.get('ContentLength', 'some')} bytes came")
        return data

    def passing(self, name: str, why: str) -> Passing:
        return Passing(step="store", reason=f"{name} of the store {self.url}: {why}")

    @contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Turn the library's errors into Torpor's, with the place and the object."""
        try:
            yield
        except FAILURES as error:
            raise translated(error, self.url, what) from error
