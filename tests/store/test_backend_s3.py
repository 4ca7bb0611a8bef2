"""The S3 backend: the contract against a real server, and what only such a server can show."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.contract import NAME, BackendContract
from tests.store.s3_server import BUCKET, LentClient, S3Server
from torpor.errors import MissingPart, NoRights, NotFound, StepFailed, UsageError
from torpor.store import location
from torpor.store.backend import NoObject, Passing
from torpor.store.s3 import S3Backend
from torpor.store.s3_address import client, open_url, parse
from torpor.store.s3_errors import refused

MIB = 1 << 20
PART = 5 * MIB


@pytest.fixture
def backend(s3_client: LentClient, s3_url: str) -> Iterator[S3Backend]:
    made = S3Backend(s3_client, parse(s3_url), part=PART, page=50)
    yield made
    made.close()


class TestS3Backend(BackendContract):
    many = 120


@pytest.mark.full
def test_a_listing_of_many_pages_as_the_server_makes_them(s3_client: LentClient, s3_url: str) -> None:
    backend = S3Backend(s3_client, parse(s3_url))
    BackendContract().test_a_long_listing_is_whole(backend)
    names = [one.name for one in backend.list("images")]
    backend.delete(names)
    assert [*backend.list("images")] == []
    backend.close()


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 17])
def test_large_objects_go_in_parts(backend: S3Backend, size: int) -> None:
    data = os.urandom(size)
    backend.write(NAME, [data[:100], memoryview(data)[100 : size // 2], data[size // 2 :]])
    assert backend.size(NAME) == size
    assert backend.read(NAME) == data
    assert backend.read(NAME, PART - 10, 20) == data[PART - 10 : PART + 10]
    assert backend.sweep() == 0


def test_a_write_that_fails_leaves_the_old_object_and_no_parts(backend: S3Backend) -> None:
    backend.write(NAME, [b"old"])

    class Ends(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield from super().__iter__()
            raise StepFailed(step="source", reason="no more")

    with pytest.raises(StepFailed, match="no more"):
        backend.write(NAME, Ends([bytes(3 * PART)]))
    assert backend.read(NAME) == b"old"
    assert backend.sweep() == 0


def test_sweeping_takes_parts_of_this_store_only(backend: S3Backend, s3_client: LentClient, s3_url: str) -> None:
    prefix = parse(s3_url).prefix
    keys = [f"{prefix}{NAME}", f"{prefix}thesis", f"{prefix[:-1]}0/{NAME}", f"other/{NAME}"]
    uploads = {}
    for key in keys:
        uploads[key] = s3_client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        for number in (1, 2):
            s3_client.upload_part(Bucket=BUCKET, Key=key, UploadId=uploads[key], PartNumber=number, Body=bytes(PART))
    assert [*backend.list("packs")] == []
    assert backend.sweep() == 2 * PART
    assert backend.sweep() == 0
    left = {one["Key"] for one in s3_client.list_multipart_uploads(Bucket=BUCKET)["Uploads"]}
    assert left == set(keys[1:])
    for key in keys[1:]:
        s3_client.abort_multipart_upload(Bucket=BUCKET, Key=key, UploadId=uploads[key])


def test_of_two_that_make_a_store_at_once_one_is_told(backend: S3Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked whether there is a store, and seen none."""
    monkeypatch.setattr(S3Backend, "size", lambda _self, name: (_ for _ in ()).throw(NoObject("x", name)))
    from torpor.store.repository import create, open_repository

    first = create(backend)
    with pytest.raises(UsageError, match="has become a store"):
        create(backend)
    assert open_repository(backend).config == first.config


def test_the_same_config_may_be_written_again(backend: S3Backend) -> None:
    """As it is after a request that was carried out and got no answer."""
    for _ in range(2):
        backend.write("config", [b"{", b"}"])
    assert backend.read("config") == b"{}"


def test_other_keys_of_the_bucket_are_no_objects(backend: S3Backend, s3_client: LentClient, s3_url: str) -> None:
    prefix = parse(s3_url).prefix
    for key in (f"{prefix}packs/.hidden", f"{prefix}packs/deep/er", f"{prefix}packs"):
        s3_client.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    assert [*backend.list("packs")] == []


class Answering:
    """A client whose server gives always the same answer to a request of that kind."""

    def __init__(self, request: str, answer: dict[str, Any]) -> None:
        setattr(self, request, lambda **_arguments: answer)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        ({}, Passing, "speaks of 0"),
        ({"Deleted": [{"Key": "x/tags/one"}]}, Passing, "speaks of 1"),
        ({"Errors": [{"Key": "x/tags/one", "Code": "AccessDenied"}]}, NoRights, "tags/one"),
        ({"Errors": [{"Key": "x/tags/one", "Code": "InternalError"}]}, Passing, "tags/one"),
    ],
)
def test_what_was_not_deleted_is_told(told: dict[str, Any], kind: type, message: str) -> None:
    backend = S3Backend(Answering("delete_objects", told), parse("s3://bucket/x"))
    with pytest.raises(kind, match=message):
        backend.delete(["tags/one", "tags/two"])
    backend.close()


