"""Looks for pages of zeros in a pages file of CRIU, and moves together those that stay: one process of several.

Several processes, because threads of one wait for each other's interpreter lock at every page. Standard library only,
so that one starts in some 15 ms. One JSON request per line of standard input, one reply per line of standard output:

`{"op": "search", "path": str, "runs": [[first page, pages], …]}` → `{"runs": [[first page, pages], …]}`, what stays;
`{"op": "open", "path": str}` → `{}`, then `{"op": "move", "moves": [[first page, pages, first page there], …],
"pages": pages of the whole}` → `{}`.
What fails is answered with `{"errno": n, "message": str}`.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = 4096
_FEWEST = 4  # zero pages in a row that are worth one more run: a run costs some 10 µs here, and a read at a restore
_ZEROS, _SOME_ZEROS = bytes(PAGE), bytes(64)


def search(path: str, runs: list[list[int]]) -> list[list[int]]:
    """The pages of these ascending runs that are worth keeping, in runs."""
    start = runs[0][0]
    with _mapped(path, start, sum(runs[-1])) as content:
        return [[first, length] for run in runs for first, length in _staying(content, start, *run)]


class Mover:
    """Moves pages within one file after the other. `open` maps it, which takes a while, before the moves are known."""

    def __init__(self) -> None:
        self._content: mmap.mmap | None = None
        self._path = ""

    def open(self, path: str) -> None:
        self._content, self._path = None, path
        with Path(path).open("r+b") as file:
            if size := os.fstat(file.fileno()).st_size:
                self._content = mmap.mmap(file.fileno(), size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)

    def move(self, moves: list[list[int]], pages: int) -> None:
        """Move ascending runs of pages down to where they belong, and cut the file to its new length."""
        assert self._content is not None
        with self._content as content:
            for first, count, there in moves:
                content.move(there * PAGE, first * PAGE, count * PAGE)
        os.truncate(self._path, pages * PAGE)


def _mapped(path: str, first: int, stop: int) -> mmap.mmap:
    """The pages from `first` to before `stop`."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return mmap.mmap(file, (stop - first) * PAGE, flags=flags, prot=mmap.PROT_READ, offset=first * PAGE)
    finally:
        os.close(file)


def _staying(content: mmap.mmap, start: int, first: int, pages: int) -> Iterator[tuple[int, int]]:
    """Most pages are told by their first bytes. Fewer zero pages than `_FEWEST` in a row stay."""
    begin = first
    zeros = 0
    for page in range(first, first + pages):
        at = (page - start) * PAGE
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
            return {"runs": search(request["path"], request["runs"])}
        if request["op"] == "open":
            mover.open(request["path"])
        else:
            mover.move(request["moves"], request["pages"])
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
