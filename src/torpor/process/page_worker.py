"""Looks for pages of zeros in pages files of CRIU, and moves together those that stay: one process of several.

Several processes, because threads of one wait for each other's interpreter lock at every page. Standard library only,
so that one starts in some 15 ms. One JSON request per line of standard input, one reply per line of standard output; a
piece is `[path, first page, pages]`:

`{"op": "search", "pieces": [piece, …]}` → `{"runs": [[[first page, pages], …], …]}`, for each piece what stays;
`{"op": "move", "pieces": [piece, …], "moves": [[path, [[first page, pages, first page there], …]], …]}` → `{}`: the
pieces are mapped, those of a file in ascending order and without a gap, and pages of what is mapped by then are moved.
What fails is answered with `{"errno": n, "message": str}`.
"""

from __future__ import annotations

import bisect
import json
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any

PAGE = 4096
_FEWEST = 4  # zero pages in a row that are worth one more run: a run costs some 10 µs here, and a read at a restore
_ZEROS, _SOME_ZEROS = bytes(PAGE), bytes(64)


def search(path: str, first: int, pages: int) -> list[list[int]]:
    """The pages of this piece that are worth keeping, in runs."""
    with _mapped(path, first, pages, mmap.PROT_READ) as content:
        return [list(run) for run in _staying(content, first, pages)]


class Mover:
    """Moves pages within files, in memory that it maps piece by piece and keeps until the end of its process."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[tuple[int, mmap.mmap]]] = {}

    def map(self, path: str, first: int, pages: int) -> None:
        piece = _mapped(path, first, pages, mmap.PROT_READ | mmap.PROT_WRITE)
        self._pieces.setdefault(path, []).append((first, piece))

    def move(self, path: str, moves: list[list[int]]) -> None:
        """Move ascending runs of pages down to where they belong."""
        pieces = self._pieces.get(path, [])
        starts = [first for first, _ in pieces]
        views = [memoryview(content) for _, content in pieces]

        def place(page: int) -> tuple[memoryview, int, int]:
            """The piece with this page, the page's first byte in it, and how many pages there are from it on."""
            at = bisect.bisect_right(starts, page) - 1
            start = (page - starts[at]) * PAGE
            return views[at], start, (len(views[at]) - start) // PAGE

        for first, count, there in moves:
            done = 0
            while done < count:
                source, out, left = place(first + done)
                target, into, room = place(there + done)
                size = min(count - done, left, room)
                target[into : into + size * PAGE] = source[out : out + size * PAGE]
                done += size


def _mapped(path: str, first: int, pages: int, access: int) -> mmap.mmap:
    file = os.open(path, (os.O_RDWR if access & mmap.PROT_WRITE else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return mmap.mmap(file, pages * PAGE, flags=flags, prot=access, offset=first * PAGE)
    finally:
        os.close(file)


def _staying(content: mmap.mmap, first: int, pages: int) -> Iterator[tuple[int, int]]:
    """Most pages are told by their first bytes. Fewer zero pages than `_FEWEST` in a row stay."""
    begin = first
    zeros = 0
    for page in range(first, first + pages):
        at = (page - first) * PAGE
        if content[at : at + 64] == _SOME_ZEROS and content[at : at + PAGE] == _ZEROS:
            zeros += 1
        else:
            if zeros >= _FEWEST:
                if page - zeros > begin:
                    yield begin, page - zeros - begin
                begin = page
            zeros = 0
    stop = first + pages
    if zeros >= _FEWEST:
        stop -= zeros
    if stop > begin:
        yield begin, stop - begin


def _answer(request: dict[str, Any], mover: Mover) -> dict[str, Any]:
    try:
        if request["op"] == "search":
            return {"runs": [search(*piece) for piece in request["pieces"]]}
        for piece in request["pieces"]:
            mover.map(*piece)
        for path, moves in request["moves"]:
            mover.move(path, moves)
    except OSError as error:
        return {"errno": error.errno, "message": str(error)}
    return {}


def main() -> None:
    mover = Mover()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(_answer(json.loads(line), mover)).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
