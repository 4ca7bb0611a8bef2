"""Which GPU takes whose part."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from torpor.driver.devices import Device
from torpor.errors import ImageMismatch, UsageError
from torpor.image.manifest import DeviceFacts, DriverFacts, HostFacts, JobFacts, Manifest, ProcessEntry
from torpor.keeper import gpu_map


@dataclass
class Host:
    """As much of a driver as the choice asks for: its devices and its version."""

    devices: tuple[Device, ...]
    version: int = 13000

    def by_uuid(self, name: str) -> Device | None:
        return next((device for device in self.devices if device.uuid == name), None)


def device(ordinal: int, uuid: str, arch: str = "9.0", memory: int = 80 << 30) -> Device:
    return Device(ordinal, uuid, f"Card {arch}", arch, memory, rdma=False, decompression=False)


def image(*uuids: str, arch: str = "9.0") -> Manifest:
    devices = [
        DeviceFacts(ordinal=number, uuid=uuid, name=f"Card {arch}", arch=arch, memory=80 << 30)
        for number, uuid in enumerate(uuids)
    ]
    return Manifest(
        name="i",
        created="2025-01-01T00:00:00Z",
        torpor="0",
        job=JobFacts(name="j", command=["x"], cwd="/"),
        host=HostFacts(kernel="6", machine="x86_64", criu="4.1"),
        driver=DriverFacts(kind="nvidia", version=13000),
        root=300,
        stdio={},
        processes=[ProcessEntry(pid=300, devices=devices, blocks=[])],
        files=[],
        tier="disk",
        gpu_bytes=0,
        cpu_bytes=0,
    )


def test_gpus_that_are_here_keep_their_part() -> None:
    host = Host((device(0, "GPU-a"), device(1, "GPU-b")))
    assert gpu_map.choose(host, image("GPU-b", "GPU-a"), {}) == {"GPU-b": "GPU-b", "GPU-a": "GPU-a"}  # type: ignore[arg-type]


def test_on_another_host_parts_go_to_gpus_that_fit() -> None:
    host = Host((device(0, "GPU-x", arch="8.0"), device(1, "GPU-y", memory=40 << 30), device(2, "GPU-z")))
    assert gpu_map.choose(host, image("GPU-a", "GPU-b"), {}) == {"GPU-a": "GPU-z", "GPU-b": "GPU-y"}  # type: ignore[arg-type]


def test_pairs_by_index_and_by_uuid() -> None:
    host = Host((device(0, "GPU-a"), device(1, "GPU-b")))
    assert gpu_map.choose(host, image("GPU-a", "GPU-b"), {"0": "1"}) == {"GPU-a": "GPU-b", "GPU-b": "GPU-a"}  # type: ignore[arg-type]
    assert gpu_map.choose(host, image("GPU-a"), {"GPU-a": "GPU-b"}) == {"GPU-a": "GPU-b"}  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs", [{"2": "0"}, {"0": "9"}, {"GPU-q": "0"}, {"0": "0", "1": "0"}])
def test_pairs_that_name_nothing_are_refused(pairs: dict[str, str]) -> None:
    host = Host((device(0, "GPU-a"), device(1, "GPU-b")))
    with pytest.raises(UsageError):
        gpu_map.choose(host, image("GPU-a", "GPU-b"), pairs)  # type: ignore[arg-type]


def test_another_architecture_is_a_mismatch() -> None:
    host = Host((device(0, "GPU-a", arch="8.0"),))
    with pytest.raises(ImageMismatch, match=r"9\.0"):
        gpu_map.choose(host, image("GPU-b"), {})  # type: ignore[arg-type]
    with pytest.raises(ImageMismatch, match=r"9\.0"):
        gpu_map.choose(host, image("GPU-b"), {"0": "0"})  # type: ignore[arg-type]


def test_too_few_gpus_is_a_mismatch() -> None:
    with pytest.raises(ImageMismatch):
        gpu_map.choose(Host((device(0, "GPU-x"),)), image("GPU-a", "GPU-b"), {})  # type: ignore[arg-type]


def test_a_newer_driver_or_another_kind_is_a_mismatch() -> None:
    with pytest.raises(ImageMismatch, match="13010"):
        gpu_map.check_driver(Host(()), "gpu", DriverFacts(kind="nvidia", version=13010))  # type: ignore[arg-type]
    with pytest.raises(ImageMismatch, match="sim"):
        gpu_map.check_driver(Host(()), "gpu", DriverFacts(kind="sim", version=13000))  # type: ignore[arg-type]
    gpu_map.check_driver(Host(()), "gpu", DriverFacts(kind="nvidia", version=12080))  # type: ignore[arg-type]
