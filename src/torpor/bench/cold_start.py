"""Question: how long until a model answers?   Targets: a restored start of the 8 B model at least 5 times as fast as a
native one, at least 8 times as fast as by driver + CRIU, and within 20 % of the 0.5 B model's.

A model server (`programs/first_token.py`) reads its weights from a file and gives token after token. Natively the
time runs from the start of the process to its first token. For a server that was put to sleep it runs from the verb
to the second token, so that it has worked through a whole one: from `hbm` (its GPU memory stayed on the GPU: suspend
and resume), and from images in memory (`dram`) and on the `disk`, whose processes were killed. By the driver's
checkpoint and CRIU the same from memory and from the disk. Every token of every woken server must be the native
one's.

Rows differ in whether the files (weights, libraries, images) are in the page cache; images in memory always are.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import disk_usage

from torpor import api
from torpor.bench import caches, models, turns
from torpor.bench.lives import Followed, Lives
from torpor.bench.models import Llama
from torpor.bench.parts import Part
from torpor.bench.results import Bar, Figure, Measurement, Spread, spread, times_faster
from torpor.bench.settings import DRIVER, NATIVE, Settings
from torpor.errors import Cancelled, TorporError

PROMPT, LONGEST = 32, 256
HBM, DRAM, DISK, DRIVER_DISK = "torpor hbm", "torpor dram", "torpor disk", f"{DRIVER} disk"
SMALLEST, LARGEST = "0.5b", "8b"
"""The models that the promises are about."""


@dataclass
class Shape:
    """One model's seconds by side, with its files in the page cache and dropped from it; what failed, and how files
    were dropped."""

    name: str
    model: Llama
    settings: Settings
    warm: dict[str, list[float]] = field(default_factory=dict)
    dropped: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    dropping: set[str] = field(default_factory=set)
    tokens: list[str] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)

    @property
    def weights(self) -> Path:
        return self.settings.scratch / "weights"

    def command(self, *more: str) -> list[str]:
        rest = ["--delay", "0.005"] if self.settings.software_gpu else []
        return models.command("first_token.py", self.model, self.settings, "--prompt", str(self.prompt), *rest, *more)

    @property
    def prompt(self) -> int:
        return min(PROMPT, self.model.longest // 2)

    @property
    def server(self) -> list[str]:
        return self.command("--weights", str(self.weights))

    def note(self, found: dict[str, list[float]], side: str, seconds: float) -> None:
        found.setdefault(side, []).append(seconds)
        self.settings.say(f"{self.name}: {side}{', files dropped' * (found is self.dropped)}: {seconds:.3f} s")

    def drop(self, more: Sequence[Path] = ()) -> None:
        """Empty the page cache before a start. On the software GPU nobody else shall be slowed down for it."""
        said = caches.drop([self.weights, *self.files, *more], everything=not self.settings.software_gpu)
        self.dropping.add(f"dropped: {said}")

    def check(self, server: Followed) -> None:
        """TorporError unless all of its tokens are the native server's, which come round again and again."""
        for _, number, token, _ in server.rows:
            expected = self.tokens[(int(number) - 1) % len(self.tokens)]
            if token != expected:
                raise TorporError(f"token {number} of {server.job.name} is {token}, natively it is {expected}")


def run(settings: Settings) -> Iterator[Measurement]:
    """Two rows for each model, then how the largest one's start compares with the smallest one's."""
    known = models.TOY_LLAMA if settings.software_gpu else models.LLAMA
    usual = ("toy",) if settings.software_gpu else (SMALLEST,) if settings.quick else tuple(known)
    starts: dict[str, Spread] = {}
    failures: list[TorporError] = []
    for name, served in models.of(known, usual, settings).items():
        model = replace(served, longest=min(served.longest, LONGEST), slots=1)
        left_out = _left_out(model, settings)
        if left_out is not None:
            settings.say(f"{name} {left_out}")
            yield Measurement(name=f"{name}, files cached", unit="s", sides={}, note=left_out)
            continue
        shape = Shape(name, model, settings)
        broken: BaseException | None = None
        try:
            for _ in _measure(shape, failures):
                yield from _rows(shape)
        except (KeyboardInterrupt, TorporError) as error:
            broken = error  # what was measured by then is told first
        finally:
            shape.weights.unlink(missing_ok=True)
        for measured in _rows(shape):
            if DRAM in measured.sides:
                starts[name] = measured.sides[DRAM]
            yield measured
        if {SMALLEST, LARGEST} <= set(starts):
            yield _compared(starts[LARGEST], starts[SMALLEST])
        if broken is not None:
            raise broken
    if failures:
        raise failures[0]


def _compared(large: Spread, small: Spread) -> Measurement:
    ratio = Spread(large.median / small.median, large.low / small.high, large.high / small.low, large.n)
    bar = Bar(side=DRAM, most=1.2, against=None, text=f"≤ 1.2 × the {SMALLEST} model's")
    return Measurement(name=f"{LARGEST} / {SMALLEST}", unit="×", sides={DRAM: ratio}, bars=[bar])


