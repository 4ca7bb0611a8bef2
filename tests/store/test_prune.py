"""A prune gives back what no image uses, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.conftest import CHUNK
from tests.store.images import contents, make_image, noise
from torpor.errors import ImageDamaged, StepFailed
from torpor.store import index
from torpor.store import prune as prune_module
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.pack import Chunk, PackBuilder
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, create
from torpor.store.verify import verify_store


def size(repository: Repository) -> int:
    return sum(one.size for kind in ("packs", "index") for one in repository.backend.list(kind))


def image(tmp_path: Path, name: str, *seeds: object) -> Path:
    return make_image(tmp_path / name, blocks={(n + 1) << 40: noise(seed, CHUNK) for n, seed in enumerate(seeds)})


def test_a_store_without_images_becomes_empty(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2, 3))
    repository.remove(repository.find("a-1"))
    before = size(repository)
    result = prune(repository)
    assert result.freed == before
    assert size(repository) == 0


def test_what_images_use_stays(repository: Repository, tmp_path: Path) -> None:
    kept = image(tmp_path, "kept-1", 1, 2)
    put(repository, image(tmp_path, "a-1", 1, *range(10, 30)))
    put(repository, kept)
    repository.remove(repository.find("a-1"))
    planned = prune(repository, dry_run=True)
    assert size(repository) > 20 * CHUNK
    result = prune(repository)
    assert result.rewritten_packs == planned.rewritten_packs == 1
    assert result.freed > 19 * CHUNK
    assert size(repository) < 4 * CHUNK
    assert verify_store(repository).problems == []
    assert contents(get(repository, repository.find("kept-1"), tmp_path / "back")) == contents(kept)


def test_nothing_is_done_where_nothing_is_to_do(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2, 3))
    names = sorted(one.name for kind in ("packs", "index") for one in repository.backend.list(kind))
    assert prune(repository).freed == 0
    assert sorted(one.name for kind in ("packs", "index") for one in repository.backend.list(kind)) == names


def test_many_small_packs_become_one(repository: Repository, tmp_path: Path) -> None:
    for number in range(10):
        put(repository, image(tmp_path, f"a-{number}", number))
    assert len(list(repository.backend.list("packs"))) == 10
    prune(repository)
    assert len(list(repository.backend.list("packs"))) == 1
    assert len(list(repository.backend.list("index"))) <= 2
    assert verify_store(repository).problems == []
    for number in range(10):
        back = get(repository, repository.find(f"a-{number}"), tmp_path / f"back-{number}")
        assert contents(back) == contents(tmp_path / f"a-{number}")


def test_leftovers_of_a_killed_put_are_removed(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2))
    put(repository, image(tmp_path, "a-2", 3, 4))
    root = repository.backend.root  # type: ignore[attr-defined]
    identity = repository.find("a-2").id
    (root / "images" / identity).unlink()
    (root / "packs" / ".new-1234").write_bytes(b"half a pack")
    result = prune(repository)
    assert result.leftovers == len(b"half a pack")
    assert result.removed_packs == 1
    assert verify_store(repository).problems == []
    assert list((root / "packs").glob(".new-*")) == []


def test_packs_that_no_index_names_are_removed(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2))
    before = {one.name for one in repository.backend.list("index")}
    put(repository, image(tmp_path, "a-2", 3, 4))
    repository.remove(repository.find("a-2"))
    repository.backend.delete([one.name for one in repository.backend.list("index") if one.name not in before])
    assert verify_store(repository).unindexed == 1
    assert prune(repository).removed_packs == 1
    assert verify_store(repository).unindexed == 0


def test_a_damaged_image_stops_a_prune(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2))
    path = next((repository.backend.root / "images").iterdir())  # type: ignore[attr-defined]
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    before = size(repository)
    with pytest.raises(ImageDamaged, match=path.name):
        prune(repository)
    assert size(repository) == before


def test_a_pack_with_a_damaged_chunk_is_not_thrown_away(repository: Repository, tmp_path: Path) -> None:
    put(repository, image(tmp_path, "a-1", 1, *range(10, 30)))
    put(repository, image(tmp_path, "kept-1", 1))
    repository.remove(repository.find("a-1"))
    table = repository.load_index()
    rows = table.find(repository.read(repository.find("kept-1")).used())
    place = max((table.place(int(row)) for row in rows), key=lambda one: one.stored)
    path = repository.backend.root / "packs" / place.pack  # type: ignore[attr-defined]
    data = bytearray(path.read_bytes())
    data[place.offset] ^= 1
    path.write_bytes(data)
    prune(repository)
    assert path.exists()
    with pytest.raises(ImageDamaged, match=place.pack):
        get(repository, repository.find("kept-1"), tmp_path / "back")


@pytest.mark.parametrize("harm", ["short", "lost"])
def test_packs_that_an_image_cannot_do_without_stay_on_record(
    repository: Repository, tmp_path: Path, harm: str
) -> None:
    """What is left of a pack that was cut short may yet be put back from a copy."""
    source = image(tmp_path, "a-1", 1, 2)
    put(repository, source)
    put(repository, image(tmp_path, "a-2", 3, 4))
    repository.remove(repository.find("a-2"))
    root = repository.backend.root / "packs"  # type: ignore[attr-defined]
    table = repository.load_index()
    rows = table.find(repository.read(repository.find("a-1")).used())
    path = root / max((table.place(int(row)) for row in rows), key=lambda one: one.stored).pack
    whole = path.read_bytes()
    path.unlink()
    if harm == "short":
        path.write_bytes(whole[:-70])
    assert prune(repository).removed_packs == 1
    path.write_bytes(whole)
    assert verify_store(repository).problems == []
    assert contents(get(repository, repository.find("a-1"), tmp_path / "back")) == contents(source)


def test_a_prune_whose_lock_was_broken_removes_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repository, image(tmp_path, "a-1", 1, 2))
    repository.remove(repository.find("a-1"))
    before = size(repository)
    real = prune_module._plan

    def plan_and_lose(*arguments: object) -> object:
        repository.backend.delete([one.name for one in repository.backend.list("locks")])
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(prune_module, "_plan", plan_and_lose)
    with pytest.raises(StepFailed, match="lock"):
        prune(repository)
    assert size(repository) == before


def test_a_pack_that_is_written_anew_under_the_same_name_stays(tmp_path: Path) -> None:
    """As after a prune that was cut short: what it wrote is there beside what it was to replace."""
    rewritten = 0
    for seed in range(64):  # in about every second store prune keeps the chunk of the pack that it rewrites
        backend = LocalBackend(tmp_path / f"store-{seed}")
        backend.prepare()
        repository = create(backend, chunk=CHUNK)
        kept = image(tmp_path, f"kept-{seed}", (seed, 1), (seed, 50))
        put(repository, image(tmp_path, f"a-{seed}", *((seed, number) for number in range(20))))
        put(repository, kept)
        repository.remove(repository.find(f"a-{seed}"))
        table = repository.load_index()
        rows = table.find(repository.read(repository.find(kept.name)).used())
        # A chunk that only the mostly unused pack has, in a pack of its own.
        large = max(table.packs, key=backend_size(repository))
        used = [row for row in rows.tolist() if table.place(row).pack == large]
        builder = PackBuilder()
        for row in sorted(used, key=lambda row: table.place(row).offset):
            place = table.place(row)
            data = backend.read(f"packs/{large}", place.offset, place.stored)
            builder.add(Chunk(table.rows["id"][row].tobytes(), place.length, place.codec, data))
        new = builder.finish()
        backend.write(f"packs/{new.name}", new.parts)
        others = [index.read(backend, one.name) for one in backend.list("index")]
        (second,) = [part for part in others if large not in part]
        index.write(backend, {**second, new.name: (new.size, new.entries)})
        rewritten += prune(repository).rewritten_packs
        assert verify_store(repository).problems == []
        assert contents(get(repository, repository.find(kept.name), tmp_path / f"back-{seed}")) == contents(kept)
        if rewritten > 0 and seed >= 7:
            break
    assert rewritten > 0


def backend_size(repository: Repository) -> Callable[[str], int]:
    return lambda name: repository.backend.size(f"packs/{name}")
