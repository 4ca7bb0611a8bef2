"""Zero pages leave CRIU's images: what is left describes the same memory, and failures are reported."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor.errors import TorporError
from torpor.process import page_search, zero_pages
from torpor.process.criu_images import encoded_field, entries, number, write_entries
from torpor.process.page_search import PageSearch
from torpor.process.page_worker import PAGE
from torpor.process.page_workers import PageWorkers

PAGEMAP, MM = 0x56084025, 0x57492820
PRESENT = 4
PRIVATE, SHARED = 1 << 0 | 1 << 9, 1 << 0 | 1 << 8
BASE = 0x10000000


def message(fields: dict[int, int | bytes]) -> bytes:
    return b"".join(encoded_field(field, value) for field, value in fields.items())


def dumped(folder: Path, pages: int, areas: list[tuple[int, int, int]], seed: int) -> bytes:
    """A CRIU folder of one process: `areas` are (first page, pages, kind); returns the memory."""
    choose = random.Random(seed)
    memory = bytearray()
    while len(memory) < pages * PAGE:
        run = choose.choice([1, 2, 7, 60])
        memory += bytes(run * PAGE) if choose.random() < 0.5 else choose.randbytes(PAGE) * run
    del memory[pages * PAGE :]
    memory[5 * PAGE : 6 * PAGE] = bytes(PAGE - 1) + b"\1"  # told from zeros by its last byte only
    runs, at = [], 0
    while at < pages:
        count = min(choose.randint(1, 300), pages - at)
        runs.append(message({1: BASE + at * PAGE, 4: PRESENT, 5: count}))
        at += count
    runs.append(message({1: BASE + at * PAGE, 4: 0, 5: 3}))  # in a parent image
    mappings = [message({1: BASE + a * PAGE, 2: BASE + (a + n) * PAGE, 7: kind}) for a, n, kind in areas]
    fields = b"".join(encoded_field(14, area) for area in mappings)
    write_entries(folder / "mm-7.img", MM, [fields])
    write_entries(folder / "pagemap-7.img", PAGEMAP, [message({1: 1}), *runs])
    (folder / "pages-1.img").write_bytes(memory)
    return bytes(memory)


def described(folder: Path, pages: int) -> tuple[bytes, int]:
    """The memory that the images stand for, and how many pages they hold."""
    content = (folder / "pages-1.img").read_bytes()
    memory, at = bytearray(pages * PAGE), 0
    for run in entries(folder / "pagemap-7.img", PAGEMAP)[1:]:
        if not number(run, 4) & PRESENT:
            continue
        start, size = number(run, 1) - BASE, number(run, 5) * PAGE
        memory[start : start + size] = content[at : at + size]
        at += size
    assert at == len(content)
    return bytes(memory), at // PAGE


@pytest.mark.parametrize("seed", range(4))
def test_what_stays_describes_the_same_memory(tmp_path: Path, seed: int) -> None:
    pages = 6000
    before = dumped(tmp_path, pages, [(0, 3500, PRIVATE), (3500, pages - 3500, PRIVATE)], seed)
    with PageWorkers() as workers:
        saved = zero_pages.drop(PageSearch(tmp_path, workers))
        assert zero_pages.drop(PageSearch(tmp_path, workers)) == 0
    after, held = described(tmp_path, pages)
    assert after == before
    empty = sum(before[page * PAGE : (page + 1) * PAGE] == bytes(PAGE) for page in range(pages))
    assert saved == (pages - held) * PAGE
    assert 0.8 * empty < pages - held <= empty  # a few zero pages in a row are not worth a run of their own
    assert sorted(os.listdir(tmp_path)) == ["mm-7.img", "pagemap-7.img", "pages-1.img"]


def test_shared_memory_keeps_its_zeros(tmp_path: Path) -> None:
    pages = 2000
    before = dumped(tmp_path, pages, [(0, pages, SHARED)], 1)
    with PageWorkers() as workers:
        assert zero_pages.drop(PageSearch(tmp_path, workers)) == 0
    assert described(tmp_path, pages) == (before, pages)


def test_a_pages_file_of_another_length_is_refused(tmp_path: Path) -> None:
    dumped(tmp_path, 100, [(0, 100, PRIVATE)], 1)
    os.truncate(tmp_path / "pages-1.img", 99 * PAGE)
    with PageWorkers() as workers, pytest.raises(TorporError, match=r"pages-1\.img has 405504 bytes"):
        zero_pages.drop(PageSearch(tmp_path, workers))


def test_what_a_worker_cannot_do_is_said(tmp_path: Path) -> None:
    none, one = str(tmp_path / "none"), str(tmp_path / "one")
    with PageWorkers() as workers:
        for op in ("search", "map"):
            with pytest.raises(FileNotFoundError, match="No such file"):
                workers.ask([{"op": op, "pieces": [[none, 0, 1]]}])
        (tmp_path / "one").write_bytes(bytes(range(256)) * 16)
        assert workers.ask([{"op": "search", "pieces": [[one, 0, 1]]}]) == [{"runs": [[[0, 1]]]}]


@pytest.mark.parametrize("piece", [7, 1000])
def test_pages_are_looked_at_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(page_search, "_PIECE", piece)
    pages = 6000
    before = dumped(tmp_path, pages, [(0, pages, PRIVATE)], 5)
    file = tmp_path / "pages-1.img"
    content = file.read_bytes()
    file.write_bytes(content[: 3000 * PAGE + 17])
    with PageWorkers() as workers, PageSearch(tmp_path, workers) as search:
        search.begin()
        eventually(lambda: search.staying(file))
        with file.open("ab") as rest:
            rest.write(content[3000 * PAGE + 17 :])
        assert zero_pages.drop(search) > 0
    assert described(tmp_path, pages)[0] == before


def test_what_goes_wrong_meanwhile_is_said_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_search, "_PIECE", 1)
    dumped(tmp_path, 100, [(0, 100, PRIVATE)], 1)
    with PageWorkers() as workers, PageSearch(tmp_path, workers) as search:
        workers.dismiss()
        search.begin()
        with pytest.raises(TorporError, match="ended early"):
            zero_pages.drop(search)


def test_a_file_with_few_zeros_is_left_as_it_is(tmp_path: Path) -> None:
    pages = 2000
    dumped(tmp_path, pages, [(0, pages, PRIVATE)], 3)
    memory = bytearray((tmp_path / "pages-1.img").read_bytes())
    for page in range(pages - 20):
        memory[page * PAGE] = 1
    (tmp_path / "pages-1.img").write_bytes(memory)
    with PageWorkers() as workers:
        assert zero_pages.drop(PageSearch(tmp_path, workers)) == 0
    assert described(tmp_path, pages) == (memory, pages)


def test_a_worker_that_is_gone_is_an_error() -> None:
    with PageWorkers() as workers, pytest.raises(TorporError, match="ended early"):
        workers.ask([{"op": "none of ours"}])
