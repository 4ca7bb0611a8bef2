"""Question: how large should a store's chunks be, how fast do images go in and out, and what does a large store cost?

Part 1 puts an image of `--mib` MiB, then one in which a part has changed (one region, and small writes all over), for
each chunk size: bytes moved the second time, rates of put and get, and bytes of index per GiB. Beside them, in the same
run, a plain copy of the files with the same syncs, and the hash alone. Part 2 makes a store with a million chunks (its
packs are holes of the right size) and times listing, reading the index, comparing and pruning, each in a process of its
own, with the most memory that it took.

Targets: the second image moves little more than what changed; a put of new data is not slower than the plain copy;
listing, comparing and pruning a million chunks take seconds and less than 1 GiB.

    python bench/store.py [--mib 256] [--chunks 1000000] [--folder DIR] [--out store.json]
"""

from __future__ import annotations

import script

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import machine
import numpy as np
from blake3 import blake3

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.store.images import make_image  # noqa: E402
from torpor.bench import children  # noqa: E402
from torpor.store import contents, diff, index  # noqa: E402
from torpor.store.contents import Contents, Document, ImageHead, StoredFile, StoredStream  # noqa: E402
from torpor.store.get import get  # noqa: E402
from torpor.store.local import LocalBackend  # noqa: E402
from torpor.store.pack import ENTRY  # noqa: E402
from torpor.store.prune import prune  # noqa: E402
from torpor.store.put import put  # noqa: E402
from torpor.store.repository import Repository, create, open_repository  # noqa: E402

MIB = 1 << 20
SIZES = (256 << 10, 512 << 10, MIB, 2 * MIB, 4 * MIB)
SEGMENT = 64 * MIB
PER_PACK = 64


