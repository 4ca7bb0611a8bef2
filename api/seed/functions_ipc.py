# ruff: noqa: E501
"""Functions of the ipc family: sharing memory and events between processes. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuIpcCloseMemHandle", ("CUdeviceptr dptr",)),
    Function("cuIpcGetEventHandle", ("CUipcEventHandle *pHandle", "CUevent event",)),
    Function("cuIpcGetMemHandle", ("CUipcMemHandle *pHandle", "CUdeviceptr dptr",)),
    Function("cuIpcOpenEventHandle", ("CUevent *phEvent", "CUipcEventHandle handle",)),
    Function("cuIpcOpenMemHandle", ("CUdeviceptr *pdptr", "CUipcMemHandle handle", "unsigned int Flags",)),
    Function("cuIpcOpenMemHandle_v2", ("CUdeviceptr *pdptr", "CUipcMemHandle handle", "unsigned int Flags",)),
)
