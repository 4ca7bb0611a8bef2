"""Images into a store and back: what comes back is what went in, and only what is new is moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.conftest import CHUNK
from tests.store.images import PAGE, contents, make_image, manifest_of, noise
from torpor.errors import ImageDamaged, NotFound, StepFailed, UsageError
from torpor.image import read_manifest, verify
from torpor.store import contents as image_objects
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.put import put
from torpor.store.repository import Repository, create, open_repository


def blocks(*seeds: object) -> dict[int, bytes]:
    return {0x600000000000 + n * (1 << 21): noise(seed, 5 * CHUNK + PAGE) for n, seed in enumerate(seeds)}


def test_an_image_comes_back_as_it_was(repository: Repository, tmp_path: Path) -> None:
    image = make_image(
        tmp_path / "a-1",
        blocks={**blocks(1, 2), 0x600001000000: bytes(7 * CHUNK), 0x600002000000: b"text " * 20000 + bytes(PAGE)},
        pages=[(0x10000, noise("p", 30 * PAGE)), (0x7F0000001000, noise("q", 5 * PAGE))],
    )
    result = put(repository, image)
    back = get(repository, repository.find("a-1"), tmp_path / "back")
    assert contents(back) == contents(image)
    verify(back, read_manifest(back))
    assert result.new == result.bytes - 7 * CHUNK


def test_an_empty_image_comes_back(repository: Repository, tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", log=b"")
    put(repository, image)
    assert contents(get(repository, repository.find("a-1"), tmp_path / "back")) == contents(image)


def test_an_image_in_memory_becomes_one_on_disk(repository: Repository, tmp_path: Path) -> None:
    given = blocks(1, 2)
    image = make_image(tmp_path / "a-1", blocks=given, pages=[(0x10000, noise("p", PAGE))], tier="dram")
    put(repository, image)
    back = get(repository, repository.find("a-1"), tmp_path / "back")
    manifest = read_manifest(back)
    verify(back, manifest)
    assert manifest.tier == "disk"
    assert all(entry.hash for entry in manifest.files)
    assert sum(entry.size for entry in manifest.segments()) == sum(map(len, given.values()))
    twin = make_image(tmp_path / "twin", blocks=given, pages=[(0x10000, noise("p", PAGE))])
    assert {path: data for path, (data, _) in contents(back).items() if path != "manifest.json"} == {
        path: data for path, (data, _) in contents(twin).items() if path != "manifest.json"
    }


def test_what_the_store_has_is_not_moved_again(repository: Repository, tmp_path: Path) -> None:
    put(repository, make_image(tmp_path / "a-1", blocks=blocks(1, 2, 3)))
    changed = blocks(1, 2, 3)
    address = next(iter(changed))
    changed[address] = noise("new", 10) + changed[address][10:]
    second = put(repository, make_image(tmp_path / "a-2", blocks=changed))
    # One chunk of the block, and the files that tell of it.
    assert second.new_chunks == 1
    assert second.new == CHUNK
    third = put(repository, make_image(tmp_path / "a-3", blocks=changed))
    assert (third.new, third.new_chunks) == (0, 0)


def test_blocks_that_come_before_do_not_shift_those_that_follow(repository: Repository, tmp_path: Path) -> None:
    put(repository, make_image(tmp_path / "a-1", blocks=blocks(1, 2, 3)))
    grown = {0x500000000000: noise("first", 3 * PAGE), **blocks(1, 2, 3)}
    second = put(repository, make_image(tmp_path / "a-2", blocks=grown))
    assert second.new == 3 * PAGE


def test_pages_that_come_change_what_is_around_them_only(repository: Repository, tmp_path: Path) -> None:
    before = [(0x100000, noise("p", 64 * PAGE)), (0x200000, noise("q", 64 * PAGE))]
    first = put(repository, make_image(tmp_path / "a-1", pages=before))
    put_again = put(repository, make_image(tmp_path / "a-2", pages=[(0xFF000, noise("r", PAGE)), *before]))
    assert put_again.new < first.new / 4
    # The same pages elsewhere are the same chunks.
    moved = put(repository, make_image(tmp_path / "b-1", pages=[(at + (1 << 40), data) for at, data in before]))
    assert moved.new == (tmp_path / "b-1" / "cpu" / "pagemap-300.img").stat().st_size


def test_jobs_of_one_model_share_its_chunks(repository: Repository, tmp_path: Path) -> None:
    weights = noise("weights", 40 * CHUNK)
    first = put(repository, make_image(tmp_path / "job-1", blocks={0x600000000000: weights}))
    for number in range(2, 9):
        own = {0x600000000000 + number * (1 << 30): weights, 0x700000000000: noise(number, PAGE)}
        result = put(repository, make_image(tmp_path / f"job-{number}", blocks=own, segment=(16 + number) * PAGE))
        assert result.new == PAGE
    stored = sum(one.size for one in repository.backend.list("packs"))
    assert stored < first.bytes * 1.05


@pytest.mark.parametrize("compression", ["auto", "small", "none"])
def test_compression_changes_no_byte(repository: Repository, tmp_path: Path, compression: str) -> None:
    import numpy as np

    floats = np.random.default_rng(1).normal(0, 0.02, 40 * CHUNK // 4).astype(np.float32)
    halves = (floats.view(np.uint32) >> 16).astype(np.uint16)
    given = {
        0x600000000000: floats.tobytes(),
        0x600001000000: halves.tobytes(),
        0x600002000000: b"a line of text\n" * 9000 + b"odd",
        0x600003000000: noise(1, 3 * CHUNK),
    }
    given = {address: data + bytes(-len(data) % PAGE) for address, data in given.items()}
    image = make_image(tmp_path / "a-1", blocks=given)
    result = put(repository, image, compression=compression)  # type: ignore[arg-type]
    assert contents(get(repository, repository.find("a-1"), tmp_path / "back")) == contents(image)
    codecs = set(repository.load_index().rows["codec"].tolist())
    if compression == "none":
        assert codecs == {0}
        assert result.stored > result.new
    if compression == "small":
        assert {0, 3, 4} <= codecs
        assert result.stored < 0.9 * result.new


def test_several_packs(repository: Repository, tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks=blocks(*range(12)))
    put(repository, image, pack_size=4 * CHUNK)
    assert len(list(repository.backend.list("packs"))) > 5
    assert contents(get(repository, repository.find("a-1"), tmp_path / "back")) == contents(image)


def test_a_damaged_image_is_not_put(repository: Repository, tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks=blocks(1))
    segment = image / "gpu" / "0000.seg"
    data = bytearray(segment.read_bytes())
    data[77] ^= 4
    segment.write_bytes(data)
    with pytest.raises(ImageDamaged, match=r"gpu/0000\.seg"):
        put(repository, image)
    assert repository.images() == []


def test_names_are_taken_once(repository: Repository, tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks=blocks(1))
    put(repository, image)
    with pytest.raises(UsageError, match="a-1"):
        put(repository, image)
    put(repository, image, unique=False)
    with pytest.raises(UsageError, match="several"):
        repository.find("a-1")
    for one in repository.images():
        assert repository.find(one.id[:12]) == one


def test_tags_name_images_and_go_with_them(repository: Repository, tmp_path: Path) -> None:
    put(repository, make_image(tmp_path / "a-1"))
    put(repository, make_image(tmp_path / "a-2", log=b"other"))
    repository.tag(repository.find("a-1"), "best")
    assert repository.find("best").head.name == "a-1"
    repository.tag(repository.find("a-2"), "best")
    assert repository.find("best").head.name == "a-2"
    repository.remove(repository.find("best"))
    assert repository.tags() == {}
    with pytest.raises(NotFound, match="best"):
        repository.find("best")
    assert [one.head.name for one in repository.images()] == ["a-1"]


def test_a_taken_place_is_left_alone(repository: Repository, tmp_path: Path) -> None:
    put(repository, make_image(tmp_path / "a-1"))
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError, match="taken"):
        get(repository, repository.find("a-1"), tmp_path / "taken")


def test_a_put_whose_lock_was_broken_adds_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path / "a-1", blocks=blocks(1))
    real = image_objects.encode

    def encode_and_lose(found: image_objects.Contents) -> tuple[str, list[bytes]]:
        repository.backend.delete([one.name for one in repository.backend.list("locks")])
        return real(found)

    monkeypatch.setattr(image_objects, "encode", encode_and_lose)
    with pytest.raises(StepFailed, match="lock"):
        put(repository, image)
    assert repository.images() == []


def test_a_store_is_made_once_and_opened_by_its_config(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path / "store")
    with pytest.raises(NotFound, match="no store"):
        open_repository(backend)
    backend.prepare()
    made = create(backend, chunk=CHUNK)
    assert open_repository(backend).config == made.config
    with pytest.raises(UsageError, match="already"):
        create(backend)


def test_the_manifest_of_a_disk_image_is_kept_to_the_byte(repository: Repository, tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks=blocks(1))
    put(repository, image, name="other")
    assert repository.read(repository.find("other")).document.manifest == manifest_of(image)
