"""The image format: what is written is read, what is damaged is named, and old images stay readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torpor.errors import ImageDamaged, ImageMismatch, NotFound, UsageError
from torpor.image import describe, is_image, read_manifest, verify
from torpor.image.hashing import of_bytes
from torpor.image.manifest import (
    Block,
    DeviceFacts,
    DriverFacts,
    FileEntry,
    HostFacts,
    JobFacts,
    Manifest,
    ProcessEntry,
)
from torpor.image.writer import ImageWriter

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GPU = "GPU-00000000-0000-4000-8000-00000000000a"


def contents(files: list[FileEntry], name: str) -> Manifest:
    return Manifest(
        name=name,
        created="2025-11-29T12:00:00Z",
        torpor="0.1.0",
        job=JobFacts(name="count", command=["python", "count.py"], cwd="/srv", env={"CUDA_CACHE_DISABLE": "1"}),
        host=HostFacts(kernel="6.18.0", machine="x86_64", criu="4.1.1"),
        driver=DriverFacts(kind="sim", version=13000, path="/run/torpor/job/native/sim/libcuda.so.1", build_id="ab12"),
        root=300,
        stdio={"stdin": None, "stdout": "pipe:[17]", "stderr": "pipe:[18]"},
        processes=[
            ProcessEntry(
                pid=300,
                devices=[DeviceFacts(ordinal=0, uuid=GPU, name="Torpor software GPU", arch="9.0", memory=1 << 30)],
                blocks=[
                    Block(address=0x600000000000, size=8192, device=0, extents=[(0, 0, 4096), (1, 0, 4096)]),
                    Block(address=0x600000200000, size=4096, device=0, extents=[(1, 4096, 4096)]),
                ],
            )
        ],
        files=files,
        tier="disk",
        gpu_bytes=12288,
        cpu_bytes=sum(entry.size for entry in files if entry.path.startswith("cpu/")),
        phases={"freeze": 0.001, "copy": 0.25},
    )


def write(path: Path, native: Path) -> Path:
    """A small image, as a checkpoint writes one."""
    writer = ImageWriter(path, "disk")
    known = {}
    for name, data in (("gpu/0000.seg", b"a" * 4096), ("gpu/0001.seg", b"b" * 8192)):
        (writer.partial / name).write_bytes(data)
        known[name] = FileEntry(path=name, size=len(data), hash=of_bytes(data))
    (writer.cpu / "core-300.img").write_bytes(b"core of a process")
    (writer.cpu / "pages-1.img").write_bytes(b"\1" * 4096)
    writer.add_native(native)
    writer.add_log(native / "no log yet")
    writer.sync()
    assert not is_image(path)
    writer.commit(contents(writer.list_files(known), path.name))
    return path


@pytest.fixture
def native(tmp_path: Path) -> Path:
    folder = tmp_path / "native"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"a library")
    return folder


@pytest.fixture
def image(tmp_path: Path, native: Path) -> Path:
    return write(tmp_path / "image", native)


def test_what_is_written_is_read(image: Path) -> None:
    assert is_image(image)
    manifest = read_manifest(image)
    verify(image, manifest)
    assert [entry.path for entry in manifest.files] == [
        "cpu/core-300.img",
        "cpu/pages-1.img",
        "gpu/0000.seg",
        "gpu/0001.seg",
        "log",
        "native/libcuda.so.1",
    ]
    assert [entry.path for entry in manifest.segments()] == ["gpu/0000.seg", "gpu/0001.seg"]
    assert manifest.processes[0].blocks[0].extents == [(0, 0, 4096), (1, 0, 4096)]
    assert not image.with_name("image.partial").exists()


def test_show_sums_it_up(image: Path) -> None:
    shown = describe(image, read_manifest(image))
    json.dumps(shown)
    assert shown["folders"]["gpu"] == {"files": 2, "bytes": 12288, "without_hash": 0}
    assert shown["processes"][0]["block_count"] == 2
    assert shown["processes"][0]["devices"][0]["block_bytes"] == 12288


def test_a_taken_name_is_refused_and_an_old_partial_is_not(image: Path, native: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists"):
        ImageWriter(image, "disk")
    (tmp_path / "other.partial" / "cpu").mkdir(parents=True)
    (tmp_path / "other.partial" / "cpu" / "old").touch()
    assert "cpu/old" not in [entry.path for entry in read_manifest(write(tmp_path / "other", native)).files]


def test_the_hash_is_the_published_one() -> None:
    assert of_bytes(b"abc") == "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


Change = Callable[[dict[str, Any]], object]

BROKEN: dict[str, Change] = {
    "leads out": lambda m: m["files"][0].update(path="../../etc/passwd"),
    "absolute": lambda m: m["files"][0].update(path="/etc/passwd"),
    "not normal": lambda m: m["files"][0].update(path="cpu/./core-300.img"),
    "twice": lambda m: m["files"].append(m["files"][0]),
    "no hash": lambda m: m["files"][0].update(hash=None),
    "no hash of a segment on disk": lambda m: m["files"][2].update(hash=None),
    "odd hash": lambda m: m["files"][0].update(hash="md5:00"),
    "odd segment": lambda m: m["files"][2].update(path="gpu/first.seg"),
    "negative size": lambda m: m["files"][0].update(size=-1),
    "overlap": lambda m: m["processes"][0]["blocks"][1].update(address=0x600000001000),
    "other device": lambda m: m["processes"][0]["blocks"][1].update(device=3),
    "extent too long": lambda m: m["processes"][0]["blocks"][1].update(extents=[[1, 8192, 4096]]),
    "extents too few": lambda m: m["processes"][0]["blocks"][0].update(extents=[[0, 0, 4096]]),
    "no such segment": lambda m: m["processes"][0]["blocks"][1].update(extents=[[7, 0, 4096]]),
    "other sum": lambda m: m.update(gpu_bytes=1),
    "field missing": lambda m: m.pop("root"),
    "other type": lambda m: m.update(root="300"),
}


def without_checksum(image: Path) -> dict[str, Any]:
    """The manifest as one that somebody wrote like this: what follows is checked by what it says."""
    data: dict[str, Any] = json.loads((image / "manifest.json").read_bytes())
    assert data.pop("checksum").startswith("blake3:")
    return data


def test_one_bit_anywhere_in_a_manifest_is_found(image: Path) -> None:
    whole = (image / "manifest.json").read_bytes()
    key = whole.index(b'"checksum"')  # without that word it is one without a checksum, and as right as before
    for at in (at for at in range(0, len(whole), 7) if not key <= at < key + 10):
        flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        (image / "manifest.json").write_bytes(flipped)
        with pytest.raises((ImageDamaged, ImageMismatch)):
            read_manifest(image)
    (image / "manifest.json").write_bytes(whole)
    read_manifest(image)


@pytest.mark.parametrize("change", sorted(BROKEN))
def test_a_manifest_that_makes_no_sense_is_damaged(image: Path, change: str) -> None:
    data = without_checksum(image)
    BROKEN[change](data)
    (image / "manifest.json").write_text(json.dumps(data) + "\n")
    with pytest.raises(ImageDamaged, match=r"manifest\.json is damaged"):
        read_manifest(image)


def test_a_cut_off_manifest_is_damaged(image: Path) -> None:
    whole = (image / "manifest.json").read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        (image / "manifest.json").write_bytes(whole[:length])
        with pytest.raises(ImageDamaged):
            read_manifest(image)


def test_a_newer_format_is_named_and_unknown_keys_are_not(image: Path) -> None:
    data = without_checksum(image)
    (image / "manifest.json").write_text(json.dumps({**data, "surprise": [1]}) + "\n")
    read_manifest(image)
    (image / "manifest.json").write_text(json.dumps({"format": 2, "all": "else"}) + "\n")
    with pytest.raises(ImageMismatch, match="format 2"):
        read_manifest(image)


def test_no_image_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("/dev/null")):
        with pytest.raises(NotFound):
            read_manifest(path)


def test_each_file_is_checked(image: Path) -> None:
    manifest = read_manifest(image)
    for entry in manifest.files:
        file = image / entry.path
        whole = file.read_bytes()
        changed = [whole + b"x"]
        if whole:
            changed += [whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]]
        for data in changed:
            file.write_bytes(data)
            with pytest.raises(ImageDamaged, match=entry.path.replace(".", r"\.")):
                verify(image, manifest)
        file.unlink()
        file.symlink_to("/dev/null")
        with pytest.raises(ImageDamaged):
            verify(image, manifest)
        file.unlink()
        with pytest.raises(ImageDamaged, match="missing"):
            verify(image, manifest)
        file.write_bytes(whole)
    verify(image, manifest)


def test_the_stored_image_of_version_1_still_reads() -> None:
    path = GOLDEN / "image-1"
    manifest = read_manifest(path)
    verify(path, manifest)
    # Written once by `write` above and never again: a change of the structures must not change what it means.
    assert manifest.format == 1
    assert manifest == contents(manifest.files, "image-1")
    assert (path / "gpu" / "0001.seg").read_bytes() == b"b" * 8192
