"""The job of the arena's and the control thread's tests: makes driver calls and evaluates Python, as told on stdin.

One JSON object per line in, one per line out. It does what an unmodified program does: it links to `libcuda.so.1`.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any


def open_files() -> dict[int, str]:
    """What each descriptor of this process is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = str(Path(f"/proc/self/fd/{name}").readlink())
        except FileNotFoundError:
            pass  # the listing's own
    return found


_NAMES: dict[str, Any] = {"open_files": open_files, "os": os, "ctypes": ctypes}
_library: ctypes.CDLL | None = None
_kept: list[Any] = []  # buffers and callbacks that the driver may still use


def _cuda() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = ctypes.CDLL("libcuda.so.1")
    return _library


_NAMES["cuda"] = _cuda


def _argument(told: Any, outputs: list[Any]) -> Any:
    if told is None:
        return ctypes.c_void_p(None)
    if isinstance(told, int):
        return ctypes.c_uint64(told)
    if "out" in told:  # a zeroed buffer whose bytes are reported
        buffer = ctypes.create_string_buffer(told["out"])
        outputs.append(buffer)
        return buffer
    if "bytes" in told:
        buffer = ctypes.create_string_buffer(bytes.fromhex(told["bytes"]), max(1, len(told["bytes"]) // 2))
        _kept.append(buffer)
        return buffer
    if "wait" in told:  # a host function that returns once the descriptor can be read
        descriptor = told["wait"]
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _data: (os.read(descriptor, 1), None)[1])
        _kept.append(callback)
        return callback
    raise ValueError(told)


def _call(told: dict[str, Any]) -> dict[str, Any]:
    outputs: list[Any] = []
    arguments = [_argument(each, outputs) for each in told["args"]]
    result = getattr(_cuda(), told["call"])(*arguments)
    return {"result": result, "outs": [buffer.raw.hex() for buffer in outputs]}


def main() -> None:
    threads: dict[int, tuple[threading.Thread, dict[str, Any]]] = {}
    names: dict[str, Any] = dict(_NAMES)
    for line in sys.stdin:
        told = json.loads(line)
        if "eval" in told:
            answer: dict[str, Any] = {"value": eval(told["eval"], names)}
        elif "exec" in told:
            exec(told["exec"], names)
            answer = {}
        elif "join" in told:
            thread, box = threads[told["join"]]
            thread.join(told["seconds"])
            answer = {"done": not thread.is_alive(), **box}
        elif told.get("thread"):
            box = {}

            def run(told: dict[str, Any] = told, box: dict[str, Any] = box) -> None:
                for each in told["first"]:
                    _call(each)
                box["tid"] = threading.get_native_id()
                box.update(_call(told))

            started = threading.Thread(target=run, daemon=True)
            started.start()
            threads[len(threads)] = (started, box)
            answer = {"thread": len(threads) - 1}
        else:
            answer = _call(told)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
