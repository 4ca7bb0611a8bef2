"""How long GPUs are at work, by the vendor's management library: counters of the hardware, which no job notices."""

from __future__ import annotations

import ctypes
import time
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_GRAPHICS_UTILISATION = 1
_METRICS = 1024
"""More than any version of the library fills in; the array is the structure's end."""


class _Support(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("supported", ctypes.c_uint)]


class _Metric(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    ]


class _Query(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", _Metric * _METRICS),
    ]


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Utilisation:
    """Devices by UUID. `source` says where the figures come from, "" when there is nothing that could tell.

    From Hopper on the library reads a counter of the time in which the compute or graphics pipes were busy, exact
    between two readings. Older GPUs give the share of the last sampling period (up to a second), which is coarse.
    """

    def __init__(self, uuids: list[str]) -> None:
        self.source = ""
        self._read = time.monotonic()
        self._handles: dict[str, ctypes.c_void_p] = {}
        self._samples: dict[str, ctypes.c_void_p] = {}
        try:
            self._nvml: Any = ctypes.CDLL(_LIBRARY)
        except OSError:
            return
        if self._nvml.nvmlInit_v2() != 0:
            return
        for uuid in uuids:
            handle = ctypes.c_void_p()
            if self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) == 0:
                self._handles[uuid] = handle
        counters = bool(self._handles) and all(self._has_counters(handle) for handle in self._handles.values())
        for uuid, handle in self._handles.items() if counters else ():
            sample = self._sample(handle)
            if sample is not None:
                self._samples[uuid] = sample
        if self._samples:
            self.source = "NVML, counters of the hardware"
        elif self._handles:
            self.source = "NVML, utilisation of the last sampling period (coarse)"
        self._read = time.monotonic()

    def busy(self) -> dict[str, float]:
        """Seconds for which each device was at work since the last call, or since the object was made."""
        now = time.monotonic()
        passed, self._read = now - self._read, now
        found = {}
        for uuid, handle in self._handles.items():
            share = self._counted(uuid, handle) if self._samples else self._sampled(handle)
            if share is not None:
                found[uuid] = share * passed
        return found

    def _has_counters(self, handle: ctypes.c_void_p) -> bool:
        query = getattr(self._nvml, "nvmlGpmQueryDeviceSupport", None)
        support = _Support(version=1)
        return query is not None and query(handle, ctypes.byref(support)) == 0 and bool(support.supported)

    def _sample(self, handle: ctypes.c_void_p) -> ctypes.c_void_p | None:
        sample = ctypes.c_void_p()
        if self._nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)) != 0:
            return None
        if self._nvml.nvmlGpmSampleGet(handle, sample) != 0:
            self._nvml.nvmlGpmSampleFree(sample)
            return None
        return sample

    def _counted(self, uuid: str, handle: ctypes.c_void_p) -> float | None:
        before, sample = self._samples.get(uuid), self._sample(handle)
        if before is None or sample is None:
            return None
        query = _Query(version=1, count=1, first=before, second=sample)
        query.metrics[0].id = _GRAPHICS_UTILISATION
        done = self._nvml.nvmlGpmMetricsGet(ctypes.byref(query)) == 0 and query.metrics[0].status == 0
        self._nvml.nvmlGpmSampleFree(before)
        self._samples[uuid] = sample
        return float(query.metrics[0].value) / 100 if done else None

    def _sampled(self, handle: ctypes.c_void_p) -> float | None:
        rates = _Rates()
        if self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) != 0:
            return None
        return float(rates.gpu) / 100
