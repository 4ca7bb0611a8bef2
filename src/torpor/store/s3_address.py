"""`s3://BUCKET/PREFIX?endpoint=URL&region=NAME&profile=NAME`: a store in a bucket, and how its server is reached.

What the URL does not say comes from where every S3 tool looks: AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE,
AWS_ACCESS_KEY_ID and so on, then ~/.aws/config and ~/.aws/credentials, then the machine's own role. It has no secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from torpor.errors import MissingPart, UsageError
from torpor.store.backend import CONFIG, Backend, NoObject
from torpor.store.retry import Patience, RetryBackend

if TYPE_CHECKING:
    from torpor.store.s3 import S3Backend

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()+=-]+")
_OPTIONS = ("endpoint", "region", "profile")
_FORM = "s3://BUCKET/PREFIX, and after a ? endpoint=URL, region=NAME, profile=NAME, with & between them"

CONNECTIONS = 64


class Address(NamedTuple):
    """`prefix` is empty, or ends with a slash; None where the URL leaves something to the environment."""

    url: str
    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None


def parse(url: str) -> Address:
    """The parts of a URL. UsageError where it is none of that form."""
    scheme, bucket, path, query, fragment = urlsplit(url)
    options = dict(parse_qsl(query, keep_blank_values=True))
    if scheme != "s3" or not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{url} names no bucket", hint=_FORM)
    segments = [one for one in path.split("/") if one]
    if fragment or any(one in (".", "..") or not _SEGMENT.fullmatch(one) for one in segments):
        raise UsageError(f"{url} has a prefix that not every server takes", hint="letters, digits and !_.*'()+=-")
    wrong = [one for one in options if one not in _OPTIONS or not options[one]]
    if wrong or len(options) != len(parse_qsl(query, keep_blank_values=True)):
        raise UsageError(f"{url} has options that make no sense", hint=_FORM)
    endpoint = options.get("endpoint")
    if endpoint is not None and (not re.fullmatch(r"https?://[^/?#@]+/?", endpoint)):
        raise UsageError(f"{endpoint} is no server's address", hint="http://HOST:PORT or https://HOST:PORT")
    return Address(url, bucket, "".join(f"{one}/" for one in segments), **options)


def open_url(url: str, *, create: bool) -> Backend:
    """The backend of that URL, which tries again what may pass; with `create` the place must be empty.

    Raises UsageError, MissingPart, and what looking into the place raises.
    """
    address = parse(url)
    try:
        from torpor.store.s3 import S3Backend
    except ImportError:
        raise MissingPart(
            "s3:// needs the Python package botocore, which is not here", hint="pip install 'torpor[s3]'"
        ) from None
    patience = Patience()
    place = S3Backend(client(address), address, patience=patience)
    backend = RetryBackend(place, patience)
    if create:
        try:
            _check_empty(place, backend, patience)
        except BaseException:
            backend.close()
            raise
    return backend


def _check_empty(place: S3Backend, backend: Backend, patience: Patience) -> None:
    other = patience.run(place.any_key)
    if other is None:
        return
    try:
        backend.size(CONFIG)  # a store, which whoever makes one finds out in the same words everywhere
    except NoObject:
        raise UsageError(
            f"{place.url} has something else in it ({other})", hint="choose a new prefix, or an empty one"
        ) from None


def client(address: Address) -> Any:
    """A client for the address's server. Raises UsageError for what the environment or its files have wrong."""
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    # One that has been asked once is asked again by `retry`, which everything goes through.
    settings = Config(
        connect_timeout=10,
        read_timeout=60,
        retries={"total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        user_agent_extra="torpor",
    )
    try:
        session = botocore.session.Session(profile=address.profile)
        made = session.create_client("s3", address.region, endpoint_url=address.endpoint, config=settings)
        styled = (session.get_scoped_config().get("s3") or {}).get("addressing_style")
        if made.meta.endpoint_url and not _is_amazon(made.meta.endpoint_url) and not styled:
            # Other servers often have no name per bucket; all of them take the bucket in the path.
            made.close()
            by_path = settings.merge(Config(s3={"addressing_style": "path"}))
            region = address.region or made.meta.region_name
            made = session.create_client("s3", region, endpoint_url=address.endpoint, config=by_path)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(f"{address.url}: {error}", hint="see the AWS_… variables and ~/.aws/config") from error
    return made


def _is_amazon(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
