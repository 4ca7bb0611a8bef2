"""Zero pages leave CRIU's images: what is left describes the same memory, and failures are reported."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor.errors import TorporError
from torpor.process import zero_pages
from torpor.process.criu_images import encoded_field, entries, number, write_entries
from torpor.process.page_worker import PAGE
from torpor.process.page_workers import PageWorkers
from torpor.process.zero_pages import ZeroPages

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


def dropped(folder: Path) -> int:
    """Bytes saved in a folder that was complete when somebody looked."""
    with PageWorkers() as workers:
        return ZeroPages(folder, workers, {}).finish()


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
    saved = dropped(tmp_path)
    assert dropped(tmp_path) == 0
    after, held = described(tmp_path, pages)
    assert after == before
    empty = sum(before[page * PAGE : (page + 1) * PAGE] == bytes(PAGE) for page in range(pages))
    assert saved == (pages - held) * PAGE
    assert 0.8 * empty < pages - held <= empty  # a few zero pages in a row are not worth a run of their own
    assert sorted(os.listdir(tmp_path)) == ["mm-7.img", "pagemap-7.img", "pages-1.img"]


def test_shared_memory_keeps_its_zeros(tmp_path: Path) -> None:
    pages = 2000
    before = dumped(tmp_path, pages, [(0, pages, SHARED)], 1)
    assert dropped(tmp_path) == 0
    assert described(tmp_path, pages) == (before, pages)


def test_a_pages_file_of_another_length_is_refused(tmp_path: Path) -> None:
    dumped(tmp_path, 100, [(0, 100, PRIVATE)], 1)
    os.truncate(tmp_path / "pages-1.img", 99 * PAGE)
    with pytest.raises(TorporError, match=r"pages-1\.img has 405504 bytes, pagemap-7\.img speaks of 409600"):
        dropped(tmp_path)


def test_what_a_worker_cannot_do_is_said(tmp_path: Path) -> None:
    none, one = str(tmp_path / "none"), str(tmp_path / "one")
    with PageWorkers() as workers:
        for op in ("search", "move"):
            with pytest.raises(FileNotFoundError, match="No such file"):
                workers.ask([{"op": op, "pieces": [[none, 0, 1]], "moves": []}])
        (tmp_path / "one").write_bytes(bytes(range(256)) * 16)
        assert workers.ask([{"op": "search", "pieces": [[one, 0, 1]]}]) == [{"runs": [[[0, 1]]]}]


class Growing:
    """A complete CRIU folder that is written anew, to any point, as CRIU writes it."""

    def __init__(self, folder: Path) -> None:
        self._files = {folder / name: (folder / name).read_bytes() for name in ("pages-1.img", "pagemap-7.img")}
        self._mm = folder / "mm-7.img"
        self._later = self._mm.read_bytes()
        for path in (*self._files, self._mm):
            path.unlink()

    def write(self, share: float, lag: int) -> None:
        """So much of the pages, and of what describes them, less `lag` bytes of the latter."""
        for path, content in self._files.items():
            size = int(share * len(content))
            if path.name.startswith("pagemap"):
                size = max(size - lag, 0)
            with path.open("ab") as file:
                file.write(content[file.tell() : size])

    def end(self) -> None:
        self.write(1.0, 0)
        self._mm.write_bytes(self._later)


@pytest.mark.parametrize("piece", [7, 1000])
@pytest.mark.parametrize("kind", [PRIVATE, SHARED])
def test_pages_are_moved_together_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, kind: int
) -> None:
    monkeypatch.setattr(zero_pages, "_PIECE", piece)
    pages = 6000
    areas = [(0, pages - 1000, PRIVATE), (pages - 1000, 1000, kind)]
    private = pages if kind == PRIVATE else pages - 1000
    monkeypatch.setattr(zero_pages, "mapped", lambda _pid: [(BASE, BASE + private * PAGE)])
    before = dumped(tmp_path, pages, areas, 5)
    growing = Growing(tmp_path)
    file = tmp_path / "pages-1.img"
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {7: 7}) as found:
        for share in (0.0, 0.1, 0.101, 0.5, 0.77, 0.9):
            growing.write(share, 40)
            for _time in range(3):
                found.step()
        content = file.read_bytes()
        growing.end()
        written = file.stat().st_size
        saved = found.finish()
    after, held = described(tmp_path, pages)
    assert after == before
    assert saved == written - held * PAGE
    half = held * PAGE // 2
    assert content[:half] == file.read_bytes()[:half], "this was in its place before the end"
    if kind == SHARED:
        assert file.read_bytes().endswith(before[private * PAGE :])


def test_only_private_memory_may_be_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host calls private, and CRIU does not: nobody may go on with such an image."""
    monkeypatch.setattr(zero_pages, "_PIECE", 7)
    monkeypatch.setattr(zero_pages, "mapped", lambda _pid: [(BASE, BASE + 2000 * PAGE)])
    dumped(tmp_path, 2000, [(0, 1000, PRIVATE), (1000, 1000, SHARED)], 5)
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {7: 7}) as found:
        found.step()
        found.step()
        with pytest.raises(TorporError, match="was taken for private memory"):
            found.finish()


