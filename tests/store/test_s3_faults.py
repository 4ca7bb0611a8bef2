"""A store on an S3 server behind a bad network: no image is lost, and nothing is called done that is not."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.bad_network import FAULTS, BadNetwork, Choose, Fault, at_random
from tests.store.conftest import CHUNK
from tests.store.contract import NAME
from tests.store.images import contents, make_image, noise
from tests.store.s3_server import LentClient, S3Server
from torpor.errors import NotFound, StepFailed, TorporError, UsageError, WrongState
from torpor.store import locks
from torpor.store.backend import Backend, Passing
from torpor.store.get import get
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import create, open_repository
from torpor.store.retry import Patience, RetryBackend
from torpor.store.s3 import S3Backend
from torpor.store.s3_address import parse
from torpor.store.verify import repair_index, verify_store

PART = 5 << 20
"""The smallest that S3 takes."""

LARGE = os.urandom(2 * PART + 17)
SMALL = LARGE[:200_000]


@pytest.fixture(scope="module")
def shared_network(running_server: S3Server) -> Iterator[BadNetwork]:
    made = BadNetwork(running_server.endpoint, good)
    yield made
    made.stop()


def good(_line: bytes) -> Fault:
    return "none"


@pytest.fixture
def network(shared_network: BadNetwork) -> BadNetwork:
    """As good as any, until a test chooses otherwise."""
    shared_network.choose = good
    shared_network.seen.clear()
    return shared_network


@pytest.fixture(scope="module")
def far_client(running_server: S3Server, shared_network: BadNetwork) -> Iterator[LentClient]:
    with running_server.lend_client(shared_network.endpoint) as made:
        yield made


@pytest.fixture
def near(s3_client: LentClient, s3_url: str) -> Iterator[S3Backend]:
    """The store as it is, with nothing bad in between."""
    made = S3Backend(s3_client, parse(s3_url), part=PART)
    yield made
    made.close()


@pytest.fixture
def far(far_client: LentClient, s3_url: str) -> Iterator[S3Backend]:
    """The same store through the network."""
    made = S3Backend(far_client, parse(s3_url), part=PART)
    yield made
    made.close()


CALLS: dict[str, Callable[[Backend], Any]] = {
    "list": lambda backend: sorted(one.name for one in backend.list("packs")),
    "size": lambda backend: backend.size(NAME),
    "read all": lambda backend: backend.read(NAME),
    "read some": lambda backend: backend.read(NAME, 1000, 5000),
    "read nothing": lambda backend: backend.read(NAME, 10, 0),
    "write small": lambda backend: backend.write("index/small", [b"data"]),
    "write large": lambda backend: backend.write("index/large", [LARGE]),
    "write config": lambda backend: backend.write("config", [b"{}"]),
    "delete one": lambda backend: backend.delete(["index/old"]),
    "delete some": lambda backend: backend.delete(["index/old", "index/older", "index/never"]),
    "sweep": lambda backend: backend.sweep(),
}

OFTEN = ("list", "read all", "write small")

SUCCESS: dict[str, Any] = {
    "list": [NAME, "packs/other"],
    "size": len(SMALL),
    "read all": SMALL,
    "read some": SMALL[1000:6000],
    "read nothing": b"",
}


def after(call: str, near: Backend) -> bool:
    """Whether what was asked for has been done."""
    there = {one.name for one in near.list("index")}
    match call:
        case "write small":
            return "index/small" in there and near.read("index/small") == b"data"
        case "write large":
            return "index/large" in there and near.read("index/large") == LARGE
        case "write config":
            return near.read("config") == b"{}"
        case "delete one":
            return "index/old" not in there
        case "delete some":
            return not there & {"index/old", "index/older"}
    return True


def tried(call: str, far: Backend) -> tuple[bool, Any]:
    """Whether the call failed with an error that says that it may pass, and what it gave otherwise."""
    try:
        return False, CALLS[call](far)
    except Passing as error:
        if "of the store s3://" not in error.message:
            raise AssertionError(f"{error.message} does not say where") from error
        return True, None


def fill(near: Backend) -> None:
    near.write(NAME, [SMALL])
    for name in ("packs/other", "index/old", "index/older"):
        near.write(name, [b"x"])


@pytest.mark.parametrize(
    "call", [one if one in OFTEN else pytest.param(one, marks=pytest.mark.full) for one in sorted(CALLS)]
)
def test_every_fault_of_every_request_is_told_or_got_over(
    call: str, near: S3Backend, far: S3Backend, network: BadNetwork
) -> None:
    """The n-th request of a call fails in each way, for every n that there is."""
    asked = 0

    def choose(_line: bytes) -> Fault:
        nonlocal asked
        asked += 1
        return fault if asked == number else "none"

    network.choose = choose
    told: Counter[bool] = Counter()
    for fault in FAULTS:
        number = 0
        while True:
            number += 1
            asked = 0
            fill(near)
            failed, found = tried(call, far)
            told[failed] += 1
            if failed:
                # There wholly or not at all.
                assert {near.read(one.name) for one in near.list("index")} <= {b"x", b"data", LARGE}
            else:
                assert found == SUCCESS.get(call, found)
                assert after(call, near), (fault, number)
            # Whatever became of it: the next try does it.
            network.choose = good
            assert CALLS[call](far) == SUCCESS.get(call, 0 if call == "sweep" else None)
            assert after(call, near)
            network.choose = choose
            if asked < number:
                break
            near.delete(["index/small", "index/large", "config"])
    assert told[True] >= 5
    near.sweep()


def test_a_part_that_fails_is_sent_again_alone(
    far_client: LentClient, s3_url: str, network: BadNetwork, near: S3Backend
) -> None:
    lines: list[bytes] = []

    def choose(line: bytes) -> Fault:
        lines.append(line)
        return "lose answer" if b"partNumber=2" in line and sum(b"partNumber=2" in one for one in lines) < 3 else "none"

    network.choose = choose
    patience = Patience(tries=4, first=0.0)
    backend = S3Backend(far_client, parse(s3_url), part=PART, patience=patience)
    backend.write(NAME, [LARGE])
    assert sum(b"partNumber=2" in line for line in lines) == 3
    assert sum(b"partNumber=1" in line for line in lines) == 1
    assert near.read(NAME) == LARGE
    backend.close()


def test_parts_that_were_swept_under_a_writer_are_written_again(
    far_client: LentClient, s3_url: str, network: BadNetwork, near: S3Backend
) -> None:
    swept: list[int] = []

    def choose(line: bytes) -> Fault:
        if b"partNumber=3" in line and not swept:
            swept.append(near.sweep())
        return "none"

    network.choose = choose
    backend = S3Backend(far_client, parse(s3_url), part=PART)
    with pytest.raises(Passing):
        backend.write(NAME, [LARGE])
    assert [*near.list("packs")] == []
    swept.clear()
    RetryBackend(backend, Patience(first=0.0)).write(NAME, [LARGE])
    assert near.read(NAME) == LARGE
    backend.close()


class Life:
    """Images go into a store and out of it through the network, and what was called done is looked for without it."""

    def __init__(self, near: Backend, far: Backend, folder: Path, seed: int, size: int) -> None:
        self.near = open_repository(near)
        self.far = open_repository(far)
        self.folder = folder
        self.pack_size = size
        self.chosen = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.must: set[str] = set()
        self.may: set[str] = set()
        shared = noise("shared", 2 * CHUNK)
        self.sources = {
            f"image-{number}": make_image(
                folder / f"image-{number}", blocks={1 << 40: shared, 2 << 40: noise(number, size)}
            )
            for number in range(4)
        }
        self.wanted = {name: contents(path) for name, path in self.sources.items()}

    def step(self) -> None:
        name = self.chosen.choice(sorted(self.sources))
        verb = self.chosen.choice(["put", "put", "put", "get", "get", "remove", "prune", "prune", "repair", "verify"])
        try:
            getattr(self, verb)(name)
            self.done[verb] += 1
        except (StepFailed, NotFound, UsageError, WrongState):
            # A lock that could not be given back is of a process that lives, and so counts until it is broken.
            self.done["failed"] += 1
        for lock in [*self.near.backend.list("locks")]:
            locks.break_lock(self.near.backend, lock.name)
        self.check()

    def put(self, name: str) -> None:
        self.may.add(name)
        put(self.far, self.sources[name], pack_size=self.pack_size, wait=0, compression="none")
        self.must.add(name)

    def get(self, name: str) -> None:
        try:
            back = get(self.far, self.far.find(name), self.folder / "back", durable=False, wait=0)
        except NotFound:
            assert name not in self.must
            raise
        assert contents(back) == self.wanted[name]
        shutil.rmtree(back)

    def remove(self, name: str) -> None:
        image = self.far.find(name)
        self.must.discard(name)
        self.far.remove(image)
        self.may.discard(name)

    def prune(self, _name: str) -> None:
        prune(self.far, wait=0, pack_size=self.pack_size)

    def repair(self, _name: str) -> None:
        assert repair_index(self.far).damaged == []

    def verify(self, _name: str) -> None:
        verify_store(self.far)

    def run(self, network: BadNetwork, steps: int, choose: Choose) -> None:
        """So many steps, and more until an image has been put and something has failed: else it would show nothing."""
        network.choose = choose
        while steps > 0 or not (self.done["put"] and self.done["failed"]):
            steps -= 1
            try:
                self.step()
            except (AssertionError, TorporError) as error:
                raise AssertionError(f"after {dict(self.done)}: {error}") from error
        self.end()

    def check(self) -> None:
        found = {image.head.name for image in self.near.images()}
        assert self.must <= found <= self.may, (self.must, found, self.may)
        findings = verify_store(self.near)
        assert findings.problems == []
        self.must = found

    def end(self) -> None:
        for image in self.near.images():
            back = get(self.near, image, self.folder / "back", durable=False)
            assert contents(back) == self.wanted[image.head.name]
            shutil.rmtree(back)
            self.near.remove(image)
        prune(self.near, pack_size=self.pack_size)
        assert [one for kind in ("packs", "index", "images") for one in self.near.backend.list(kind)] == []


Begin = Callable[[int, int], Life]


@pytest.fixture
def begin(near: S3Backend, far: S3Backend, tmp_path: Path) -> Begin:
    """Make a new store, and images with so many bytes of their own, that a life with that seed moves."""

    def made(seed: int, size: int) -> Life:
        create(near, chunk=CHUNK)
        return Life(near, RetryBackend(far, Patience(tries=4, first=0.002)), tmp_path, seed, size)

    return made


def test_a_bad_network_loses_nothing(begin: Begin, network: BadNetwork) -> None:
    life = begin(3, 3 * CHUNK + 100)
    life.run(network, 9, at_random(3, 6))


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.parametrize("one_in", [3, 6, 20])
def test_a_bad_network_loses_nothing_in_a_long_time(begin: Begin, network: BadNetwork, seed: int, one_in: int) -> None:
    life = begin(seed, 3 * CHUNK + 100)
    life.run(network, 40, at_random(seed, one_in))
    assert len(network.seen) > 4


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(200, 203))
def test_a_bad_network_loses_nothing_of_packs_in_parts(begin: Begin, network: BadNetwork, seed: int) -> None:
    life = begin(seed, 2 * PART + 100)
    life.run(network, 15, at_random(seed, 5))