def _left_out(model: Llama, settings: Settings) -> str | None:
    """GPU memory for one copy, a disk for weights and one image, host memory for an image and as much pinned."""
    if settings.software_gpu:
        return None
    weights = model.weights_bytes
    return (
        models.too_large(model.serving_bytes, models.free_memory(settings), "weights on the GPU")
        or models.too_large(weights * 22 // 10 + (6 << 30), disk_usage(settings.scratch).free, "weights and an image")
        or models.too_large(weights * 22 // 10 + (8 << 30), models.host_memory(), "an image in memory and its copy")
    )


def _measure(shape: Shape, failures: list[TorporError]) -> Iterator[None]:
    """Fill in the seconds, way by way. Where one fails it is told, and the others go on."""
    settings = shape.settings
    models.touch(3 * shape.model.weights_bytes + (8 << 30), settings)
    settings.say(f"{shape.name}: weights of {shape.model.weights_bytes / 1e9:.1f} GB")
    done = subprocess.run(
        shape.command("--make", str(shape.weights)), env=settings.environment(), capture_output=True, text=True,
        check=False, timeout=settings.patience,
    )  # fmt: skip
    if done.returncode != 0:
        raise TorporError("the weights could not be made", hint=done.stderr.strip()[-1500:])
    _native(shape)
    yield
    ways = [(_hbm, HBM, True), (_images, DRAM, True), (_images, DISK, True)]
    if settings.driver_repeats:
        ways += [(_images, DRIVER, False), (_images, DRIVER_DISK, False)]
    for measure, side, arena in ways:
        settings.say(f"{shape.name}: {side}")
        if arena:
            api.keeper_warm(settings.backend, _pool(shape))
        else:
            api.keeper_stop(settings.backend)  # the baseline has no use for the pool, and little room beside it
        try:
            measure(shape, side, arena)
        except Cancelled:
            raise
        except TorporError as error:
            failures.append(error)
            shape.failed.append(f"{side} failed: {error.message}")
        yield


def _pool(shape: Shape) -> int:
    return 64 << 20 if shape.settings.software_gpu else shape.model.serving_bytes


def _native(shape: Shape) -> None:
    """The first tokens of a server that nothing happens to, and starts with and without its files in memory."""
    settings = shape.settings
    settings.say(f"{shape.name}: native")
    period = shape.model.longest - shape.prompt + 1
    copy = turns.Copy(shape.server, NATIVE, settings)
    try:
        shape.tokens = [copy.next_line().split()[2] for _ in range(period)]
        shape.files = caches.mapped_by(copy.pid)
    finally:
        copy.kill()
    for found in (shape.warm, shape.dropped):
        for _ in range(settings.repeats):
            if found is shape.dropped:
                shape.drop()
            start = time.time_ns()
            copy = turns.Copy(shape.server, NATIVE, settings)
            try:
                shape.note(found, NATIVE, (int(copy.next_line().split()[-1]) - start) / 1e9)
            finally:
                copy.kill()


def _hbm(shape: Shape, side: str, arena: bool) -> None:
    with Lives("token", shape.settings) as lives:
        server = lives.run(shape.server, arena=arena)
        server.wait(3)
        for _ in range(shape.settings.repeats):
            server.job.suspend(tier="hbm")
            shape.note(shape.warm, side, lives.resumed(server))
        shape.check(server)


def _images(shape: Shape, side: str, arena: bool) -> None:
    """One image, and every start from it; from the disk also with nothing of it in the page cache."""
    settings = shape.settings
    tier = "disk" if side.endswith("disk") else "dram"
    with Lives("token", settings) as lives:
        server = lives.run(shape.server, arena=arena)
        server.wait(3)
        image = lives.checkpoint(server.job, tier)
        for found in (shape.warm, shape.dropped) if tier == "disk" else (shape.warm,):
            for _ in range(settings.repeats if arena else settings.driver_repeats):
                if found is shape.dropped:
                    shape.drop([image.path])
                woken, seconds = lives.restored(image)
                shape.note(found, side, seconds)
                lives.kill(woken.job)
                woken.read()
                shape.check(woken)


def _rows(shape: Shape) -> Iterator[Measurement]:
    promised = [times_faster(5, NATIVE, DRAM), times_faster(8, DRIVER, DRAM)] if shape.name == LARGEST else []
    rows: tuple[tuple[str, dict[str, list[float]], str, list[Bar], Iterable[str]], ...] = (
        ("files cached", shape.warm, "cached", promised, shape.failed),
        ("files dropped from the page cache", shape.dropped, "dropped", [], sorted(shape.dropping)),
    )
    for what, found, figure, bars, notes in rows:
        if not any(found.values()):
            continue
        yield Measurement(
            name=f"{shape.name}, {what}",
            unit="s",
            sides={side: spread(seconds) for side, seconds in found.items() if seconds},
            bars=bars,
            figures=[figure],
            x=shape.model.weights_bytes / 1e9,
            note="; ".join(notes),
        )


PART = Part(
    "cold-start",
    "Cold start: until a model's first token",
    run,
    needs=("torch-on-gpu", "checkpoints"),
    figures=tuple(
        Figure(name=name, title=f"Until the first token, {what}", kind="lines", y="seconds", x="weights, GB")
        for name, what in (("cached", "files in the page cache"), ("dropped", "files dropped from the page cache"))
    ),
)
