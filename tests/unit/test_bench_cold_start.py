"""The cold-start part, on the software GPU: every way gives the native tokens, and one that does not is told."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torpor.bench import caches, cold_start, models, results
from torpor.bench.lives import Followed
from torpor.bench.settings import DRIVER, NATIVE, Settings
from torpor.errors import Cancelled, TorporError


def settings(tmp_path: Path, **more: Any) -> Settings:
    return Settings(backend="sim", quick=True, repeats=1, scratch=tmp_path, **more)


@pytest.mark.criu
@pytest.mark.full
def test_every_way_to_a_first_token(home: Path, tmp_path: Path) -> None:
    found = {one.name: one for one in cold_start.run(settings(tmp_path, driver_repeats=1))}
    cached, dropped = found["toy, files cached"], found["toy, files dropped from the page cache"]
    assert set(cached.sides) == {NATIVE, DRIVER, "torpor hbm", "torpor dram", "torpor disk", f"{DRIVER} disk"}
    assert set(dropped.sides) == {NATIVE, "torpor disk", f"{DRIVER} disk"}
    assert "posix_fadvise" in dropped.note
    assert cached.note == ""
    assert list(tmp_path.iterdir()) == []  # no weights
    assert not any((home / "images").iterdir()) and not any((home / "jobs").iterdir())


@pytest.mark.criu
@pytest.mark.full
def test_a_way_that_fails_is_told_and_the_others_go_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home

    def broken(*_: Any) -> None:
        raise TorporError("it broke")

    monkeypatch.setattr(cold_start, "_hbm", broken)
    rows = []
    with pytest.raises(TorporError, match="it broke"):
        for row in cold_start.run(settings(tmp_path, driver_repeats=0)):
            rows.append(row)
    cached, _dropped = results.final(rows)
    assert set(cached.sides) == {NATIVE, "torpor dram", "torpor disk"}
    assert cached.note == "torpor hbm failed: it broke"


def test_what_was_measured_before_it_is_broken_off_is_told(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home

    def native(shape: cold_start.Shape) -> None:
        shape.warm[NATIVE] = [1.0]

    def broken_off(shape: cold_start.Shape, side: str, _arena: bool) -> None:
        shape.warm[side] = []
        raise Cancelled("cancelled, and rolled back")

    monkeypatch.setattr(cold_start, "_native", native)
    monkeypatch.setattr(cold_start, "_hbm", broken_off)
    rows = []
    with pytest.raises(Cancelled):
        for row in cold_start.run(settings(tmp_path, driver_repeats=0)):
            rows.append(row)
    assert [set(row.sides) for row in rows] == [{NATIVE}, {NATIVE}]
    assert list(tmp_path.iterdir()) == []


def test_models_are_compared_though_the_rest_is_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(shape: cold_start.Shape, _failures: list[TorporError]) -> Iterator[None]:
        shape.warm["torpor dram"] = [2.2, 2.0] if shape.name == cold_start.LARGEST else [2.0, 2.0]
        yield
        if shape.name == cold_start.LARGEST:
            raise Cancelled("cancelled, and rolled back")

    monkeypatch.setattr(cold_start, "_left_out", lambda *_: None)
    monkeypatch.setattr(cold_start, "_measure", measure)
    rows = []
    with pytest.raises(Cancelled):
        for row in cold_start.run(Settings(backend="gpu", models=("0.5b", "8b"), scratch=tmp_path)):
            rows.append(row)
    [*_, compared] = results.final(rows)
    assert (compared.name, compared.sides["torpor dram"].median) == ("8b / 0.5b", pytest.approx(1.05))


def test_another_token_than_natively_is_no_result(home: Path, tmp_path: Path) -> None:
    del home
    from torpor import api

    shape = cold_start.Shape("toy", models.TOY_LLAMA["toy"], settings(tmp_path), tokens=["5", "6", "7"])
    job = api.run(["sh", "-c", "for n in 1 2 3 4; do echo token $n $((4 + n - n / 4 * 3)) $n; done; echo token 5"])
    server = Followed(job, "token", shape.settings)
    server.wait(4)
    server.wait(2, since=3)
    assert [row[2] for row in server.rows] == ["5", "6", "7", "5"]
    shape.check(server)  # they come round again
    server.rows[3][2] = "6"
    with pytest.raises(TorporError, match=r"token 4 of .* is 6, natively it is 5"):
        shape.check(server)
    with pytest.raises(TorporError, match="said 'token' 4 times, not 9"):
        server.wait(9)
    with pytest.raises(TorporError, match="said 'token' 2 times, not 3"):
        server.wait(3, since=3)


def resident(file: Path) -> int:
    """Pages of the file that are in the page cache."""
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(mapped)), found) == 0
        return sum(page & 1 for page in found)


def test_files_leave_the_page_cache(tmp_path: Path) -> None:
    place = Path("/var/tmp") / f"torpor-test-{os.getpid()}"  # a file in memory would stay there
    (place / "inner").mkdir(parents=True)
    file = place / "inner" / "weights"
    try:
        file.write_bytes(b"w" * (1 << 20))
        assert resident(file) == 256
        assert "posix_fadvise" in caches.drop([place, tmp_path / "missing"], everything=False)
        assert resident(file) == 0
    finally:
        file.unlink()
        file.parent.rmdir()
        place.rmdir()


def test_the_whole_cache_is_dropped_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = tmp_path / "drop_caches"
    monkeypatch.setattr(caches, "DROP", switch)
    assert caches.drop([], everything=True) == "the machine's whole page cache"
    assert switch.read_text() == "3"
    monkeypatch.setattr(caches, "DROP", tmp_path / "missing" / "drop_caches")
    assert "posix_fadvise" in caches.drop([], everything=True)


def test_libraries_of_a_process_are_found() -> None:
    found = caches.mapped_by(os.getpid())
    assert any(path.name.startswith("libc.so") for path in found)
    assert all(path.is_file() for path in found)


def test_models_that_fit_nowhere_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "free_memory", lambda _: 10 << 30)
    rows = list(cold_start.run(Settings(backend="gpu", models=("8b",), scratch=tmp_path)))
    assert [row.name for row in rows] == ["8b, files cached"]
    assert rows[0].note.startswith("left out: weights on the GPU need 1")
