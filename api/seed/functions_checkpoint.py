# ruff: noqa: E501
"""Functions of the checkpoint family: the driver's own checkpoint and restore. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuCheckpointProcessCheckpoint", ("int pid", "CUcheckpointCheckpointArgs *args",)),
    Function("cuCheckpointProcessGetRestoreThreadId", ("int pid", "int *tid",)),
    Function("cuCheckpointProcessGetState", ("int pid", "CUprocessState *state",)),
    Function("cuCheckpointProcessLock", ("int pid", "CUcheckpointLockArgs *args",)),
    Function("cuCheckpointProcessRestore", ("int pid", "CUcheckpointRestoreArgs *args",)),
    Function("cuCheckpointProcessUnlock", ("int pid", "CUcheckpointUnlockArgs *args",)),
)
