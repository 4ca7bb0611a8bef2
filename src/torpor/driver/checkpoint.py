"""The vendor's checkpoint of one process: `cuCheckpointProcess{GetState,Lock,Checkpoint,Restore,Unlock}`.

Process ids are those of the caller's PID namespace. Every call blocks without the GIL (0.2–0.5 s for checkpoint and
restore), so calls for several processes overlap when made from several threads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum

from cuda.bindings import driver as cu

from torpor.driver.devices import raw_uuid
from torpor.driver.results import check, failure
from torpor.errors import MissingPart

_NEEDED = (
    "cuCheckpointProcessGetState",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
)


class ProcessState(Enum):
    RUNNING = "running"
    LOCKED = "locked"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"
    NONE = "none"
    """The driver knows no such process: it has not initialised CUDA, or is gone."""


class Checkpointing:
    """The calls, once it is known that this driver has them."""

    def __init__(self, driver_version: int) -> None:
        """MissingPart, naming the calls, when this driver is too old for them."""
        missing = [name for name in _NEEDED if not _has(name, driver_version)]
        if missing:
            raise MissingPart(
                f"this driver (CUDA {driver_version // 1000}.{driver_version % 1000 // 10}) lacks {', '.join(missing)}",
                hint="use driver 570 or newer",
            )

    def state(self, pid: int) -> ProcessState:
        returned = cu.cuCheckpointProcessGetState(pid)
        if int(returned[0]) != 0:
            if os.path.exists(f"/proc/{pid}") and int(returned[0]) not in _NO_PROCESS:
                raise failure("cuCheckpointProcessGetState", int(returned[0]))
            return ProcessState.NONE
        return _STATES[int(returned[1])]

    def lock(self, pid: int, seconds: float) -> None:
        """Stop the process's driver calls, waiting at most `seconds` for those under way."""
        arguments = cu.CUcheckpointLockArgs()
        arguments.timeoutMs = max(1, int(seconds * 1000))
        check("cuCheckpointProcessLock", cu.cuCheckpointProcessLock(pid, arguments))

    def checkpoint(self, pid: int) -> None:
        """Bring what the locked process still has on GPUs into its own host memory, and let go of the GPUs."""
        check("cuCheckpointProcessCheckpoint", cu.cuCheckpointProcessCheckpoint(pid, None))

    def restore(self, pid: int, moved: Mapping[str, str] | None = None) -> None:
        """Undo `checkpoint`, leaving the process locked. `moved` maps old GPU UUIDs to new; None: the same GPUs."""
        arguments = None
        if moved:
            arguments = cu.CUcheckpointRestoreArgs()
            pairs = []
            for old, new in moved.items():
                pair = cu.CUcheckpointGpuPair()
                pair.oldUuid = raw_uuid(old)
                pair.newUuid = raw_uuid(new)
                pairs.append(pair)
            arguments.gpuPairs = pairs
            arguments.gpuPairsCount = len(pairs)
        check("cuCheckpointProcessRestore", cu.cuCheckpointProcessRestore(pid, arguments))

    def unlock(self, pid: int) -> None:
        check("cuCheckpointProcessUnlock", cu.cuCheckpointProcessUnlock(pid, None))


_STATES = {
    int(cu.CUprocessState.CU_PROCESS_STATE_RUNNING): ProcessState.RUNNING,
    int(cu.CUprocessState.CU_PROCESS_STATE_LOCKED): ProcessState.LOCKED,
    int(cu.CUprocessState.CU_PROCESS_STATE_CHECKPOINTED): ProcessState.CHECKPOINTED,
    int(cu.CUprocessState.CU_PROCESS_STATE_FAILED): ProcessState.FAILED,
}
_NO_PROCESS = frozenset(
    int(code)
    for code in (
        cu.CUresult.CUDA_ERROR_INVALID_VALUE,
        cu.CUresult.CUDA_ERROR_NOT_INITIALIZED,
        cu.CUresult.CUDA_ERROR_NOT_FOUND,
        cu.CUresult.CUDA_ERROR_OPERATING_SYSTEM,
    )
)


def _has(name: str, driver_version: int) -> bool:
    returned = cu.cuGetProcAddress(name.encode(), driver_version, 0)
    return int(returned[0]) == 0 and bool(int(returned[1] or 0))
