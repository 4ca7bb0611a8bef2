"""Which GPU of this host takes the part of which GPU of an image, and whether it can."""

from __future__ import annotations

from collections.abc import Mapping

from torpor.driver.devices import Device, Driver
from torpor.errors import ImageMismatch, NoSpace, UsageError
from torpor.image.manifest import DeviceFacts, DriverFacts, Manifest

CONTEXT_BYTES = 600 << 20
"""Device memory that a context and its modules may take beside the blocks, on a GPU."""


def choose(driver: Driver, manifest: Manifest, wanted: Mapping[str, str]) -> dict[str, str]:
    """Old UUID → UUID of this host, for every GPU that the image's processes see.

    `wanted` pairs old and new by index (of the image's GPUs in order, of this host's) or by UUID. What it leaves open
    stays on the same GPU where that is here, and else goes to the first free one of the same architecture that is
    large enough. Raises UsageError for pairs that name nothing, ImageMismatch where nothing fits.
    """
    old = image_devices(manifest)
    chosen: dict[str, str] = {}
    for left, right in wanted.items():
        source = _old(old, left)
        target = _new(driver, right)
        _check_fit(source, target)
        chosen[source.uuid] = target.uuid
    if len(set(chosen.values())) != len(chosen):
        raise UsageError("two GPUs of the image cannot go to the same GPU")
    for source in old:
        if source.uuid not in chosen and driver.by_uuid(source.uuid) and source.uuid not in chosen.values():
            chosen[source.uuid] = source.uuid
    for source in old:
        if source.uuid not in chosen:
            chosen[source.uuid] = _first_fit(driver, source, set(chosen.values()))
    for source in old:
        _check_fit(source, _new(driver, chosen[source.uuid]))
    return chosen


def image_devices(manifest: Manifest) -> list[DeviceFacts]:
    """Every GPU that some process of the image sees, each once, in order of ordinals."""
    seen: dict[str, DeviceFacts] = {}
    for process in manifest.processes:
        for device in process.devices:
            seen.setdefault(device.uuid, device)
    return list(seen.values())


def check_memory(driver: Driver, backend: str, needed: Mapping[str, int]) -> None:
    """NoSpace when a GPU lacks the bytes that are to go onto it (`needed`, by UUID of this host)."""
    for uuid, size in needed.items():
        device = _new(driver, uuid)
        total = size + (CONTEXT_BYTES if backend == "gpu" else 0)
        free = driver.free_memory(device.ordinal)
        if total > free:
            raise NoSpace(
                f"GPU {device.ordinal} ({device.name}) has {free >> 20} MiB free, the image needs {total >> 20} MiB",
                hint="free memory on it (`nvidia-smi` lists who uses it), or choose another with --gpu-map",
                details={"needed": total, "free": free, "uuid": uuid},
            )


def check_driver(driver: Driver, backend: str, facts: DriverFacts) -> None:
    """ImageMismatch when the image was made under another kind of driver, or a newer one."""
    kind = "sim" if backend == "sim" else "nvidia"
    if facts.kind != kind:
        raise ImageMismatch(f"the image was made on {facts.kind}, this keeper serves {kind}")
    if facts.version > driver.version:
        raise ImageMismatch(
            f"the image was made under driver API {facts.version}, this host has {driver.version}",
            hint="update this host's driver",
        )


def _old(devices: list[DeviceFacts], name: str) -> DeviceFacts:
    if name.isdecimal() and int(name) < len(devices):
        return devices[int(name)]
    for device in devices:
        if device.uuid == name:
            return device
    known = ", ".join(device.uuid for device in devices) or "none"
    raise UsageError(f"the image has no GPU {name!r}", hint=f"it has: {known}")


def _new(driver: Driver, name: str) -> Device:
    if name.isdecimal() and int(name) < len(driver.devices):
        return driver.devices[int(name)]
    found = driver.by_uuid(name)
    if found is None:
        known = ", ".join(device.uuid for device in driver.devices) or "none"
        raise UsageError(f"this host has no GPU {name!r}", hint=f"it has: {known}")
    return found


def _check_fit(source: DeviceFacts, target: Device) -> None:
    if source.arch != target.arch:
        raise ImageMismatch(
            f"the image was made on {source.name} (architecture {source.arch}); "
            f"GPU {target.ordinal} here is {target.name} ({target.arch})",
            hint="restore on a GPU of the same architecture",
            details={"image": source.arch, "here": target.arch},
        )


def _first_fit(driver: Driver, source: DeviceFacts, taken: set[str]) -> str:
    free = [device for device in driver.devices if device.uuid not in taken]
    for device in free:
        if device.arch == source.arch and device.memory >= source.memory:
            return device.uuid
    for device in free:
        if device.arch == source.arch:
            return device.uuid
    here = ", ".join(f"{device.name} ({device.arch})" for device in driver.devices) or "none"
    raise ImageMismatch(
        f"no GPU here for the image's {source.name} (architecture {source.arch}); here: {here}",
        hint="restore on a host with as many GPUs of the same architecture",
        details={"image": source.arch, "here": [device.arch for device in driver.devices]},
    )
