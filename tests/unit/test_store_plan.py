"""How images are cut: every byte once, and the same way again whatever comes before."""

from __future__ import annotations

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


def test_pages_are_cut_at_their_addresses(tmp_path: Path) -> None:
    runs = [(CHUNK - PAGE, bytes(3 * PAGE)), (CHUNK + 8 * PAGE, bytes(20 * PAGE)), (100 * CHUNK, bytes(PAGE))]
    (pages,) = [one for one in streams(make_image(tmp_path / "a-1", pages=runs)) if one.kind == "pages"]
    # A page before the first edge; 2 and 8 pages of the next window; 12 of the one after; one far away.
    assert pages.cuts == [PAGE, 10 * PAGE, 12 * PAGE, PAGE]


@pytest.mark.parametrize("harm", [b"", b"nonsense", None])
def test_pages_without_a_sound_pagemap_are_cut_like_any_file(tmp_path: Path, harm: bytes | None) -> None:
    image = make_image(tmp_path / "a-1", pages=[(PAGE, noise(1, 40 * PAGE))])
    pagemap = image / "cpu" / "pagemap-300.img"
    if harm is None:
        pagemap.unlink()
    else:
        pagemap.write_bytes(harm)
    (pages,) = [one for one in streams(image) if one.label == "cpu/pages-1.img"]
    assert (pages.kind, pages.cuts) == ("file", [CHUNK, CHUNK, 8 * PAGE])


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