def test_what_was_not_there_need_not_be_deleted() -> None:
    told = {"Deleted": [{"Key": "x/tags/one"}], "Errors": [{"Key": "x/tags/two", "Code": "NoSuchKey"}]}
    backend = S3Backend(Answering("delete_objects", told), parse("s3://bucket/x"))
    backend.delete(["tags/one", "tags/two"])
    backend.close()


@pytest.mark.usefixtures("s3")
class TestPlaces:
    def test_a_bucket_that_is_not_there_is_named(self) -> None:
        with pytest.raises(NotFound, match="no store at s3://no-such-bucket"):
            location.open_store("s3://no-such-bucket/x")
        with pytest.raises(NotFound, match="bucket is not there"):
            location.create_store("s3://no-such-bucket/x")

    def test_wrong_credentials_are_no_rights(self, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(NoRights, match="s3://"):
            location.create_store(s3_url)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(NoRights, match="no credentials") as caught:
            location.create_store(s3_url)
        assert "AWS_ACCESS_KEY_ID" in str(caught.value.hint)

    def test_a_place_with_something_else_becomes_no_store(self, s3: S3Server, s3_url: str) -> None:
        made = s3.client()
        made.put_object(Bucket=BUCKET, Key=f"{parse(s3_url).prefix}thesis", Body=b"x")
        made.close()
        with pytest.raises(UsageError, match="something else in it"):
            location.create_store(s3_url)

    def test_a_store_is_made_once(self, s3_url: str) -> None:
        first = location.create_store(s3_url)
        with pytest.raises(UsageError, match="is a store already"):
            location.create_store(s3_url)
        again = location.open_store(s3_url)
        assert again.config == first.config
        for repository in (first, again):
            repository.backend.close()

    def test_profiles_and_files_are_read(self, s3: S3Server, s3_url: str, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
        keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        for name in (*keys, "AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name)
        lines = [f"{name.lower()} = {value}" for name, value in keys.items()]
        (tmp_path / "credentials").write_text("\n".join(["[box]", *lines, ""]))
        (tmp_path / "config").write_text(f"[profile box]\nendpoint_url = {s3.endpoint}\nregion = eu-west-1\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        made = location.create_store(f"{s3_url}?profile=box")
        assert made.url == f"{s3_url}?profile=box"
        made.backend.close()
        with pytest.raises(UsageError, match="nobody"):
            location.open_store(f"{s3_url}?profile=nobody")

    def test_a_server_that_is_not_there_is_no_right_answer(self, s3_url: str) -> None:
        address = parse(f"{s3_url}?endpoint=http://127.0.0.1:9")
        backend = S3Backend(client(address), address)
        for call in (
            lambda: backend.size("config"),
            lambda: backend.read(NAME),
            lambda: backend.write(NAME, [b"x"]),
            lambda: backend.write(NAME, [bytes(20 * MIB)]),
            lambda: backend.delete([NAME]),
            lambda: backend.delete([NAME, "config"]),
            lambda: [*backend.list("packs")],
            backend.sweep,
        ):
            with pytest.raises(Passing, match="of the store s3://"):
                call()
        backend.close()


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///x",
        "s3://B",
        "s3://a_b/x",
        "s3://bucket/../x",
        "s3://bucket/a b",
        "s3://bucket/x#y",
        "s3://bucket/x?colour=red",
        "s3://bucket/x?endpoint=",
        "s3://bucket/x?endpoint=ftp://x",
        "s3://bucket/x?endpoint=http://me:secret@host",
        "s3://bucket/x?region=a&region=b",
    ],
)
def test_what_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_url(url, create=False)


def test_without_its_library_a_bucket_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torpor.store.s3", None)
    with pytest.raises(MissingPart, match="botocore") as caught:
        location.open_store("s3://bucket/x")
    assert "torpor[s3]" in str(caught.value.hint)


def test_the_parts_of_an_address() -> None:
    assert parse("s3://bucket").prefix == ""
    found = parse("s3://my.bucket//a/b/?endpoint=https://h:9000&region=r&profile=p")
    assert found[1:] == ("my.bucket", "a/b/", "https://h:9000", "r", "p")


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        (None, "bkt.s3.amazonaws.com"),
        ("http://box.example:9000", "box.example:9000"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_where_the_bucket_is_named(endpoint: str | None, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon wants it in the host's name; other servers know it in the path."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    made = client(parse("s3://bkt/x?region=us-east-1" + (f"&endpoint={endpoint}" if endpoint else "")))
    signed = made.generate_presigned_url("get_object", Params={"Bucket": "bkt", "Key": "x/config"})
    assert signed.partition("://")[2].startswith(f"{host}/" + ("bkt/" if "bkt" not in host else "") + "x/config")
    made.close()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("SlowDown", 503, Passing),
        ("InternalError", 200, Passing),
        ("500", 500, Passing),
        ("RequestTimeout", 400, Passing),
        ("AccessDenied", 403, NoRights),
        ("403", 403, NoRights),
        ("ExpiredToken", 400, NoRights),
        ("NoSuchKey", 404, NoObject),
        ("404", 404, NoObject),
        ("MethodNotAllowed", 405, StepFailed),
    ],
)
def test_answers_are_told_by_kind(code: str, status: int, kind: type) -> None:
    error = refused(code, status, "why.", "s3://bucket/x", NAME)
    assert type(error) is kind
    assert NAME in error.message and "s3://bucket/x" in error.message
