"""Killed at any time, a process leaves the store with every image that it reported, and with nothing half made."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import termios
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.store.conftest import CHUNK
from tests.store.images import contents, make_image, noise
from torpor.store.get import get
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository
from torpor.store.verify import repair_index, verify_store

PACK = 4 * CHUNK


class Victim:
    """A process that works on the store until it is killed, and tells through a pipe what it has done."""

    def __init__(self, work: Callable[[Callable[[str], None]], None]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Newer Pythons warn of threads that a fork leaves behind: numpy's, which nobody waits for here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(reading)
                work(lambda what: os.write(writing, f"{what}\n".encode()) and None)
            finally:
                os._exit(0)
        os.close(writing)
        self._reading = reading

    def has_told(self, size: int) -> bool:
        """Whether so many bytes wait to be read."""
        waiting = bytearray(4)
        fcntl.ioctl(self._reading, termios.FIONREAD, waiting)
        return int.from_bytes(waiting, "little") >= size

    def kill(self) -> list[str]:
        """End it; returns all that it told, in order."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        told = b""
        while data := os.read(self._reading, 65536):
            told += data
        os.close(self._reading)
        return told.decode().split()


class Life:
    """What victims do to a store, and what has to be true of it after each."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.folder = folder
        self.chosen = random.Random(5)
        self.must: set[str] = set()
        self.sources = {}
        shared = [noise(number, CHUNK) for number in range(4)]
        for number in range(5):
            own = [noise((number, part), CHUNK) for part in range(3)]
            blocks = {(at + 1) << 40: data for at, data in enumerate(shared[: number + 1] + own)}
            self.sources[f"image-{number}"] = make_image(folder / f"image-{number}", blocks=blocks)
        self.wanted = {name: contents(path) for name, path in self.sources.items()}

    def work(self, seed: int) -> Callable[[Callable[[str], None]], None]:
        """What a victim does: put, remove and prune at random, as often as it can."""

        def run(tell: Callable[[str], None]) -> None:
            chosen = random.Random(seed)
            present = {image.head.name for image in self.repository.images()}
            while True:
                name = chosen.choice(sorted(self.sources))
                if name not in present:
                    put(self.repository, self.sources[name], pack_size=PACK)
                    tell(f"put:{name}")
                    present.add(name)
                elif chosen.random() < 0.5:
                    tell(f"removing:{name}")
                    self.repository.remove(self.repository.find(name))
                    present.discard(name)
                elif chosen.random() < 0.8:
                    prune(self.repository, pack_size=PACK)
                    tell("pruned:")
                else:
                    repair_index(self.repository)
                    tell("repaired:")

        return run

    def one_death(self, seed: int) -> int:
        """Let a victim work for a while, kill it, and check; returns the number of its finished actions."""
        victim = Victim(self.work(seed))
        wanted = self.chosen.randrange(80)  # bytes that tell of up to ten actions
        eventually(lambda: victim.has_told(wanted))
        time.sleep(self.chosen.uniform(0.0, 0.05))
        told = victim.kill()
        for verb, _, name in (line.partition(":") for line in told):
            if verb == "put":
                self.must.add(name)
            elif verb == "removing":
                self.must.discard(name)
        found = {image.head.name for image in self.repository.images()}
        assert self.must <= found, f"seed {seed}: lost {self.must - found} after {told[-3:]}"
        # The last put may have been done without its having been told.
        assert found <= set(self.sources)
        for image in self.repository.images():
            back = get(self.repository, image, self.folder / "back", durable=False)
            assert contents(back) == self.wanted[image.head.name], f"seed {seed}"
            shutil.rmtree(back)
        assert verify_store(self.repository).problems == [], f"seed {seed}"
        self.must = found
        return len(told)

    def end(self) -> None:
        """After all deaths one prune makes the store as if nobody had died."""
        prune(self.repository, pack_size=PACK)
        findings = verify_store(self.repository)
        assert (findings.problems, findings.unindexed) == ([], 0)
        assert [one.name for one in self.repository.backend.list("locks")] == []
        for image in self.repository.images():
            self.repository.remove(image)
        prune(self.repository, pack_size=PACK)
        assert [one for kind in ("packs", "index", "images") for one in self.repository.backend.list(kind)] == []


def test_killed_processes_lose_nothing(repository: Repository, tmp_path: Path) -> None:
    life = Life(repository, tmp_path)
    assert sum(life.one_death(seed) for seed in range(12)) > 12
    life.end()


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_many_killed_processes_lose_nothing(repository: Repository, tmp_path: Path) -> None:
    life = Life(repository, tmp_path)
    assert sum(life.one_death(seed) for seed in range(100, 500)) > 400
    life.end()


def test_processes_at_once_do_each_other_no_harm(repository: Repository, tmp_path: Path) -> None:
    """Four put the same images under their own names while one prunes, all the time; then all are killed."""
    images = [
        make_image(tmp_path / f"image-{n}", blocks={1 << 40: noise("same", 4 * CHUNK), 2 << 40: noise(n, CHUNK)})
        for n in range(4)
    ]

    def putter(number: int) -> Callable[[Callable[[str], None]], None]:
        def run(tell: Callable[[str], None]) -> None:
            for count in range(1000):
                name = f"image-{number}-{count}"
                put(repository, images[number], name=name, pack_size=PACK)
                tell(name)
                if count >= 2:
                    repository.remove(repository.find(f"image-{number}-{count - 2}"))

        return run

    def pruner(tell: Callable[[str], None]) -> None:
        while True:
            prune(repository, pack_size=PACK)
            tell("pruned")

    victims = [Victim(putter(number)) for number in range(4)]
    cleaner = Victim(pruner)
    eventually(lambda: all(victim.has_told(60) for victim in victims) and cleaner.has_told(20))
    told = [victim.kill() for victim in victims]
    assert cleaner.kill()
    for number, names in enumerate(told):
        assert names
        last = repository.find(names[-1])
        back = get(repository, last, tmp_path / f"back-{number}", durable=False)
        assert contents(back) == contents(images[number])
    assert verify_store(repository).problems == []
