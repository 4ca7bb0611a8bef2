"""Jobs that are put to sleep and woken, and whose numbered lines tell how far they are."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torpor import api, paths
from torpor.bench.settings import Settings
from torpor.errors import TorporError
from torpor.records import LIVE_STATES

DEADLINE = 120.0
"""Seconds that a freeze may take."""
WHOLE = 2
"""New lines until a woken job has done a whole step of its own: the first one's work may have been done before."""


class Followed:
    """A job's lines "WORD NUMBER … AT", read as they are written; AT is the wall clock in nanoseconds.

    A woken process's monotonic clock goes on from where it was put to sleep: it would tell nothing here.
    """

    def __init__(self, job: api.Job, word: str, settings: Settings) -> None:
        self.job, self.word, self.rows = job, word, list[list[str]]()
        self._patience, self._at, self._pending = settings.patience, 0, b""

    def read(self) -> None:
        """Take in what was written since the last time."""
        with paths.job_log(self.job.name).open("rb") as log:
            log.seek(self._at)
            piece = log.read()
        self._at += len(piece)
        *lines, self._pending = (self._pending + piece).split(b"\n")
        words = [line.decode(errors="replace").split() for line in lines]
        self.rows += [row for row in words if len(row) > 2 and row[0] == self.word and row[-1].isdigit()]

    def wait(self, rows: int, since: int = 0) -> int:
        """Wait until so many rows were written after `since`; when the last of these was. Rows may be read late.

        TorporError with the end of the job's output where there never are.
        """
        end = time.monotonic() + self._patience
        while True:
            over = self.job.exit_code is not None or time.monotonic() > end
            self.read()
            found = self.rows[bisect_left(self.rows, since, key=lambda row: int(row[-1])) :]
            if len(found) >= rows:
                return int(found[rows - 1][-1])
            if over:
                said = b"".join(self.job.logs()).decode(errors="replace")[-2000:]
                raise TorporError(f"{self.job.name} said {self.word!r} {len(found)} times, not {rows}", hint=said)
            time.sleep(0.001)


class Lives:
    """Jobs and images of one measurement: at its end nothing is left of them, however it ends."""

    def __init__(self, word: str, settings: Settings) -> None:
        self._word, self._settings = word, settings
        self._jobs: list[api.Job] = []
        self._images: list[api.Image] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._jobs:
            self._remove(job)
        for image in self._images:
            image.remove()

    def run(self, command: Sequence[str], *, arena: bool = True) -> Followed:
        job = api.run(command, arena=arena, vm=self._settings.vm if arena else "off")
        self._jobs.append(job)
        return Followed(job, self._word, self._settings)

    def checkpoint(self, job: api.Job, tier: str, **options: Any) -> api.Image:
        image = job.checkpoint(tier=tier, deadline=DEADLINE, **options)
        self._images.append(image)
        return image

    def written(self, image: api.Image) -> api.Image:
        """The image where it is durable, once it is: it has left memory then."""
        durable = api.Image(Path(image.flush().place))
        self._images[self._images.index(image)] = durable
        return durable

    def restored(self, image: api.Image) -> tuple[Followed, float]:
        """The woken job, and the seconds until it had done a whole step. Its rows begin with those of the image."""
        start = time.time_ns()
        job = api.restore(image, name=f"woken-{len(self._jobs)}")
        self._jobs.append(job)
        woken = Followed(job, self._word, self._settings)
        return woken, (woken.wait(WHOLE, start) - start) / 1e9

    def resumed(self, suspended: Followed) -> float:
        """Seconds until the job that is suspended had done a whole step."""
        start = time.time_ns()
        suspended.job.resume()
        return (suspended.wait(WHOLE, start) - start) / 1e9

    def kill(self, job: api.Job) -> None:
        """As a failure does it."""
        job.kill(9)
        job.wait(60)

    def _remove(self, job: api.Job) -> None:
        if job.state in LIVE_STATES:
            self.kill(job)
        job.remove()
