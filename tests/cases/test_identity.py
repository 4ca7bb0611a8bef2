"""A job that wakes on another GPU or beside another driver: every name of the GPU is the new one's, or the restore is
refused by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import eventually, stop_keepers
from tests.flow.walking import finish
from torpor import paths
from torpor.errors import ImageMismatch, UsageError
from torpor.keeper import elf, restore

A, B, C = (f"GPU-00000000-0000-4000-8000-00000000000{letter}" for letter in "abc")

TELLS = """
import os, sys, time
from tests.cases.streams import check, context
from cuda.bindings import driver

def told():
    device = check(driver.cuCtxGetDevice())
    raw = bytes(check(driver.cuDeviceGetUuid(device)).bytes).hex()
    bus = check(driver.cuDeviceGetPCIBusId(64, device)).split(b"\\0")[0]
    units = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    by_bus = check(driver.cuDeviceGetByPCIBusId(bus))
    return raw[-1], bus.decode(), int(by_bus) == int(device), check(driver.cuDeviceGetAttribute(units, device)) > 0

context()
print("ready", *told(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("now", *told(), flush=True)
"""


@pytest.mark.criu
def test_every_name_is_that_of_the_new_gpu(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UUID, bus id, the search by bus id and the answers about the device, as in a program that starts there."""
    monkeypatch.setenv("TORPOR_SIM_UUID", f"{A},{B}")
    monkeypatch.setenv("TORPOR_SIM_DEVICES", "1")
    program = [sys.executable, "-c", TELLS, str(tmp_path / "go")]
    job = torpor.run(program, name="tells", gpu="sim", env=rounds.ENVIRONMENT)
    eventually(lambda: rounds.output(job))
    image = job.checkpoint(tier="dram")
    stop_keepers(home)
    monkeypatch.setenv("TORPOR_SIM_UUID", f"{B},{C}")
    monkeypatch.setenv("TORPOR_SIM_DEVICES", "2")
    with pytest.raises(UsageError, match="no GPU '2'"):
        torpor.restore(image, gpu_map={"0": "2"})
    with pytest.raises(UsageError, match=f"no GPU '{A}'"):
        torpor.restore(image, gpu_map={"0": A})
    woken = torpor.restore(image, gpu_map={"0": C})
    (tmp_path / "go").touch()
    now, before = (line.split() for line in finish(woken))
    assert before[:2] == ["ready", "a"]
    assert now[:2] == ["now", "c"]
    assert before[3:] == now[3:] == ["True", "True"]


def manifest(path: Path, build: str) -> Any:
    """What a restore looks at of a manifest when it compares driver libraries."""
    return SimpleNamespace(driver=SimpleNamespace(kind="nvidia", version=13000, path=str(path), build_id=build))


def test_another_build_of_the_driver_library_is_named(tmp_path: Path) -> None:
    ours = paths.interposer()
    assert ours is not None
    library = tmp_path / "libcuda.so.580.1"
    shutil.copy(ours, library)
    build = elf.build_id(library)
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    assert build
    assert f"Build ID: {build}" in notes
    restore._check_library(manifest(library, build))
    with pytest.raises(ImageMismatch, match=f"{library}, which the job has mapped, is another build") as caught:
        restore._check_library(manifest(library, build[:-1] + ("0" if build[-1] != "0" else "1")))
    assert caught.value.details["here"] == build
    library.rename(tmp_path / "libcuda.so.580.2")
    with pytest.raises(ImageMismatch, match=f"{library}, which the job has mapped, is missing"):
        restore._check_library(manifest(library, build))
