"""A store that takes and gives no more bytes per second than it may."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.store.memory import MemoryBackend
from torpor.errors import UsageError
from torpor.store import location
from torpor.store.limit import Bucket, LimitBackend, parse_rate

MIB = 1 << 20


class Clock:
    """Time that goes on only where somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def bucket(self, rate: int) -> Bucket:
        return Bucket(rate, self.read, self.pause)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200MB/s", 200_000_000),
        ("200MB", 200_000_000),
        ("1.5 GiB/s", 3 << 29),
        ("64 KiB/s", 65536),
        ("10k", 10_000),
        ("300000", 300_000),
        ("2T/s", 2 * 10**12),
    ],
)
def test_rates_are_read(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "0.1", "-5MB/s", "5MB/h", "5iB", "MB/s", "1e9", "5 M B/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rate"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["10", "200", "0.5k", "999 B/s"])
def test_a_rate_with_which_nothing_gets_done_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="bytes per second") as refused:
        parse_rate(text)
    assert refused.value.hint is not None
    assert "MB/s" in refused.value.hint or "B/s" in refused.value.hint


def test_writes_take_their_time() -> None:
    clock = Clock()
    backend = LimitBackend(MemoryBackend(), 0, up=clock.bucket(MIB), down=clock.bucket(10**12))
    for number in range(8):
        backend.write(f"packs/{number}", [bytes(3 * MIB), b"x", bytes(MIB)])
    assert 8 * 4 - 4 - 0.2 <= clock.now - 100 <= 8 * 4 + 0.2


@pytest.mark.parametrize("length", [None, 4 * MIB, 100 * MIB])
def test_reads_take_their_time(length: int | None) -> None:
    clock = Clock()
    inner = MemoryBackend()
    inner.objects["packs/a"] = bytes(4 * MIB)
    backend = LimitBackend(inner, 0, up=clock.bucket(10**12), down=clock.bucket(MIB))
    for _ in range(8):
        assert len(backend.read("packs/a", 0, length)) == 4 * MIB
    assert 8 * 4 - 4 - 0.2 <= clock.now - 100 <= 8 * 4 + 0.2


def test_a_rest_is_not_saved_up() -> None:
    clock = Clock()
    bucket = clock.bucket(MIB)
    clock.now += 3600
    begin = clock.now
    for _ in range(10):
        bucket.take(MIB)
    assert clock.now - begin >= 8.8


def test_an_object_is_let_through_bit_by_bit() -> None:
    """What moves it sees no more than a second's worth at once, even of one large part."""
    clock = Clock()
    seen: list[tuple[float, int]] = []

    class Slow(MemoryBackend):
        def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
            assert name == "packs/a"
            for part in parts:
                seen.append((clock.now, len(part)))

    LimitBackend(Slow(), 0, up=clock.bucket(MIB), down=clock.bucket(1)).write("packs/a", [bytes(10 * MIB)])
    assert [size for _, size in seen] == [MIB] * 10
    assert seen[-1][0] - seen[0][0] >= 8.8


def test_threads_share_one_limit() -> None:
    rate = 200 * MIB
    clock = Clock()
    waits: list[float] = []
    bucket = Bucket(rate, clock.read, waits.append)
    threads = [threading.Thread(target=bucket.take, args=(50 * MIB,)) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Nobody's time went on, so each waits for all that came before it.
    assert sorted(round(wait, 2) for wait in waits) == [round(0.25 * n, 2) for n in range(1, 9)]


def test_a_store_is_opened_with_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location.create_store(str(tmp_path / "store"))
    assert not isinstance(location.open_store(str(tmp_path / "store")).backend, LimitBackend)
    assert isinstance(location.open_store(str(tmp_path / "store"), limit="5MB/s").backend, LimitBackend)
    monkeypatch.setenv("TORPOR_LIMIT", "1GB/s")
    assert isinstance(location.open_store(str(tmp_path / "store")).backend, LimitBackend)
    assert not isinstance(location.open_store(str(tmp_path / "store"), limit="").backend, LimitBackend)
    with pytest.raises(UsageError):
        location.open_store(str(tmp_path / "store"), limit="some")
