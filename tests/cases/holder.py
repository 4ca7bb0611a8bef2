"""Runs kinds of resources: `holder.py GROUP FOLDER ROUNDS [KIND…]`.

Every kind of the group is set up, then the program says `ready`. For each round it waits for the file `go-<round>` in
its folder, asks every kind what it finds, and prints one line each, then `<round> done`: the same lines when nothing
happened to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    group, folder, rounds, *wanted = sys.argv[1:]
    module = importlib.import_module(f"tests.cases.{group}")
    kinds: dict[str, Callable[[Path], Callable[[], Any]]] = module.KINDS
    checks = {}
    for name in wanted or kinds:
        place = Path(folder, name)
        place.mkdir()
        checks[name] = kinds[name](place)
    print("ready", flush=True)
    for number in range(int(rounds)):
        while not Path(folder, f"go-{number}").exists():
            time.sleep(0.01)
        for name, check in checks.items():
            try:
                found = check()
            except Exception:  # noqa: BLE001  whatever it is, it is what the kind found
                found = traceback.format_exc().strip().splitlines()[-3:]
            print(number, name, json.dumps(found), flush=True)
        print(number, "done", flush=True)
    print("end", flush=True)
    for clean in getattr(module, "AFTERWARDS", []):
        clean()
    sys.stdout.close()
    end_family()
    os._exit(0)


def end_family() -> None:
    """Kill all descendants, those that they make meanwhile too; nobody may keep our streams open.

    A thread of ours may make new ones as others end (multiprocessing's pool does, in place of its dead workers): from
    here on it stops at its next fork, and is gone with us.
    """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    os.register_at_fork(before=threading.Event().wait)
    while True:
        for pid in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            # What is listed of children can miss some; the kernel's word that there are none cannot.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def below(pid: int) -> list[int]:
    """All descendants, parents first."""
    found = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found += [child, *below(child)]
    return found


main()
