"""Damage of every kind is found and named, and an index can be made again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.conftest import CHUNK
from tests.store.images import contents, make_image, noise
from torpor.errors import ImageDamaged, TorporError
from torpor.store import verify as verify_module
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, open_repository
from torpor.store.verify import repair_index, verify_image, verify_store


@pytest.fixture
def images(repository: Repository, tmp_path: Path) -> list[Path]:
    """Two images with chunks in common, of all codecs, and a tag."""
    text = b"".join(b"line %d\n" % number for number in range(30000))
    made = [
        make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 3 * CHUNK) + text, 2 << 40: bytes(CHUNK)}),
        make_image(tmp_path / "a-2", blocks={1 << 40: noise(2, 2 * CHUNK) + text}),
    ]
    for image in made:
        put(repository, image)
    repository.tag(repository.find("a-1"), "first")
    return made


def objects(repository: Repository) -> list[Path]:
    backend = repository.backend
    assert isinstance(backend, LocalBackend)
    return sorted(path for path in backend.root.rglob("*") if path.is_file())


def test_a_whole_store_has_no_problems(repository: Repository, images: list[Path]) -> None:
    findings = verify_store(repository)
    assert (findings.problems, findings.damaged, findings.images) == ([], [], len(images))
    assert findings.chunks == len(repository.load_index())
    assert verify_image(repository, repository.find("a-1")) > 3


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def every_problem(repository: Repository) -> str:
    """What is said to be wrong, all in one; empty when nothing is."""
    try:
        findings = verify_store(open_repository(repository.backend))
    except TorporError as error:
        return error.message
    return "\n".join(problem["message"] for problem in findings.problems)


@pytest.mark.parametrize("kind", ["config", "packs", "index", "images", "tags"])
def test_a_flipped_bit_is_found_and_named(repository: Repository, images: list[Path], kind: str) -> None:
    del images
    chosen = random.Random(kind)
    files = [path for path in objects(repository) if kind in (path.name, path.parent.name)]
    assert files
    for path in files:
        original = path.read_bytes()
        # Beginning and end have lengths, marks and seals; between them are bytes of which some are tried.
        places = {*range(24), *range(len(original) - 48, len(original)), *chosen.choices(range(len(original)), k=25)}
        for at in sorted(place for place in places if 0 <= place < len(original)):
            flip(path, at, chosen.randrange(8))
            said = every_problem(repository)
            assert path.name in said, f"a flip in byte {at} of {path} was not found: {said!r}"
            path.write_bytes(original)
    assert every_problem(repository) == ""


@pytest.mark.parametrize("kind", ["packs", "index", "images", "config"])
def test_what_is_cut_short_or_missing_is_found_and_named(repository: Repository, images: list[Path], kind: str) -> None:
    del images
    for path in [path for path in objects(repository) if kind in (path.name, path.parent.name)]:
        original = path.read_bytes()
        for length in (0, 7, len(original) // 2, len(original) - 1):
            path.write_bytes(original[:length])
            assert path.name in every_problem(repository)
        path.unlink()
        said = every_problem(repository)
        assert said if kind != "images" else said == "" or "tag" in said
        path.write_bytes(original)
    assert every_problem(repository) == ""


def test_a_damaged_chunk_is_never_used(repository: Repository, images: list[Path], tmp_path: Path) -> None:
    del images
    image = repository.find("a-1")
    table = repository.load_index()
    place = table.place(int(table.find(repository.read(image).used())[0]))
    pack = repository.backend.root / "packs" / place.pack  # type: ignore[attr-defined]
    flip(pack, place.offset + place.stored // 2, 3)
    with pytest.raises(ImageDamaged) as caught:
        get(repository, image, tmp_path / "back")
    assert caught.value.details["pack"] == place.pack
    assert caught.value.details["offset"] == place.offset
    assert len(caught.value.details["chunk"]) == 64
    assert not (tmp_path / "back").exists()
    assert not (tmp_path / "back.partial").exists()
    with pytest.raises(ImageDamaged, match=place.pack):
        verify_image(repository, image)
    findings = verify_store(repository)
    assert len(findings.problems) == 1
    assert "a-1" in findings.damaged
    with pytest.raises(ImageDamaged, match=place.pack):
        findings.raise_first()


def test_an_image_whose_chunks_are_whole_is_not_called_damaged(repository: Repository, images: list[Path]) -> None:
    del images
    own = repository.read(repository.find("a-1")).used()
    other = {one.tobytes() for one in repository.read(repository.find("a-2")).used()}
    table = repository.load_index()
    row = next(int(table.find(one.reshape(1, 4))[0]) for one in own if one.tobytes() not in other)
    place = table.place(row)
    flip(repository.backend.root / "packs" / place.pack, place.offset, 0)  # type: ignore[attr-defined]
    assert verify_store(repository).damaged == ["a-1"]


def test_a_lost_index_is_made_again(repository: Repository, images: list[Path], tmp_path: Path) -> None:
    repository.backend.delete([one.name for one in repository.backend.list("index")])
    with pytest.raises(ImageDamaged, match="not in the index"):
        get(repository, repository.find("a-1"), tmp_path / "no")
    repair_index(repository).raise_first()
    for image in images:
        back = get(repository, repository.find(image.name), tmp_path / f"back-{image.name}")
        assert contents(back) == contents(image)


def test_a_damaged_index_stops_a_prune_and_is_replaced(repository: Repository, images: list[Path]) -> None:
    del images
    path = next(path for path in objects(repository) if path.parent.name == "index")
    flip(path, 100, 1)
    with pytest.raises(ImageDamaged, match=path.name):
        prune(repository)
    repair_index(repository).raise_first()
    assert every_problem(repository) == ""
    assert not path.exists()


def test_what_was_damaged_is_stored_again(repository: Repository, images: list[Path], tmp_path: Path) -> None:
    table = repository.load_index()
    place = table.place(0)
    flip(repository.backend.root / "packs" / place.pack, place.offset, 0)  # type: ignore[attr-defined]
    findings = repair_index(repository)
    assert len(findings.problems) >= 1
    for image in images:
        put(repository, image, name=f"{image.name}-again")
    for image in images:
        back = get(repository, repository.find(image.name), tmp_path / f"back-{image.name}")
        assert contents(back) == contents(image)


def test_a_lost_pack_is_not_relied_on(repository: Repository, images: list[Path], tmp_path: Path) -> None:
    for path in objects(repository):
        if path.parent.name == "packs":
            path.unlink()
    again = put(repository, images[0], name="again")
    assert again.new > 0
    assert contents(get(repository, repository.find("again"), tmp_path / "back")) == contents(images[0])


def test_what_others_do_meanwhile_is_no_damage(
    repository: Repository, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = make_image(tmp_path / "late-1", blocks={1 << 40: noise("late", CHUNK)})
    real = verify_module._indices

    def read_and_go_on(*arguments: object) -> object:
        parts = real(*arguments)  # type: ignore[arg-type]
        put(repository, late)
        repository.tag(repository.find("late-1"), "late")
        repository.remove(repository.find("a-1"))
        return parts

    monkeypatch.setattr(verify_module, "_indices", read_and_go_on)
    assert len(images) == 2
    findings = verify_store(repository)
    assert (findings.problems, findings.damaged) == ([], [])
    monkeypatch.undo()
    repository.backend.delete([f"images/{repository.find('late').id}"])
    assert "tags/late" in verify_store(repository).problems[0]["message"]


def test_a_chunk_in_a_lost_pack_is_taken_from_another(
    repository: Repository, images: list[Path], tmp_path: Path
) -> None:
    """Whichever of the packs comes first in the index."""
    before = {path.name for path in objects(repository) if path.parent.name == "packs"}
    for path in objects(repository):
        if path.name in before:
            path.unlink()
    for pack_size in (CHUNK, 3 * CHUNK):
        put(repository, images[0], name=f"again-{pack_size}", pack_size=pack_size)
        for path in objects(repository):
            if path.parent.name == "packs" and pack_size == CHUNK and path.name not in before:
                path.unlink()
    for name in ("a-1", f"again-{CHUNK}", f"again-{3 * CHUNK}"):
        back = get(repository, repository.find(name), tmp_path / f"back-{name}")
        assert contents(back) == contents(images[0])


def test_a_missing_pack_is_damage_with_a_name(repository: Repository, images: list[Path], tmp_path: Path) -> None:
    assert len(images) == 2
    lost = [path for path in objects(repository) if path.parent.name == "packs"]
    for path in lost:
        path.unlink()
    with pytest.raises(ImageDamaged, match="its pack is missing") as caught:
        get(repository, repository.find("a-1"), tmp_path / "back")
    assert caught.value.details["pack"] in [path.name for path in lost]
