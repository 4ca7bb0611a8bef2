"""Stores of every version stay readable, and broken ones stay named: the samples of tests/golden."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from tests.conftest import REPOSITORY
from tests.golden.make_encrypted_store import BROKEN as BROKEN_ENCRYPTED
from tests.golden.make_encrypted_store import KEY
from tests.golden.make_stores import BROKEN
from tests.store.images import contents
from torpor.errors import ImageDamaged, ImageMismatch, TorporError
from torpor.image import read_manifest, verify
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.repository import Repository, open_repository
from torpor.store.verify import repair_index, verify_store

GOLDEN = REPOSITORY / "tests" / "golden"
FACTS = json.loads((GOLDEN / "store-1.json").read_text())


def sample(name: str, tmp_path: Path) -> Repository:
    """A copy, since locks are written."""
    shutil.copytree(GOLDEN / name, tmp_path / name)
    (tmp_path / name / "locks").mkdir()
    (tmp_path / name / "index").mkdir(exist_ok=True)
    return open_repository(LocalBackend(tmp_path / name), keys=lambda: [KEY])


def whole_images(repository: Repository, tmp_path: Path) -> list[str]:
    """The images that come back, each the same as when the sample was made."""
    found = []
    for image in repository.readable_images()[0]:
        try:
            back = get(repository, image, tmp_path / "back")
        except TorporError:
            continue
        hashes = {
            path: None if data is None else blake3(data).hexdigest() for path, (data, _) in contents(back).items()
        }
        wanted = dict(FACTS[image.head.name])
        if not repository.read(image).document.hashed:  # then its manifest is one of today's
            hashes.pop("manifest.json"), wanted.pop("manifest.json")
        assert hashes == wanted
        verify(back, read_manifest(back))
        shutil.rmtree(back)
        found.append(image.head.name)
    return sorted(found)


def test_version_1_is_read(tmp_path: Path) -> None:
    repository = sample("store-1", tmp_path)
    assert repository.config.format == 1
    assert verify_store(repository).problems == []
    assert whole_images(repository, tmp_path) == ["sample-1", "sample-2"]
    assert repository.find("first").head.name == "sample-1"


def test_version_2_is_read(tmp_path: Path) -> None:
    repository = sample("store-2", tmp_path)
    assert repository.config.format == 1
    assert verify_store(repository).problems == []
    assert [repository.read(image).document.hashed for image in repository.images()] == [False, False]
    assert whole_images(repository, tmp_path) == ["sample-1", "sample-2"]


NAMED: dict[str, tuple[str, list[str]]] = {
    "chunk": ("packs/", []),
    "directory": ("packs/", ["sample-1", "sample-2"]),
    "short-pack": ("packs/", []),
    "lost-pack": ("packs/", []),
    "lost-index": ("index", []),
    "tag": ("tags/first", ["sample-1", "sample-2"]),
}
"""What the first problem is about, and which images come back all the same."""


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_what_is_broken_is_named_and_never_used(kind: str, tmp_path: Path) -> None:
    repository = sample(f"store-1-{kind}", tmp_path)
    findings = verify_store(repository)
    where, whole = NAMED[kind]
    assert where in findings.problems[0]["message"]
    assert whole_images(repository, tmp_path) == whole
    if "pack" in where:
        assert sorted({*findings.damaged, *whole}) == ["sample-1", "sample-2"]


@pytest.mark.parametrize("kind", ["index", "image", "image-head"])
def test_one_broken_file_names_itself_and_spares_the_rest(kind: str, tmp_path: Path) -> None:
    repository = sample(f"store-1-{kind}", tmp_path)
    findings = verify_store(repository)
    assert f"{kind.partition('-')[0].removesuffix('s')}" in findings.problems[0]["message"]
    if kind == "index":
        with pytest.raises(ImageDamaged, match="index/"):
            repository.load_index()
    else:
        assert len(whole_images(repository, tmp_path)) == 1
        assert len(findings.damaged) == 1


@pytest.mark.parametrize("kind", ["index", "lost-index"])
def test_a_new_index_brings_all_back(kind: str, tmp_path: Path) -> None:
    repository = sample(f"store-1-{kind}", tmp_path)
    assert repair_index(repository).damaged == []
    assert whole_images(repository, tmp_path) == ["sample-1", "sample-2"]


def test_a_broken_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageDamaged, match="config"):
        sample("store-1-config", tmp_path)


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ImageMismatch, match="format 2"):
        sample("store-1-newer", tmp_path)


def test_an_encrypted_store_is_read(tmp_path: Path) -> None:
    repository = sample("store-encrypted", tmp_path)
    assert repository.config.format == 2
    assert verify_store(repository).problems == []
    assert whole_images(repository, tmp_path) == ["sample-1", "sample-2"]
    assert repository.find("first").head.name == "sample-1"


@pytest.mark.parametrize(
    ("kind", "where", "whole"),
    [
        ("frame", "packs/", []),
        ("cut", "packs/", []),
        ("swapped", "images/", []),
        ("tag", "tags/first", ["sample-1", "sample-2"]),
    ],
)
def test_what_is_broken_in_an_encrypted_store_is_named(kind: str, where: str, whole: list[str], tmp_path: Path) -> None:
    repository = sample(f"store-encrypted-{kind}", tmp_path)
    findings = verify_store(repository)
    assert where in findings.problems[0]["message"]
    assert whole_images(repository, tmp_path) == whole


def test_every_sample_is_looked_at() -> None:
    samples = {path.name.removeprefix("store-1-") for path in GOLDEN.glob("store-1-*")}
    encrypted = {path.name.removeprefix("store-encrypted-") for path in GOLDEN.glob("store-encrypted-*")}
    assert encrypted == set(BROKEN_ENCRYPTED) == {"frame", "cut", "swapped", "tag"}
    assert samples == set(BROKEN) == {*NAMED, "index", "image", "image-head", "config", "newer"}