def test_pages_are_followed_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_pages, "_PIECE", 7)
    pages = 3000
    before = dumped(tmp_path, pages, [(0, pages, PRIVATE)], 5)
    growing = Growing(tmp_path)
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {}) as found:
        found.begin()
        growing.write(0.5, 0)
        growing.end()
        assert found.finish() > 0
    assert described(tmp_path, pages)[0] == before


def test_what_goes_wrong_meanwhile_is_said_at_the_end(tmp_path: Path) -> None:
    dumped(tmp_path, 100, [(0, 100, PRIVATE)], 1)
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {}) as found:
        workers.dismiss()
        with pytest.raises(TorporError, match="ended early"):
            found.finish()


def test_a_failure_of_the_follower_is_the_end_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_pages, "_PIECE", 1)
    dumped(tmp_path, 100, [(0, 100, PRIVATE)], 1)
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {}) as found:
        workers.dismiss()
        found.begin()
        eventually(lambda: found._failure is not None)
        with pytest.raises(TorporError, match="ended early"):
            found.finish()


def test_a_failure_of_another_kind_is_the_end_s_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages that were to be moved just then are in no list any more."""
    monkeypatch.setattr(zero_pages, "_PIECE", 7)
    monkeypatch.setattr(zero_pages, "mapped", lambda _pid: [(BASE, BASE + 2000 * PAGE)])
    dumped(tmp_path, 2000, [(0, 2000, PRIVATE)], 5)
    with PageWorkers() as workers, ZeroPages(tmp_path, workers, {7: 7}) as found:
        found.step()

        def ask(_requests: object) -> None:
            raise MemoryError

        monkeypatch.setattr(workers, "ask", ask)
        found.begin()
        assert found._thread is not None
        found._thread.join()
        monkeypatch.undo()
        with pytest.raises(MemoryError):
            found.finish()


def test_private_memory_of_a_live_process(tmp_path: Path) -> None:
    """As the host tells it: anonymous and private, not files, nor shared memory."""
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))
    with path.open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), PAGE, flags=mmap.MAP_PRIVATE)
    private, shared = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), mmap.mmap(-1, PAGE)
    found = zero_pages.mapped(os.getpid())

    def known(memory: mmap.mmap) -> bool:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return any(start <= address < stop for start, stop in found)

    assert [known(memory) for memory in (private, shared, mapping)] == [True, False, False]
    assert zero_pages.mapped(0) == []


def test_a_file_with_few_zeros_is_left_as_it_is(tmp_path: Path) -> None:
    pages = 2000
    dumped(tmp_path, pages, [(0, pages, PRIVATE)], 3)
    memory = bytearray((tmp_path / "pages-1.img").read_bytes())
    for page in range(pages - 20):
        memory[page * PAGE] = 1
    (tmp_path / "pages-1.img").write_bytes(memory)
    assert dropped(tmp_path) == 0
    assert described(tmp_path, pages) == (memory, pages)


def test_a_worker_that_is_gone_is_an_error() -> None:
    with PageWorkers() as workers, pytest.raises(TorporError, match="ended early"):
        workers.ask([{"op": "none of ours"}])
