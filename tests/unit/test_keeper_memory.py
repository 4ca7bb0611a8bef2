"""Rows and segments on the software GPU: what goes out comes back, and nothing is held afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.on_sim import run_on_sim

ROUND = """
import hashlib, os, random, sys, threading
from pathlib import Path
from torpor.driver import Driver, copies
from torpor.image.manifest import SEGMENT
from torpor.keeper import hostmem, placement
from torpor.keeper.memory import Descriptors, MappedRow
from torpor.keeper.placement import PlacedBlock
from torpor.keeper.pool import Pool
from torpor.keeper.segments import Filler, Saver

place, pool_place, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
driver = Driver()
driver.warm()
driver.bind(0)
MIB = 1 << 20
sizes = [2 * MIB, 150 * MIB, 6 * MIB, 64 * MIB, 2 * MIB]
placed = [(driver.devices[n % 2].uuid, PlacedBlock(300, (n + 1) << 32, size, n % 2)) for n, size in enumerate(sizes)]
rows = placement.rows(placed)

def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd")
                  if os.path.islink(f"/proc/self/fd/{n}"))

def free():
    return [driver.free_memory(d.ordinal) for d in driver.devices]

def pin(address, size):
    driver.bind_any()
    copies.pin(address, size)

def unpin(address):
    driver.bind_any()
    copies.unpin(address)

def digest(row):
    driver.bind(row.device.ordinal)
    host = bytearray(row.size)
    from cuda.bindings import driver as cu
    assert cu.cuMemcpyDtoH(host, row.base, row.size)[0] == 0
    return hashlib.blake2b(host).hexdigest()

before_free, before_files = free(), open_files()
pool = Pool(pool_place, pin, unpin, limit)
from cuda.bindings import driver as cu
wanted = {}
with Descriptors() as descriptors:
    imported = {}
    for row in rows:
        device = driver.by_uuid(row.uuid)
        with MappedRow.created(driver, device, [b.size for b in row.blocks]) as made:
            data = random.Random(row.uuid).randbytes(row.size)
            assert cu.cuMemcpyHtoD(made.base, data, row.size)[0] == 0
            wanted[row.uuid] = digest(made)
            own = made.export()
            descriptors.extend(own)
        imported[row.uuid] = MappedRow.imported(driver, device, list(zip(own, [b.size for b in row.blocks])))
    (place / "gpu").mkdir(parents=True)
    in_memory = place.stat().st_dev == pool_place.stat().st_dev
    saver = Saver(driver, pool, place, in_memory)
    counted = []
    moved = saver.save(imported, placement.cut(rows), counted.append)
    assert moved.bytes == sum(sizes) == sum(counted), moved
    for row in imported.values():
        row.close()
assert free() == before_free, (free(), before_free)

filler = Filler(driver, pool, place, saver.entries)
assert filler.in_memory() == in_memory
fresh = {row.uuid: MappedRow.created(driver, driver.by_uuid(row.uuid), [b.size for b in row.blocks]) for row in rows}
filler.fill(fresh, placement.assemble(rows, placement.extents(rows)), lambda count: None)
assert {uuid: digest(row) for uuid, row in fresh.items()} == wanted
for row in fresh.values():
    row.close()
assert free() == before_free
print(in_memory, all((place / name).stat().st_size == entry.size for name, entry in saver.entries.items()),
      all(entry.hash for entry in saver.entries.values()))
pool.close()
assert open_files() == before_files, (open_files(), before_files)
assert not pool_place.exists()
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tp-memory-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Two devices that no other process shares."""
    return {"TORPOR_SIM_DEVICES": "2", "TORPOR_SIM_DIR": str(tmp_path)}


def test_through_memory_the_files_are_the_segments(memory: Path, machine: dict[str, str]) -> None:
    told = run_on_sim(ROUND, str(memory / "image"), str(memory / "pool"), str(1 << 30), **machine)
    assert told.split() == ["True", "True", "False"]
    assert len(list((memory / "image" / "gpu").iterdir())) == 5


def test_through_files_a_small_pool_is_enough(memory: Path, tmp_path: Path, machine: dict[str, str]) -> None:
    # One segment of 64 MiB for 224 MiB on two devices.
    told = run_on_sim(ROUND, str(tmp_path / "image"), str(memory / "pool"), str(1 << 20), **machine)
    assert told.split() == ["False", "True", "True"]


def test_a_failure_in_the_middle_gives_everything_back(machine: dict[str, str]) -> None:
    run_on_sim(
        """
        from torpor.driver import Driver
        from torpor.errors import NoSpace
        from torpor.keeper.memory import MappedRow
        import os
        driver = Driver()
        before = driver.free_memory(0), len(os.listdir("/proc/self/fd"))
        try:
            MappedRow.created(driver, driver.devices[0], [4 << 20, 4 << 20, 4 << 20])
        except NoSpace as error:
            assert error.details["call"] == "cuMemCreate"
        else:
            raise SystemExit("it did not fail")
        assert (driver.free_memory(0), len(os.listdir("/proc/self/fd"))) == before
        """,
        TORPOR_SIM_FAULT="cuMemCreate@3=fail:2",
        **machine,
    )