def weights(size: int, seed: int) -> np.ndarray:  # type: ignore[type-arg]
    """Bytes of 16-bit floats (bfloat16) with the spread of a trained layer."""
    values = np.random.default_rng(seed).standard_normal(size // 2, np.float32) * np.float32(0.02)
    return np.ascontiguousarray((values.view(np.uint32) >> 16).astype(np.uint16)).view(np.uint8)


def changed(data: np.ndarray, seed: int) -> tuple[np.ndarray, int]:  # type: ignore[type-arg]
    """The data after 2 % were written in one region and 16 KiB in 32 places; and the bytes of pages that differ."""
    chosen = np.random.default_rng(seed)
    out = data.copy()
    region = len(data) // 50
    start = len(data) // 3
    out[start : start + region] = chosen.integers(0, 256, region, np.uint8)
    for place in chosen.integers(0, len(data) // 4096 - 4, 32) * 4096:
        out[place : place + 16384] = chosen.integers(0, 256, 16384, np.uint8)
    return out, int((out.reshape(-1, 4096) != data.reshape(-1, 4096)).any(axis=1).sum()) * 4096


class Cost(NamedTuple):
    """Of an action: what it gave, and seconds by the clock and of the processors, the kernel's for it included."""

    result: Any
    wall: float
    cpu: float


def timed(action: Callable[[], Any]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    return Cost(result, time.perf_counter() - wall, time.process_time() - cpu)


def plain_copy(image: Path, target: Path) -> None:
    """The native twin of a put: the files as they are, each synced."""
    shutil.copytree(image, target)
    for path in [*target.rglob("*"), target]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def new_store(folder: Path, chunk: int) -> Repository:
    backend = LocalBackend(folder)
    backend.prepare()
    return create(backend, chunk=chunk)


def chunk_sizes(folder: Path, mib: int, repeat: int) -> dict[str, Any]:
    """Part 1."""
    size = mib * MIB
    first = weights(size, 1)
    second, differing = changed(first, 2)
    images = [
        make_image(folder / f"image-{n}", blocks={1 << 40: data.tobytes()}, segment=SEGMENT)
        for n, data in enumerate((first, second))
    ]
    noise = np.random.default_rng(3).integers(0, 256, size, np.uint8)
    images.append(make_image(folder / "image-noise", blocks={1 << 40: noise.tobytes()}, segment=SEGMENT))
    found: dict[str, Any] = {"bytes": size, "changed_bytes": differing, "sizes": {}}
    gib = size / (1 << 30)
    found["hash_cpu_s_per_gib"] = round(timed(lambda: blake3(noise.data).digest()).cpu / gib, 3)
    copies = []
    for _ in range(repeat):
        script.check()
        copies.append(timed(lambda: plain_copy(images[0], folder / "copy")))
        shutil.rmtree(folder / "copy")
    found["plain_copy_gb_s"] = round(size / min(one.wall for one in copies) / 1e9, 2)
    found["plain_copy_cpu_s_per_gib"] = round(min(one.cpu for one in copies) / gib, 3)
    for chunk in SIZES:
        rows = [_one_size(folder, images, chunk) for _ in range(repeat)]
        found["sizes"][str(chunk)] = {
            key: (max if key.endswith("gb_s") else min)(row[key] for row in rows) for key in rows[0]
        }
    for image in images:
        shutil.rmtree(image)
    return found


def _one_size(folder: Path, images: list[Path], chunk: int) -> dict[str, float]:
    script.check()
    repository = new_store(folder / "store", chunk)
    costs = [timed(lambda image=image: put(repository, image, check=False)) for image in images]
    first, second, noise = (cost.result for cost in costs)
    got = timed(lambda: get(repository, repository.find("image-0"), folder / "back"))
    gib = first.bytes / (1 << 30)
    entries = len(repository.load_index())
    shutil.rmtree(folder / "back")
    shutil.rmtree(folder / "store")
    return {
        "put_gb_s": round(first.bytes / first.seconds / 1e9, 3),
        "put_cpu_s_per_gib": round(costs[0].cpu / gib, 3),
        "put_noise_gb_s": round(noise.bytes / noise.seconds / 1e9, 3),
        "put_noise_cpu_s_per_gib": round(costs[2].cpu / gib, 3),
        "stored_share": round(first.stored / first.bytes, 4),
        "second_put_s": round(second.seconds, 3),
        "second_put_gb_s": round(second.bytes / second.seconds / 1e9, 3),
        "second_put_cpu_s_per_gib": round(costs[1].cpu / gib, 3),
        "moved_share": round(second.new / second.bytes, 4),
        "get_gb_s": round(first.bytes / got.wall / 1e9, 3),
        "get_cpu_s_per_gib": round(got.cpu / gib, 3),
        "index_bytes_per_gib": round(entries * 49 / ((first.bytes + second.new + noise.new) / (1 << 30))),
    }


def make_large(folder: Path, chunks: int) -> None:
    """A store of that many chunks of 1 MiB, in packs that are holes, and 8 images that share most of them."""
    repository = new_store(folder, MIB)
    chosen = np.random.default_rng(1)
    ids = chosen.integers(0, 1 << 63, (chunks, 4), np.uint64)
    packs = {}
    for start in range(0, chunks, PER_PACK):
        entries = np.zeros(min(PER_PACK, chunks - start), ENTRY)
        entries["id"] = ids[start : start + len(entries)]
        entries["offset"] = 8 + np.arange(len(entries)) * MIB
        entries["stored"] = entries["length"] = MIB
        name = blake3(entries.tobytes()).hexdigest()
        size = 8 + len(entries) * MIB + entries.nbytes + 48
        with (folder / "packs" / name).open("xb") as file:
            file.truncate(size)
        packs[name] = (size, entries)
    names = list(packs)
    for start in range(0, len(names), 4096):
        index.write(repository.backend, {name: packs[name] for name in names[start : start + 4096]})
    share = chunks // 8
    for number in range(8):
        own = ids[number * share : (number + 1) * share]
        mine = np.concatenate((ids[: share // 2], own)) if number else own
        _add_image(repository, f"job-{number}", mine)


def _add_image(repository: Repository, name: str, ids: np.ndarray) -> None:  # type: ignore[type-arg]
    size = len(ids) * MIB
    head = ImageHead(
        name=name, job="job", driver="sim", created="", stored=time.time_ns(), torpor="", gpu_bytes=size, cpu_bytes=0,
        bytes=size, chunks=len(ids),
    )  # fmt: skip
    document = Document(
        chunk=MIB,
        manifest=b"",
        files=[StoredFile(path="gpu/0000.seg", size=size, mode=0o600, modified=0)],
        folders=[],
        streams=[StoredStream(label="300/0x1", kind="block", extents=[(0, 0, size)], pieces=len(ids))],
    )
    lengths = np.full(len(ids), MIB, np.uint32)
    identity, parts = contents.encode(Contents(head=head, document=document, lengths=lengths, ids=ids))
    repository.backend.write(f"images/{identity}", parts)


def _compare(repository: Repository) -> dict[str, Any]:
    views = [diff.view_of_stored(repository.read(repository.find(f"job-{number}"))) for number in (1, 2)]
    return diff.diff(*views)


def _prune_half(repository: Repository) -> Any:
    for image in repository.images()[4:]:
        repository.remove(image)
    return prune(repository)


LARGE: dict[str, Callable[[Repository], Any]] = {
    "open": lambda repository: repository.config,
    "list": lambda repository: repository.images(),
    "load index": lambda repository: repository.load_index(only_present=True),
    "diff": _compare,
    "prune, nothing to do": prune,
    "prune of half the images": _prune_half,
}


def large(folder: Path, chunks: int) -> dict[str, Any]:
    """Part 2."""
    store = folder / "large"
    make_large(store, chunks)
    found = {}
    for name in LARGE:
        status, said = children.output([sys.executable, __file__, "--step", name, "--folder", str(store)])
        if status:
            raise SystemExit(f"{name}: ended with {status}")
        found[name] = json.loads(said)
    left = len(list((store / "packs").iterdir()))
    shutil.rmtree(store)
    return {"chunks": chunks, "packs_left": left, "steps": found}


def step(name: str, store: Path) -> None:
    """One step of part 2, alone in this process."""
    repository = open_repository(LocalBackend(store))
    cost = timed(lambda: LARGE[name](repository))
    # Of this program alone: rusage would count what its parent had before.
    facts = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(facts["VmHWM"].split()[0]) // 1024
    print(json.dumps({"seconds": round(cost.wall, 3), "cpu_seconds": round(cost.cpu, 3), "peak_mib": peak}))


def main() -> None:
    options = script.options(__doc__)
    options.add_argument("--mib", type=script.whole(), default=256)
    options.add_argument("--repeat", type=script.whole(), default=3)
    options.add_argument("--chunks", type=script.whole(16), default=1_000_000)
    options.add_argument("--folder", type=script.folder)
    options.add_argument("--step", choices=list(LARGE))
    given = options.parse_args()
    if given.step:
        step(given.step, given.folder)
        return
    with tempfile.TemporaryDirectory(prefix="torpor-bench-", dir=given.folder) as folder:
        result = {
            "machine": machine.describe(),
            "chunk_sizes": chunk_sizes(Path(folder), given.mib, given.repeat),
            "large": large(Path(folder), given.chunks),
        }
    print(json.dumps(result, indent=1))
    script.keep(given.out, result)


if __name__ == "__main__":
    script.run(main)
