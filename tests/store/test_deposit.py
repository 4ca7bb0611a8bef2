"""Images whose chunks come from elsewhere than a folder: nothing is committed that the store does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3

from tests.store.conftest import CHUNK
from tests.store.images import PAGE, contents, make_image, noise
from torpor.errors import ImageDamaged, ImageMismatch, StepFailed
from torpor.image import read_manifest, verify
from torpor.image.manifest import FileEntry, Manifest, encode
from torpor.image.reader import decode_manifest
from torpor.store import codec, index
from torpor.store import contents as image_objects
from torpor.store import deposit as deposits
from torpor.store.chunks import read_here
from torpor.store.deposit import Deposit, PutResult
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.pack import Chunk, PackBuilder
from torpor.store.pieces import Pieces
from torpor.store.plan import block_label
from torpor.store.put import put
from torpor.store.repository import Repository
from torpor.store.scan import Scan
from torpor.store.transfer import transfer
from torpor.store.verify import verify_store

BLOCKS = {
    0x600000000000: noise("a", 3 * CHUNK + PAGE),
    0x600001000000: noise("b", CHUNK) + bytes(2 * CHUNK) + noise("c", CHUNK),
    0x600002000000: noise("b", CHUNK),
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make_image(tmp_path / "a-1", blocks=BLOCKS, pages=[(0x10000, noise("p", 30 * PAGE))])


@pytest.fixture
def deposit(repository: Repository) -> Iterator[Deposit]:
    with repository.lock("shared", "checkpoint") as held, Deposit(repository, held) as opened:
        yield opened


def chunks(data: bytes) -> list[bytes]:
    return [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]


def bare(image: Path) -> tuple[Manifest, dict[str, list[bytes]]]:
    """The image's manifest without hashes, and the names of its blocks' chunks; its segments are removed."""
    manifest = read_manifest(image)
    manifest.files = [FileEntry(path=entry.path, size=entry.size) for entry in manifest.files]
    for entry in manifest.segments():
        (image / entry.path).unlink(missing_ok=True)
    names = {
        block_label(300, address): [blake3(one).digest() for one in chunks(data)] for address, data in BLOCKS.items()
    }
    return manifest, names


def bring(deposit: Deposit, names: dict[str, list[bytes]]) -> int:
    """What a device would: every chunk that is wanted, of those that are not zero; how many that were."""
    count = 0
    for (label, digests), data in zip(names.items(), BLOCKS.values(), strict=True):
        assert label in names
        found = [(digest, one) for digest, one in zip(digests, chunks(data), strict=True) if any(one)]
        wanted = [
            (digest, memoryview(one))
            for (digest, one), new in zip(found, deposit.claim([digest for digest, _ in found]), strict=True)
            if new
        ]
        deposit.bring(wanted)
        count += len(wanted)
    return count


def save(deposit: Deposit, image: Path, name: str = "a-1") -> PutResult:
    manifest, names = bare(image)
    bring(deposit, names)
    scan = Scan(image, manifest, CHUNK, names)
    assert scan.to_read() == sum(e.size for e in manifest.files if not e.path.startswith("gpu/"))
    scan.run(2, deposit.take, lambda _count: None)
    deposit.flush()
    return deposit.commit(deposit.seal(name, manifest, encode(manifest), scan, hashed=False))


def test_an_image_without_hashes_comes_back_with_them(
    repository: Repository, deposit: Deposit, image: Path, tmp_path: Path
) -> None:
    before = contents(image)
    result = save(deposit, image)
    # Four chunks of the first block, two of the second; zeros and what is there already take nothing.
    assert result.new == 3 * CHUNK + PAGE + 2 * CHUNK + sum(
        len(data or b"") for path, (data, _) in before.items() if not path.startswith(("gpu/", "manifest"))
    )
    assert verify_store(repository).problems == []
    back = get(repository, repository.find("a-1"), tmp_path / "back")
    after = contents(back)
    # The hashes that are written in are those that a checkpoint would have written.
    assert {path: data for path, (data, _) in after.items()} == {path: data for path, (data, _) in before.items()}
    verify(back, read_manifest(back))
    # In a folder it is an image like any other, whose chunks are all there.
    assert put(repository, back, name="again").new == 0


def test_an_older_reader_refuses_it_by_its_format(
    repository: Repository, deposit: Deposit, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(deposit, image)
    stored = repository.find("a-1")
    assert image_objects.read(repository.backend, stored.id).document.hashed is False
    monkeypatch.setattr(image_objects, "FORMAT", 1)
    with pytest.raises(ImageMismatch, match="format 2"):
        repository.read(stored)


def test_only_a_store_may_have_manifests_without_hashes(image: Path) -> None:
    manifest, _names = bare(image)
    data = encode(manifest)
    assert decode_manifest(image, data, hashed=False).files == manifest.files
    with pytest.raises(ImageDamaged, match="no hash"):
        decode_manifest(image, data)


def test_it_keeps_its_format_in_another_store(
    repository: Repository, deposit: Deposit, image: Path, tmp_path: Path
) -> None:
    from torpor.store.repository import create

    before = contents(image)
    save(deposit, image)
    backend = LocalBackend(tmp_path / "other")
    backend.prepare()
    other = create(backend, chunk=CHUNK)
    transfer(repository, repository.find("a-1"), other)
    back = get(other, other.find("a-1"), tmp_path / "back")
    assert {path: data for path, (data, _) in contents(back).items()} == {p: data for p, (data, _) in before.items()}


def test_a_chunk_that_is_not_what_its_name_says_is_refused(deposit: Deposit) -> None:
    good, other = noise(1, CHUNK), noise(2, CHUNK)
    digest = blake3(good).digest()
    assert deposit.claim([digest]) == [True]
    with pytest.raises(StepFailed, match="other contents"):
        deposit.bring([(digest, memoryview(other))])


def test_nothing_is_committed_while_a_chunk_is_owed(repository: Repository, deposit: Deposit, image: Path) -> None:
    manifest, names = bare(image)
    bring(deposit, names)
    late = blake3(noise("late", CHUNK)).digest()
    assert deposit.claim([late, late]) == [True, False]
    Scan(image, manifest, CHUNK, names).run(2, deposit.take, lambda _count: None)
    with pytest.raises(StepFailed, match="never came"):
        deposit.flush()
    assert repository.images() == []


def test_who_withdraws_leaves_its_chunks_to_others(repository: Repository, deposit: Deposit, image: Path) -> None:
    _manifest, names = bare(image)
    every = [digest for digests in names.values() for digest in digests]
    wanted = deposit.claim(every)
    assert deposit.claim(every) == [False] * len(every)
    deposit.withdraw()
    assert deposit.claim(every) == wanted
    deposit.withdraw()
    save(deposit, image)
    assert verify_store(repository).problems == []


@pytest.mark.parametrize("readers", [1, 4])
def test_segments_are_made_of_chunks_in_memory_that_was_used(
    repository: Repository, deposit: Deposit, image: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    monkeypatch.setattr(LocalBackend, "readers", readers)
    segments = [(image / entry.path).read_bytes() for entry in read_manifest(image).segments()]
    assert len(segments) > 1
    save(deposit, image)
    with Pieces(repository, repository.read(repository.find("a-1"))) as pieces:
        numbers = {file.path: number for number, file in enumerate(pieces.found.document.files)}
        for index, wanted in enumerate(segments):
            memory = bytearray(b"\xa5" * len(wanted))
            pieces.read_into(numbers[f"gpu/{index:04d}.seg"], memoryview(memory))
            assert memory == wanted


def test_an_image_whose_batches_become_packs_as_they_are_comes_back(
    repository: Repository, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalBackend, "gathers", True)
    monkeypatch.setattr(deposits, "_TO_GATHER", PAGE)
    put(repository, image, pack_size=CHUNK)
    assert len(list(repository.backend.list("packs"))) > 5
    assert contents(get(repository, repository.find("a-1"), tmp_path / "back")) == contents(image)
    assert verify_store(repository).problems == []


def test_what_is_in_a_segment_more_than_once_is_in_all_of_its_places(repository: Repository, tmp_path: Path) -> None:
    alike = b"weights " * (CHUNK // 8)
    blocks = {1 << 40: alike + noise(1, CHUNK) + alike + noise(1, CHUNK) + bytes(CHUNK) + noise(2, CHUNK + PAGE)}
    image = make_image(tmp_path / "a-1", blocks=blocks, segment=7 * CHUNK)
    put(repository, image, compression="small")
    table = repository.load_index()
    assert {place.codec for place in table.places(np.arange(len(table)))} > {codec.RAW}
    with Pieces(repository, repository.read(repository.find("a-1"))) as pieces:
        numbers = {file.path: number for number, file in enumerate(pieces.found.document.files)}
        memory = bytearray(b"\xa5" * len(blocks[1 << 40]))
        pieces.read_into(numbers["gpu/0000.seg"], memoryview(memory))
    assert memory == blocks[1 << 40]


@pytest.mark.parametrize("readers", [1, 4])
def test_a_segment_with_a_damaged_chunk_is_refused(
    repository: Repository, deposit: Deposit, image: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    monkeypatch.setattr(LocalBackend, "readers", readers)
    save(deposit, image)
    pieces = Pieces(repository, repository.read(repository.find("a-1")))
    for pack in Path(repository.url, "packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[len(data) // 3] ^= 1
        pack.write_bytes(data)
    sizes = {file.path: (number, file.size) for number, file in enumerate(pieces.found.document.files)}
    with pieces, pytest.raises(ImageDamaged, match="chunk"):
        for path, (number, size) in sizes.items():
            if path.startswith("gpu/"):
                pieces.read_into(number, memoryview(bytearray(size)))


@pytest.mark.parametrize("stored", [CHUNK - 7, CHUNK + 7])
def test_only_the_chunk_is_damaged_that_an_index_is_wrong_about(repository: Repository, stored: int) -> None:
    builder = PackBuilder()
    given = [noise(number, CHUNK) for number in range(3)]
    for one in given:
        builder.add(Chunk(blake3(one).digest(), CHUNK, codec.RAW, one))
    made = builder.finish()
    repository.backend.write(f"packs/{made.name}", made.parts)
    made.entries["stored"][1] = stored
    table = index.build([{made.name: (made.size, made.entries)}])
    rooms = [memoryview(bytearray(CHUNK)) for _ in given]
    rows = table.find(index.ids_of(blake3(one).digest() for one in given))
    by_row = dict(zip(rows.tolist(), rooms, strict=True))
    with pytest.raises(ImageDamaged, match=blake3(given[1]).hexdigest()[:16]):
        read_here(repository.backend, table, rows, lambda _row, _data: None, by_row)
    read_here(repository.backend, table, rows[[0, 2]], lambda _row, _data: None, by_row)
    assert [rooms[0], rooms[2]] == [given[0], given[2]]


def test_names_for_another_number_of_chunks_are_refused(image: Path) -> None:
    manifest, names = bare(image)
    label, digests = next(iter(names.items()))
    with pytest.raises(ValueError, match=label):
        Scan(image, manifest, CHUNK, {label: digests[1:]})
