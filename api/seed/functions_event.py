"""Functions of the event family: events. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuEventCreate", ("CUevent *phEvent", "unsigned int Flags",)),
    Function("cuEventDestroy", ("CUevent hEvent",)),
    Function("cuEventDestroy_v2", ("CUevent hEvent",)),
    Function("cuEventElapsedTime", ("float *pMilliseconds", "CUevent hStart", "CUevent hEnd",)),
    Function("cuEventElapsedTime_v2", ("float *pMilliseconds", "CUevent hStart", "CUevent hEnd",)),
    Function("cuEventQuery", ("CUevent hEvent",)),
    Function("cuEventRecord", ("CUevent hEvent", "CUstream hStream",)),
    Function("cuEventRecordWithFlags", ("CUevent hEvent", "CUstream hStream", "unsigned int flags",)),
    Function("cuEventRecordWithFlags_ptsz", ("CUevent hEvent", "CUstream hStream", "unsigned int flags",)),
    Function("cuEventRecord_ptsz", ("CUevent hEvent", "CUstream hStream",)),
    Function("cuEventSynchronize", ("CUevent hEvent",)),
)
