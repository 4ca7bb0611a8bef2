"""The processes that look for zero pages side by side (`page_worker`), and the talk with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torpor.errors import TorporError

MOST = 8
_PROGRAM = Path(__file__).with_name("page_worker.py")


class PageWorkers:
    """Worker processes, as many as processors up to `MOST`; they end with the context, or begin to by `dismiss`.

    Made before they are needed: their start then costs no time that counts.
    """

    def __init__(self) -> None:
        self._workers: list[subprocess.Popen[bytes]] = []
        self.count = min(MOST, len(os.sched_getaffinity(0)))

    def __enter__(self) -> PageWorkers:
        try:
            for _ in range(self.count):
                command = [sys.executable, "-I", "-S", str(_PROGRAM)]
                pipe = subprocess.PIPE
                self._workers.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL))
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def ask(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to at most `count` requests, worked on side by side.

        Raises OSError as a worker met it, TorporError when a worker is gone.
        """
        busy = list(zip(self._workers, requests, strict=False))
        for worker, request in busy:
            assert worker.stdin
            try:
                worker.stdin.write(json.dumps(request).encode() + b"\n")
                worker.stdin.flush()
            except BrokenPipeError:
                raise self._gone(worker) from None
        answers = [self._answer(worker) for worker, _ in busy]
        for answer in answers:
            if "errno" in answer:
                raise OSError(answer["errno"], answer["message"])
        return answers

    def dismiss(self) -> None:
        """Let all workers end, without waiting for it: what they have mapped takes time to give back."""
        for worker in self._workers:
            worker.kill()  # between requests, or after a failure that voids the folder: nothing to lose

    def end(self) -> None:
        """End all workers; may be called again."""
        self.dismiss()
        for worker in self._workers:
            worker.communicate()
        self._workers.clear()

    def _answer(self, worker: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert worker.stdout
        line = worker.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._gone(worker)
        found: dict[str, Any] = json.loads(line)
        return found

    @staticmethod
    def _gone(worker: subprocess.Popen[bytes]) -> TorporError:
        return TorporError(
            f"a process that searches the process image for zero pages ended early (status {worker.wait()})",
            hint="perhaps memory was short; try again",
        )
