"""The one place where a `CUresult` becomes an error of ours, with what to do about it."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from torpor.errors import DriverMissing, MissingPart, NoRights, NoSpace, Refused, TorporError, WrongState

_MEANING: dict[str, tuple[type[TorporError], str, str | None]] = {
    "CUDA_ERROR_OUT_OF_MEMORY": (
        NoSpace,
        "the GPU or the host lacks memory for it",
        "free device memory (`nvidia-smi` lists who uses it) and try again",
    ),
    "CUDA_ERROR_NO_DEVICE": (DriverMissing, "the driver sees no GPU", "check `nvidia-smi`, or use --gpu sim"),
    "CUDA_ERROR_NOT_INITIALIZED": (DriverMissing, "the driver is not initialised", None),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        DriverMissing,
        "the driver library and the kernel's driver differ",
        "reboot, or reload the kernel module, after a driver update",
    ),
    "CUDA_ERROR_NOT_PERMITTED": (NoRights, "the driver does not permit it", "run as the job's user, or as root"),
    "CUDA_ERROR_NOT_SUPPORTED": (
        Refused,
        "the driver does not support it for what the process holds",
        "managed memory (also a __managed__ variable that kernels alone use), imported memory and some graphics "
        "interoperation cannot be checkpointed",
    ),
    "CUDA_ERROR_ILLEGAL_STATE": (WrongState, "the process is not in a state that allows it", None),
    "CUDA_ERROR_NOT_READY": (WrongState, "the process did not come to rest in time", "give it more time"),
    "CUDA_ERROR_NOT_FOUND": (MissingPart, "this driver lacks the call", "use driver 570 or newer"),
    "CUDA_ERROR_STUB_LIBRARY": (
        DriverMissing,
        "the library found is the toolkit's stub, not the driver",
        "install the driver, or take the stub's folder out of LD_LIBRARY_PATH",
    ),
}


def result_name(code: int) -> str:
    """The driver's own name of a `CUresult`, `CUDA_ERROR_…`, or its number when the bindings do not know it."""
    try:
        return str(cu.CUresult(code).name)
    except ValueError:
        return f"CUresult {code}"


def failure(call: str, code: int) -> TorporError:
    """The error for `call` having returned `code` (not 0); `details` hold `call`, `result` and `code`."""
    name = result_name(code)
    kind, meaning, hint = _MEANING.get(name, (TorporError, "", None))
    because = f": {meaning}" if meaning else ""
    return kind(
        f"{call} returned {name} ({code}){because}",
        hint=hint,
        details={"call": call, "result": name, "result_code": code},
    )


def check(call: str, returned: tuple[Any, ...]) -> Any:
    """The values of a `cuda-bindings` call: None, the one value, or a tuple. Raises `failure` when it failed."""
    code = int(returned[0])
    if code != 0:
        raise failure(call, code)
    values = returned[1:]
    if not values:
        return None
    return values[0] if len(values) == 1 else values
