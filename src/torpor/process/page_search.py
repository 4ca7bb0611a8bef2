"""Which pages of CRIU's pages files stay, looked for while CRIU still writes them.

CRIU appends to a pages file, so what is there will not change. Pieces of some size are searched as soon as they are
complete, and mapped for the moves that follow; only the rest is left for the time when the job waits.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from torpor.errors import TorporError
from torpor.process.page_worker import PAGE
from torpor.process.page_workers import PageWorkers
from torpor.process.shares import Piece, dealt

Run = tuple[int, int]
"""First page and number of pages, counted in the pages file."""

_PIECE = (64 << 20) // PAGE
_PAUSE = 0.005  # seconds between two looks at the files' sizes
_SMALLEST_SHARE = 1024  # pages; less is not worth another process


class PageSearch:
    """The search in one folder of images, with all of `workers`. As a context, it ends what it began."""

    def __init__(self, folder: Path, workers: PageWorkers) -> None:
        self.folder = folder
        self._workers = workers
        self._staying: dict[str, list[Run]] = {}
        self._searched: dict[str, int] = {}
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PageSearch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self) -> None:
        """Start to follow CRIU."""
        self._thread = threading.Thread(target=self._follow, name="page search", daemon=True)
        self._thread.start()

    def finish(self, files: Collection[Path]) -> None:
        """Search what is left of these files, which are complete by now. Raises OSError, TorporError."""
        self._end()
        if self._failure is not None:
            raise self._failure
        self._look([piece for file in files if (piece := self._rest(file, 1))[2]])

    def staying(self, file: Path) -> list[Run]:
        """The runs of pages of a file that stay, in ascending order; after `finish`."""
        return self._staying.get(str(file), [])

    def move(self, file: Path, moves: list[tuple[int, int, int]], pages: int) -> None:
        """Move runs of pages (first page, pages, first page there) down in a file, which is then `pages` long."""
        self._workers.ask([{"op": "move", "path": str(file), "moves": moves, "pages": pages}])

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._stop.wait(_PAUSE):
                pieces = [self._rest(file, _PIECE) for file in sorted(self.folder.glob("pages-[0-9]*.img"))]
                self._look([piece for piece in pieces if piece[2]])
        except (OSError, TorporError) as error:
            self._failure = error

    def _rest(self, file: Path, step: int) -> Piece:
        """What has not been searched of a file, in multiples of `step` pages."""
        done = self._searched.get(str(file), 0)
        return str(file), done, (file.stat().st_size // PAGE - done) // step * step

    def _look(self, pieces: list[Piece]) -> None:
        """Search these pieces. The first worker maps them meanwhile, since it will move pages."""
        if not pieces:
            return
        shares = dealt(pieces, max(self._workers.count - 1, 1), _SMALLEST_SHARE)
        requests = [{"op": "map", "pieces": pieces}, *({"op": "search", "pieces": share} for share in shares)]
        if self._workers.count > 1:
            answers = self._workers.ask(requests)
        else:
            answers = [answer for request in requests for answer in self._workers.ask([request])]
        for share, answer in zip(shares, answers[1:], strict=True):
            for (file, _, _), runs in zip(share, answer["runs"], strict=True):
                self._staying.setdefault(file, []).extend((first, count) for first, count in runs)
        for file, first, count in pieces:
            self._searched[file] = first + count
