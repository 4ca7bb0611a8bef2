"""Makes driver calls as programs say, and tells what each returned: natively, or with calls deferred.

A program is a list of steps over a few streams, events and buffers. A buffer belongs to one stream at a time, so what
the steps compute is certain although the streams run side by side: `hand` gives it to another by an event. Buffers that
meet the legacy stream need none, it waits for all others and they for it.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance import gpu
from tests.vm.world import World


class Threads:
    """Makes calls in one of several threads, one after the other."""

    def __init__(self, count: int, context: Any) -> None:
        self._todo: list[queue.Queue[Callable[[], None] | None]] = [queue.Queue() for _ in range(count)]
        self._threads = [threading.Thread(target=self._serve, args=(todo, context)) for todo in self._todo]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _serve(todo: queue.Queue[Callable[[], None] | None], context: Any) -> None:
        gpu.call("cuCtxSetCurrent", context)
        while work := todo.get():
            work()

    def __call__(self, thread: int, step: Callable[[], Any]) -> Any:
        done: queue.Queue[Any] = queue.Queue()

        def work() -> None:
            try:
                done.put(step())
            except Exception as error:  # noqa: BLE001 - it is told to whoever waits
                done.put(f"{type(error).__name__}: {error}")

        self._todo[thread].put(work)
        return done.get()

    def end(self) -> None:
        for todo in self._todo:
            todo.put(None)
        for thread in self._threads:
            thread.join()


def run(steps: list[Any], threads: Threads) -> list[Any]:
    world = World()
    said = [
        threads(thread, lambda name=name, given=given: getattr(world, name)(*given)) for thread, name, *given in steps
    ]
    if any(name == "stray" for _, name, *_ in steps):
        return said
    said.append(world.whole())
    world.end()
    return said


def tell(said: list[Any]) -> None:
    """Print what the calls returned and, where the interposer is, what it did with them."""
    counts = None
    if folder := os.environ.get("TORPOR_JOB_DIR"):
        from torpor.keeper.control import ControlClient

        with ControlClient(Path(folder) / "ctl", os.getpid()) as control:
            counts = control.hello().vm
    json.dump({"said": said, "vm": counts}, sys.stdout)


def main() -> None:
    programs = json.load(sys.stdin)
    gpu.start()
    threads = Threads(2, gpu.call("cuCtxGetCurrent"))
    said = [run(steps, threads) for steps in programs]
    threads.end()
    tell(said)


if __name__ == "__main__":
    main()
