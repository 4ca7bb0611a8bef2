"""How images are cut: every byte once, and the same way again whatever comes before."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.store.images import PAGE, make_image, noise
from torpor.errors import TorporError
from torpor.image import read_manifest
from torpor.store import plan
from torpor.store.index import Index, ids_of
from torpor.store.location import split
from torpor.store.plan import Stream

CHUNK = 64 << 10


def streams(image: Path, chunk: int = CHUNK) -> list[Stream]:
    manifest = read_manifest(image)
    return plan.streams(image, manifest, plan.used_sizes(manifest), chunk)


def check_every_byte_once(image: Path, found: list[Stream]) -> None:
    sizes = list(plan.used_sizes(read_manifest(image)).values())
    covered = sorted(extent for stream in found for extent in stream.extents)
    ends = dict.fromkeys(range(len(sizes)), 0)
    for file, offset, length in covered:
        assert offset == ends[file]
        ends[file] += length
    assert list(ends.values()) == sizes
    for stream in found:
        assert stream.size == sum(length for _, _, length in stream.extents)
        assert all(stream.cuts)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(1, 40), max_size=6),
    runs=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=6),
    segment=st.integers(1, 60),
    tier=st.sampled_from(["disk", "dram"]),
)
def test_every_byte_is_in_one_stream(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    runs: list[tuple[int, int]],
    segment: int,
    tier: str,
) -> None:
    folder = tmp_path_factory.mktemp("image")
    pages, address = [], 0
    for gap, count in runs:
        address += gap * PAGE
        pages.append((address, noise(address, count * PAGE)))
        address += count * PAGE
    image = make_image(
        folder / "a-1",
        blocks={(at + 1) << 40: noise(at, size * PAGE) for at, size in enumerate(sizes)},
        pages=pages,
        segment=segment * PAGE,
        tier=tier,
    )
    found = streams(image)
    check_every_byte_once(image, found)
    blocks = [stream for stream in found if stream.kind == "block"]
    assert [stream.size for stream in blocks] == [size * PAGE for size in sizes]
    for stream in blocks:
        assert set(stream.cuts[:-1]) <= {CHUNK}


def page_chunks(image: Path) -> list[bytes]:
    """The chunks of an image's page file."""
    (pages,) = [one for one in streams(image) if one.kind == "pages"]
    data = (image / "cpu" / "pages-1.img").read_bytes()
    ends = list(accumulate(pages.cuts))
    return [data[end - length : end] for end, length in zip(ends, pages.cuts, strict=True)]


def test_pages_are_cut_by_their_contents_wherever_they_lie(tmp_path: Path) -> None:
    pages = [noise(number, PAGE) for number in range(1000)]
    whole = page_chunks(make_image(tmp_path / "a-1", pages=[(1 << 30, b"".join(pages))]))
    assert all(len(chunk) % PAGE == 0 and 2 * PAGE < len(chunk) <= CHUNK for chunk in whole[:-1])
    # One in as many pages as half a chunk has may end a chunk: between an eighth of one and a whole, most do.
    assert CHUNK // 3 < len(b"".join(whole)) / len(whole) < CHUNK
    assert sum(len(chunk) < CHUNK for chunk in whole) > len(whole) / 2

    # In another process all lie elsewhere, some are gone and others have come: only what is around those is new.
    other = [*(noise(f"new {number}", PAGE) for number in range(7)), *pages[:300], *pages[303:700], noise("x", PAGE)]
    runs = [(5 << 30, b"".join(other)), (7 << 30, b"".join(pages[700:]))]
    again = page_chunks(make_image(tmp_path / "b-1", pages=runs))
    new = sum(len(chunk) for chunk in again if chunk not in whole)
    assert 11 * PAGE <= new < 3 * 4 * CHUNK


def test_pages_that_are_all_alike_make_few_chunks(tmp_path: Path) -> None:
    for name, page in (("zeros", bytes(PAGE)), ("ones", b"\1" * PAGE)):
        chunks = page_chunks(make_image(tmp_path / f"{name}-1", pages=[(PAGE, page * 64)]))
        assert len(set(chunks)) == 1
        assert name != "zeros" or len(chunks) == 4


def test_a_page_file_that_has_no_whole_pages_is_cut_like_any_file(tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", pages=[(PAGE, noise(1, 40 * PAGE)[:-1])])
    (pages,) = [one for one in streams(image) if one.label == "cpu/pages-1.img"]
    assert (pages.kind, pages.cuts) == ("file", [CHUNK, CHUNK, 8 * PAGE - 1])


def test_bytes_of_segments_that_no_block_has_are_kept(tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 4 * PAGE)})
    manifest = read_manifest(image)
    block = manifest.processes[0].blocks[0]
    block.extents, block.size = [(0, PAGE, 2 * PAGE)], 2 * PAGE
    found = plan.streams(image, manifest, plan.used_sizes(manifest), CHUNK)
    check_every_byte_once(image, found)
    assert [one.label for one in found if one.label.startswith("gpu/")] == [
        "gpu/0000.seg+0",
        f"gpu/0000.seg+{3 * PAGE}",
    ]


def test_bytes_that_two_blocks_claim_are_stored_once(tmp_path: Path) -> None:
    image = make_image(tmp_path / "a-1", blocks={1 << 40: noise(1, 4 * PAGE), 2 << 40: noise(2, PAGE)})
    manifest = read_manifest(image)
    manifest.processes[0].blocks[1].extents = [(0, PAGE, PAGE)]
    check_every_byte_once(image, plan.streams(image, manifest, plan.used_sizes(manifest), CHUNK))


def test_names_that_share_their_beginning_are_told_apart() -> None:
    import numpy as np

    names = [bytes(8) + bytes([number]) * 24 for number in (3, 1, 2)] + [bytes([9]) * 32]
    rows = np.zeros(4, np.dtype([("id", "<u8", 4)]))
    rows["id"] = ids_of(names)
    table = Index(rows, [])
    found = table.find(ids_of([*names, bytes(8) + b"\x07" * 24, b"\x08" * 32]))
    assert [bytes(table.rows["id"][row].tobytes()) for row in found[:4]] == names
    assert found[4:].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("job-1", None),
        ("/srv/a@b/image", None),
        ("./job@x", None),
        ("job-1@", ("job-1", "")),
        ("job-1@/srv/store", ("job-1", "/srv/store")),
        ("job-1@s3://bucket/a@b", ("job-1", "s3://bucket/a@b")),
    ],
)
def test_names_of_images_in_stores(name: str, expected: tuple[str, str] | None) -> None:
    assert split(name) == expected


def test_the_errors_of_this_file_are_torpors() -> None:
    with pytest.raises(TorporError, match="no store"):
        from torpor.store.location import open_store

        open_store("/nowhere/at/all")
