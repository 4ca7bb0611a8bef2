"""Damaged, swapped and foreign images: refused by name in bounded time, before anything of the job starts."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, eventually
from tests.flow import walking
from torpor import api, errors, paths
from torpor.image.manifest import SEGMENT

pytestmark = pytest.mark.criu

SECONDS = 60.0
"""What a refusal may take, on a machine that has other things to do; without them it takes a fraction of one."""


class Pair:
    """Two images of the same job at different moments, and what there was beside them."""

    def __init__(self, tier: str) -> None:
        argv = [sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "6", "--delay", "0.005"]
        job = api.run(argv, name="count", gpu="sim")
        eventually(lambda: b"count 8\n" in b"".join(job.logs()))
        self.image = job.checkpoint(leave_running=True, tier=tier)
        self.other = job.checkpoint(tier=tier)
        self.home = paths.home()
        eventually(lambda: not walking.processes_of(self.home))
        self.before = walking.traces(self.home)

    def refused(self, *kinds: type[errors.TorporError]) -> errors.TorporError:
        """The error of a restore, which must be of these kinds, come soon, and leave nothing."""
        begun = time.monotonic()
        with pytest.raises(kinds) as caught:
            api.restore(self.image.path)
        assert time.monotonic() - begun < SECONDS
        assert not walking.processes_of(self.home)
        return caught.value

    def still_restores(self) -> None:
        assert walking.traces(self.home) == self.before
        job = api.restore(self.image.path, name="again")
        walking.walk_on(job)


@pytest.fixture(params=["disk", "dram"])
def pair(home: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    del home
    yield Pair(request.param)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _data: b"",
    "half": lambda data: data[: len(data) // 2],
    "a byte short": lambda data: data[:-1],
    "a byte longer": lambda data: data + b"\0",
    "a bit flipped": lambda data: flipped(data, len(data) // 2),
}


def whole_files(image: api.Image) -> list[Path]:
    return sorted(path for path in image.path.rglob("*") if path.is_file())


def mend(file: Path, whole: bytes, status: os.stat_result) -> None:
    file.write_bytes(whole)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_every_file_damaged_in_every_way(pair: Pair) -> None:
    files = whole_files(pair.image)
    assert len(files) > 10
    for file in files:
        whole, times = file.read_bytes(), file.stat()
        for what, damage in DAMAGE.items():
            damaged = damage(whole) if whole else b"!"
            if damaged == whole or (what == "a bit flipped" and not whole):
                continue
            file.write_bytes(damaged)
            assert file.name in pair.refused(errors.ImageDamaged).message, what
        mend(file, whole, times)
        aside = file.rename(pair.image.path.with_name("aside"))
        pair.refused(errors.ImageDamaged, errors.NotFound)
        aside.rename(file)
    pair.still_restores()


def test_files_of_another_image_of_the_same_job(pair: Pair) -> None:
    swapped = 0
    for file in whole_files(pair.image):
        other = pair.other.path / file.relative_to(pair.image.path)
        if not other.is_file() or other.read_bytes() == file.read_bytes() or file.name == "manifest.json":
            continue
        aside = file.rename(pair.image.path.with_name("aside"))
        shutil.copy2(other, file)
        assert file.name in pair.refused(errors.ImageDamaged).message
        aside.replace(file)
        swapped += 1
    assert swapped > 3
    pair.still_restores()


def test_segments_in_memory_have_samples(home: Path) -> None:
    """What is written through a mapping leaves no time behind: zeros, or somebody else's bytes, are found by sample."""
    del home
    pair = Pair("dram")
    (segment,) = pair.image.manifest.segments()
    assert segment.hash is None
    assert segment.sample is not None
    file = pair.image.path / segment.path
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), SEGMENT) as mapped:
        whole = mapped[:]
        mapped[:] = bytes(SEGMENT)
        assert "are others" in pair.refused(errors.ImageDamaged).message
        mapped[:] = whole
    pair.still_restores()


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], type[errors.TorporError], str]] = {
    "format of the future": (lambda m: m.update(format=99), errors.ImageMismatch, "format 99"),
    "a newer driver": (lambda m: m["driver"].update(version=99000), errors.ImageMismatch, "99000"),
    "another architecture": (
        lambda m: [device.update(arch="1.0") for process in m["processes"] for device in process["devices"]],
        errors.ImageMismatch,
        "1.0",
    ),
    "a file that leads out": (lambda m: m["files"][0].update(path="../job.json"), errors.ImageDamaged, "leads out"),
    "no hash where there must be one": (
        lambda m: next(f for f in m["files"] if f["path"] == "log").update(hash=None),
        errors.ImageDamaged,
        "no hash",
    ),
    "more GPU memory than there is": (lambda m: m.update(gpu_bytes=1 << 50), errors.ImageDamaged, "gpu_bytes"),
}


def test_manifests_that_say_something_else(home: Path) -> None:
    del home
    pair = Pair("disk")
    manifest = pair.image.path / "manifest.json"
    whole = manifest.read_bytes()
    for what, (change, kind, named) in CHANGES.items():
        told = json.loads(whole)
        del told["checksum"]  # as one that was written like this
        change(told)
        manifest.write_bytes(json.dumps(told).encode() + b"\n")
        assert named in pair.refused(kind).message, what
    manifest.write_bytes(whole.replace(b'"name": "count-1"', b'"name": "count-2"'))
    assert "contents have changed" in pair.refused(errors.ImageDamaged).message
    manifest.write_bytes(whole)
    shutil.copytree(pair.image.path / "cpu", pair.home / "aside")
    shutil.rmtree(pair.image.path / "cpu")
    pair.refused(errors.ImageDamaged)
    (pair.home / "aside").rename(pair.image.path / "cpu")
    pair.still_restores()
