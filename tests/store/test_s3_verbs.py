"""A store in a bucket by its verbs, as a user types them; also encrypted, and with a limit."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cli, eventually
from tests.store.bad_network import BadNetwork, Fault
from tests.store.images import contents, make_image, noise
from tests.store.s3_server import BUCKET, LentClient, S3Server
from tests.store.test_cycle import COUNTER, counts, passes
from torpor import paths
from torpor.image_handle import find_image
from torpor.store import location
from torpor.store.s3 import PART, S3Backend
from torpor.store.s3_address import parse
from torpor.store_handle import Store

MIB = 1 << 20


@pytest.fixture
def image(home: Path) -> Path:
    """An image among the user's, large enough for a pack in parts."""
    (home / "images").mkdir()
    return make_image(home / "images" / "job-1", blocks={1 << 40: noise(1, 12 * MIB), 2 << 40: noise(2, MIB)})


@pytest.fixture
def bucket(s3: S3Server, s3_client: LentClient, s3_url: str) -> Iterator[S3Backend]:
    """What lies in the place, looked at from aside; and the environment of a user of the server."""
    del s3
    made = S3Backend(s3_client, parse(s3_url))
    yield made
    made.close()


@pytest.mark.full
def test_into_a_bucket_and_back(
    torpor: Cli, bucket: S3Backend, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torpor("init", bucket.url)
    torpor("init", bucket.url, check=2)
    assert torpor.json("copy", "job-1", bucket.url, "--limit", "1GB/s")["new"] > 13 * MIB
    monkeypatch.setenv("TORPOR_STORE", bucket.url)
    assert torpor.json("copy", "job-1", "@", "--name", "again")["new"] == 0
    assert [one["name"] for one in torpor.json("images", "--store", bucket.url)] == ["job-1", "again"]
    torpor("verify")
    torpor("verify", f"job-1@{bucket.url}")
    assert torpor.json("diff", "job-1@", "job-1")["chunks"]["old_only"] == 0
    torpor("tag", "job-1@", "best")
    back = torpor.json("copy", "best@", str(tmp_path / "back"))
    assert contents(Path(back["path"])) == contents(image)
    torpor("export", "job-1@", str(tmp_path / "a.tar"))
    torpor("init", str(tmp_path / "folder"))
    assert torpor.json("copy", f"job-1@{bucket.url}", str(tmp_path / "folder"))["new"] > 13 * MIB
    assert torpor.json("copy", f"job-1@{tmp_path / 'folder'}", "@", "--name", "third")["new"] == 0
    for name in ("job-1", "again", "third"):
        torpor("rm", f"{name}@")
    assert torpor.json("prune")["freed"] > 13 * MIB
    assert [one for kind in ("packs", "index", "images", "tags", "locks") for one in bucket.list(kind)] == []
    torpor("copy", "job-1", "@", "--limit", "often", check=2)


@pytest.mark.criu
def test_a_job_goes_on_from_a_bucket(
    torpor: Cli, home: Path, bucket: S3Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encrypted, since whatever works so works without as well."""
    torpor("init", bucket.url, "--encrypt", "--key-file", str(home / "key"))
    torpor("images", "--store", bucket.url, check=8)
    monkeypatch.setenv("TORPOR_KEY_FILE", str(home / "key"))
    torpor("run", "-d", "--name", "count", "--", *COUNTER)
    passes(torpor, "count", 5)
    saved = torpor.json("checkpoint", "count", "--store", bucket.url, "--limit", "500MB/s")
    assert saved["new"] >= MIB
    # Straight, as into a folder: by chunks out of GPU memory, and by chunks into it.
    assert saved["sifted"]["moved"] >= 8 * MIB
    assert not [*(home / "images").glob("*"), *paths.dram_dir().glob("[!.]*"), *paths.dram_dir().glob(".staged/*")]
    last = counts(torpor, "count")[-1]
    woken = torpor.json("restore", f"{saved['image']}@{bucket.url}", "--limit", "500MB/s")
    assert (woken["job"], woken["store"]) == ("count", bucket.url)
    assert {"copy", "fetch", "wait for hashes"} <= woken["phases"].keys()
    passes(torpor, "count", last + 3)
    numbers = counts(torpor, "count")
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert not any(b"count" in bucket.read(one.name) for kind in ("images", "packs") for one in bucket.list(kind))


@pytest.mark.full
@pytest.mark.criu
def test_an_image_waits_in_memory_for_a_bucket_that_does_not_answer(
    torpor: Cli, bucket: S3Backend, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    torpor("init", bucket.url)
    torpor("run", "-d", "--name", "count", "--", *COUNTER)
    passes(torpor, "count", 5)
    network = BadNetwork(s3.endpoint, lambda line: "refuse" if b"/packs/" in line else "none")
    monkeypatch.setenv("AWS_ENDPOINT_URL", network.endpoint)
    try:
        said = torpor.json("checkpoint", "count", "--tier", "dram", "--store", bucket.url, "--durable", check=11)
    finally:
        network.stop()
    assert "whole in memory, as count-1" in said["error"]["message"]
    assert "the last of 9 tries" in torpor.json("images")[0]["state"]
    last = counts(torpor, "count")[-1]
    woken = torpor.json("restore", f"count-1@{bucket.url}")["job"]
    passes(torpor, woken, last + 3)
    # Another way to the same place, named by whoever asks.
    s3.set_environment(monkeypatch)
    torpor("flush")
    assert torpor.json("images") == []
    assert [one["name"] for one in torpor.json("images", "--store", bucket.url)] == ["count-1"]
    torpor("verify", "--store", bucket.url)


def unfinished(client: LentClient, bucket: S3Backend) -> int:
    """Bytes of the store's parts that are no object yet."""
    found = client.list_multipart_uploads(Bucket=BUCKET, Prefix=parse(bucket.url).prefix).get("Uploads", [])
    lists = [client.list_parts(Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"]) for one in found]
    return sum(part["Size"] for one in lists for part in one.get("Parts", []))


def test_a_copy_that_is_killed_amid_its_parts_leaves_nothing_but_them(
    torpor: Cli, bucket: S3Backend, image: Path, s3: S3Server, s3_client: LentClient
) -> None:
    location.create_store(bucket.url).backend.close()
    reached, dead = threading.Event(), threading.Event()

    def choose(line: bytes) -> Fault:
        if b"partNumber=2" in line:
            reached.set()
            dead.wait()
            return "lose request"
        return "none"

    network = BadNetwork(s3.endpoint, choose)
    try:
        victim = torpor.start("copy", "job-1", bucket.url, env={**os.environ, "AWS_ENDPOINT_URL": network.endpoint})
        assert reached.wait(PATIENCE)
        eventually(lambda: unfinished(s3_client, bucket) == PART)
        victim.kill()
        victim.communicate()
    finally:
        dead.set()
        network.stop()
    assert [one for kind in ("packs", "index", "images") for one in bucket.list(kind)] == []
    with Store(location.open_store(bucket.url)) as store:
        told = store.prune()
        assert (told.leftovers, told.freed) == (PART, PART)
        assert bucket.sweep() == 0
        assert store.put(find_image(image)).new > 13 * MIB
        assert store.verify().problems == []


@pytest.mark.full
def test_an_encrypted_folder_by_its_verbs(
    torpor: Cli, home: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = str(home / "store"), str(home / "key")
    torpor("init", store, "--key-file", key, check=2)
    torpor("init", store, "--encrypt", check=2)
    made = torpor("init", store, "--encrypt", "--key-file", key)
    assert f"TORPOR_KEY_FILE={key}" in made.stdout.decode()
    error = json.loads(torpor("copy", "job-1", store, "--json", check=8).stdout)["error"]
    assert "no key is named" in error["message"]
    monkeypatch.setenv("TORPOR_KEY_COMMAND", f"cat {key}")
    torpor("copy", "job-1", store)
    back = torpor.json("copy", f"job-1@{store}", str(home / "back"))
    assert contents(Path(back["path"])) == contents(image)
    monkeypatch.setenv("TORPOR_KEY_COMMAND", f"echo {'00' * 32}")
    error = json.loads(torpor("verify", "--store", store, "--json", check=8).stdout)["error"]
    assert "is not its key" in error["message"]
