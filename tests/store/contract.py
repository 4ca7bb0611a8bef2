"""What every backend has to pass: subclass `BackendContract` and give it a fixture named `backend`, empty and ready."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from torpor.errors import TorporError
from torpor.store.backend import KINDS, Backend, NoObject

NAME = "packs/" + "0a" * 32


class BackendContract:
    many: ClassVar = 1100
    """More objects than a page of a listing has."""

    def test_what_is_written_is_read(self, backend: Backend) -> None:
        data = os.urandom(100_000)
        backend.write(NAME, [data[:7], memoryview(data)[7:50_000], b"", data[50_000:]])
        assert backend.read(NAME) == data
        assert backend.size(NAME) == len(data)

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, (9 << 20) + 17])
    def test_any_size(self, backend: Backend, size: int) -> None:
        data = os.urandom(size)
        backend.write(NAME, [data])
        assert backend.size(NAME) == size
        assert backend.read(NAME) == data

    def test_no_parts_make_an_empty_object(self, backend: Backend) -> None:
        backend.write("index/empty", [])
        assert backend.read("index/empty") == b""
        assert [(one.name, one.size) for one in backend.list("index")] == [("index/empty", 0)]

    def test_many_parts(self, backend: Backend) -> None:
        parts = [bytes([number % 251]) * (number % 5) for number in range(5000)]
        backend.write(NAME, parts)
        assert backend.read(NAME) == b"".join(parts)

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(0, 10), (5, 1), (990, 10), (990, None), (990, 11), (995, 100), (1000, 5), (1000, None), (2000, 1), (3, 0)],
    )
    def test_ranges(self, backend: Backend, offset: int, length: int | None) -> None:
        data = os.urandom(1000)
        backend.write(NAME, [data])
        end = None if length is None else offset + length
        assert backend.read(NAME, offset, length) == data[offset:end]

    @pytest.mark.parametrize("sizes", [[1000], [0, 7, 0, 500, 10], [1] * 700, [990, 100], [2000], []])
    @pytest.mark.parametrize("offset", [0, 3, 990, 1000, 2000])
    def test_ranges_into_memory(self, backend: Backend, offset: int, sizes: list[int]) -> None:
        data = os.urandom(1000)
        backend.write(NAME, [data])
        rooms = [bytearray(size) for size in sizes]
        count = backend.read_into(NAME, offset, [memoryview(room) for room in rooms])
        expected = data[offset : offset + sum(sizes)]
        assert count == len(expected)
        assert b"".join(rooms) == expected.ljust(sum(sizes), b"\0")

    def test_a_second_write_replaces_the_first(self, backend: Backend) -> None:
        backend.write("tags/latest", [b"a long first value"])
        backend.write("tags/latest", [b"second"])
        assert backend.read("tags/latest") == b"second"
        assert len(list(backend.list("tags"))) == 1

    def test_listings_have_names_and_sizes_of_their_kind_only(self, backend: Backend) -> None:
        for kind in KINDS:
            for number in range(3):
                backend.write(f"{kind}/{kind}-{number}", [b"x" * number])
        backend.write("config", [b"{}"])
        for kind in KINDS:
            found = sorted((one.name, one.size) for one in backend.list(kind))
            assert found == [(f"{kind}/{kind}-{number}", number) for number in range(3)]
        assert backend.read("config") == b"{}"

    def test_a_listing_of_nothing_is_empty(self, backend: Backend) -> None:
        assert [list(backend.list(kind)) for kind in KINDS] == [[]] * len(KINDS)

    def test_a_long_listing_is_whole(self, backend: Backend) -> None:
        names = {f"images/{number:05d}" for number in range(self.many)}
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda name: backend.write(name, [b"1"]), sorted(names)))
        assert {one.name for one in backend.list("images")} == names

    def test_what_is_deleted_is_gone(self, backend: Backend) -> None:
        for name in ("index/one", "index/two", "packs/three"):
            backend.write(name, [b"data"])
        backend.delete(["index/one", "packs/three", "index/never-there"])
        assert [one.name for one in backend.list("index")] == ["index/two"]
        assert list(backend.list("packs")) == []
        backend.delete([])
        backend.delete(["index/two", "index/two"])
        assert list(backend.list("index")) == []

    @pytest.mark.parametrize("name", [NAME, "config"])
    def test_what_is_not_there_is_named(self, backend: Backend, name: str) -> None:
        def into(name: str) -> int:
            return backend.read_into(name, 5, [memoryview(bytearray(5))])

        for call in (backend.size, backend.read, lambda name: backend.read(name, 5, 5), into):
            with pytest.raises(NoObject, match=name):
                call(name)

    @pytest.mark.parametrize("name", ["../escape", "packs/../config", "/etc/passwd", "packs/", "packs/.x", "x/y", ""])
    def test_names_that_lead_elsewhere_are_refused(self, backend: Backend, name: str) -> None:
        calls = (backend.size, backend.read, lambda n: backend.write(n, [b""]), lambda n: backend.delete([n]))
        for call in calls:
            with pytest.raises(TorporError, match="is not the name of an object"):
                call(name)
        with pytest.raises(TorporError, match="is not a kind"):
            list(backend.list(name))

    def test_readers_see_old_or_new_and_nothing_between(self, backend: Backend) -> None:
        values = [bytes([number]) * (200_000 + number) for number in range(1, 9)]
        backend.write("tags/moving", [values[0]])
        done = threading.Event()
        wrong: list[int] = []

        def watch() -> None:
            while not done.is_set():
                seen = backend.read("tags/moving")
                if seen not in values:
                    wrong.append(len(seen))

        with ThreadPoolExecutor(2) as threads:
            watchers = [threads.submit(watch) for _ in range(2)]
            for value in values:
                backend.write("tags/moving", [value])
            done.set()
            for watcher in watchers:
                watcher.result()
        assert wrong == []

    def test_writers_at_once_do_not_mix(self, backend: Backend) -> None:
        values = [bytes([number]) * 70_000 for number in range(1, 9)]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda value: backend.write("tags/contended", [value]), values))
            list(threads.map(lambda n: backend.write(f"packs/own-{n}", [values[n]]), range(8)))
        assert backend.read("tags/contended") in values
        assert [backend.read(f"packs/own-{number}") for number in range(8)] == values

    def test_sweeping_leaves_objects_alone(self, backend: Backend) -> None:
        backend.write(NAME, [b"data"])
        backend.write("config", [b"{}"])
        backend.sweep()
        assert backend.read(NAME) == b"data"
        assert backend.read("config") == b"{}"

    def test_the_url_is_plain_text(self, backend: Backend) -> None:
        assert backend.url
        assert "\n" not in backend.url
