"""The driver, its devices and their primary contexts."""

from __future__ import annotations

import ctypes
import threading
import uuid
from dataclasses import dataclass

from cuda.bindings import driver as cu

from torpor.driver.results import check
from torpor.errors import DriverMissing, TorporError


@dataclass(frozen=True)
class Device:
    """One GPU. `uuid` as `GPU-xxxxxxxx-…`, `arch` as `9.0`, `memory` in bytes, `rdma` and `decompression` what
    memory of this device can be made for: registration for RDMA, decompression in hardware."""

    ordinal: int
    uuid: str
    name: str
    arch: str
    memory: int
    rdma: bool
    decompression: bool


class Driver:
    """The initialised driver. Threads may share it; a thread calls `bind` before it copies."""

    def __init__(self) -> None:
        """Initialise the driver and read its devices; DriverMissing when there is no driver or no device."""
        try:
            check("cuInit", cu.cuInit(0))
        except TorporError:
            raise
        except Exception as error:  # the bindings raise RuntimeError when the library cannot be loaded
            raise DriverMissing(
                f"the CUDA driver cannot be loaded: {error}", hint="install it, or use --gpu sim"
            ) from error
        self.version: int = int(check("cuDriverGetVersion", cu.cuDriverGetVersion()))
        count = int(check("cuDeviceGetCount", cu.cuDeviceGetCount()))
        self.devices: tuple[Device, ...] = tuple(_read_device(ordinal) for ordinal in range(count))
        self._contexts: dict[int, object] = {}
        self._locks = [threading.Lock() for _ in self.devices]

    def bind(self, ordinal: int) -> None:
        """Make the device's primary context current for this thread; the first call creates it (0.2–0.5 s)."""
        with self._locks[ordinal]:
            context = self._contexts.get(ordinal)
            if context is None:
                device = check("cuDeviceGet", cu.cuDeviceGet(ordinal))
                # Threads that wait for copies sleep instead of spinning: CRIU needs the cores meanwhile.
                flags = cu.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC.value
                check("cuDevicePrimaryCtxSetFlags", cu.cuDevicePrimaryCtxSetFlags(device, flags))
                context = check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(device))
                self._contexts[ordinal] = context
        check("cuCtxSetCurrent", cu.cuCtxSetCurrent(context))

    def bind_any(self) -> None:
        """Make sure that this thread has a context; whichever it has already will do."""
        if int(check("cuCtxGetCurrent", cu.cuCtxGetCurrent())) == 0:
            self.bind(0)

    def warm(self) -> None:
        """Create every device's primary context, all at once."""
        threads = [threading.Thread(target=self.bind, args=(device.ordinal,)) for device in self.devices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def free_memory(self, ordinal: int) -> int:
        """Free bytes on the device now."""
        self.bind(ordinal)
        free, _total = check("cuMemGetInfo", cu.cuMemGetInfo())
        return int(free)

    def by_uuid(self, name: str) -> Device | None:
        """The device with this UUID, or None."""
        return next((device for device in self.devices if device.uuid == name), None)

    def close(self) -> None:
        """Give the primary contexts back."""
        for ordinal in list(self._contexts):
            del self._contexts[ordinal]
            device = check("cuDeviceGet", cu.cuDeviceGet(ordinal))
            check("cuDevicePrimaryCtxRelease", cu.cuDevicePrimaryCtxRelease(device))


def uuid_bytes(name: str) -> bytes:
    """The 16 bytes of `GPU-xxxxxxxx-…`."""
    return uuid.UUID(name.removeprefix("GPU-")).bytes


def raw_uuid(name: str) -> cu.CUuuid:
    """The driver's structure for `GPU-xxxxxxxx-…`."""
    value = cu.CUuuid()
    ctypes.memmove(int(value.getPtr()), uuid_bytes(name), 16)
    return value


def _read_device(ordinal: int) -> Device:
    device = check("cuDeviceGet", cu.cuDeviceGet(ordinal))
    identity = check("cuDeviceGetUuid", cu.cuDeviceGetUuid(device))
    name = check("cuDeviceGetName", cu.cuDeviceGetName(128, device))
    attribute = cu.CUdevice_attribute
    major = _attribute(device, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = _attribute(device, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    rdma = attribute.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    decompression = attribute.CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK
    return Device(
        ordinal=ordinal,
        uuid=f"GPU-{uuid.UUID(bytes=bytes(ctypes.string_at(int(identity.getPtr()), 16)))}",
        name=name.split(b"\0", 1)[0].decode(errors="replace"),
        arch=f"{major}.{minor}",
        memory=int(check("cuDeviceTotalMem", cu.cuDeviceTotalMem(device))),
        rdma=_has(device, rdma),
        decompression=_has(device, decompression),
    )


def _has(device: cu.CUdevice, which: cu.CUdevice_attribute) -> bool:
    """Whether an attribute that older drivers may not know is there and not zero."""
    status, value = cu.cuDeviceGetAttribute(which, device)
    return status == cu.CUresult.CUDA_SUCCESS and bool(value)


def _attribute(device: object, which: cu.CUdevice_attribute) -> int:
    return int(check("cuDeviceGetAttribute", cu.cuDeviceGetAttribute(which, device)))
