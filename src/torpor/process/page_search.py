"""Which pages of CRIU's pages files stay: looked for by worker processes, piece by piece, as the files grow.

CRIU appends to a pages file, so what is there will not change. One worker maps the pieces and moves pages together in
them, while the others search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torpor.process.compaction import Move, Run
from torpor.process.page_worker import PAGE
from torpor.process.page_workers import PageWorkers
from torpor.process.shares import Piece, dealt

_SMALLEST_SHARE = 1024  # pages; less is not worth another process


class PageSearch:
    """The search with all of `workers`, and what it has found."""

    def __init__(self, workers: PageWorkers) -> None:
        self._workers = workers
        self._staying: dict[Path, list[Run]] = {}
        self._searched: dict[Path, int] = {}

    def searched(self, file: Path) -> int:
        """How many pages of a file have been looked at, from its beginning."""
        return self._searched.get(file, 0)

    def staying(self, file: Path) -> Sequence[Run]:
        """The runs of these pages that are worth keeping, in ascending order."""
        return self._staying.get(file, [])

    def look(self, files: Sequence[Path], step: int, moves: Mapping[Path, Sequence[Move]]) -> None:
        """Search what is new in these files, in multiples of `step` pages, and make moves within what was not new.

        Raises OSError, TorporError.
        """
        pieces = [piece for file in files if (piece := self._rest(file, step))[2]]
        due = [[str(file), list(some)] for file, some in moves.items() if some]
        if not pieces and not due:
            return
        shares = dealt(pieces, max(self._workers.count - 1, 1), _SMALLEST_SHARE) if pieces else []
        requests: list[dict[str, Any]] = [
            {"op": "move", "pieces": pieces, "moves": due},
            *({"op": "search", "pieces": share} for share in shares),
        ]
        if self._workers.count > 1:
            answers = self._workers.ask(requests)
        else:
            answers = [answer for request in requests for answer in self._workers.ask([request])]
        for share, answer in zip(shares, answers[1:], strict=True):
            for (file, _, _), runs in zip(share, answer["runs"], strict=True):
                self._staying.setdefault(Path(file), []).extend((first, count) for first, count in runs)
        for file, first, count in pieces:
            self._searched[Path(file)] = first + count

    def _rest(self, file: Path, step: int) -> Piece:
        """What has not been searched of a file."""
        done = self.searched(file)
        return str(file), done, (file.stat().st_size // PAGE - done) // step * step
