"""Any sequence of puts, gets, removals, prunes, tags and repairs leaves what a plain dictionary would have."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.store.images import PAGE, contents, make_image, noise
from tests.store.power_cut import UnsyncedFiles
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, create, open_repository
from torpor.store.transfer import transfer
from torpor.store.verify import repair_index, verify_store

CHUNK = 64 << 10

# Few seeds and sizes, so that chunks are shared; sizes around a chunk's and a segment's edge.
PARTS = st.tuples(st.integers(0, 3), st.sampled_from([1, 15, 16, 17, 33, 40]), st.booleans())


class Store(RuleBasedStateMachine):
    """The model is `images`: what was put under each name, as files; and `tags`."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tp-"))
        self.images: dict[str, dict[str, tuple[bytes | None, int]]] = {}
        self.tags: dict[str, str] = {}
        self.count = 0
        self.repository = self._new("store")
        self.other = self._new("other")

    def _new(self, name: str) -> Repository:
        backend = LocalBackend(self.folder / name, UnsyncedFiles())
        backend.prepare()
        return create(backend, chunk=CHUNK)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(
        target=names,
        blocks=st.lists(PARTS, max_size=4),
        runs=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20)), max_size=3),
        tier=st.sampled_from(["disk", "disk", "dram"]),
        compression=st.sampled_from(["auto", "small", "none"]),
        pack=st.sampled_from([CHUNK, 5 * CHUNK, 64 * CHUNK]),
    )
    def put(self, blocks, runs, tier, compression, pack) -> str:  # type: ignore[no-untyped-def]
        self.count += 1
        name = f"job-{self.count}"
        image = make_image(
            self.folder / name,
            blocks={
                (at + 1) << 40: bytes(pages * PAGE) if zero else noise(seed, pages * PAGE)
                for at, (seed, pages, zero) in enumerate(blocks)
            },
            pages=[((at + 1) << 20, noise(seed, count * PAGE)) for at, (seed, count) in enumerate(runs)],
            tier=tier,
        )
        put(self.repository, image, compression=compression, pack_size=pack)
        if tier == "dram":
            shutil.rmtree(image)
            get(self.repository, self.repository.find(name), image, durable=False)
        self.images[name] = contents(image)
        shutil.rmtree(image)
        return name

    @rule(name=names)
    def get(self, name: str) -> None:
        back = get(self.repository, self.repository.find(name), self.folder / "back", durable=False)
        assert contents(back) == self.images[name]
        shutil.rmtree(back)

    @rule(name=consumes(names))
    def remove(self, name: str) -> None:
        self.repository.remove(self.repository.find(name))
        del self.images[name]
        self.tags = {tag: target for tag, target in self.tags.items() if target != name}

    @rule(name=names, tag=st.sampled_from(["first", "best"]))
    def tag(self, name: str, tag: str) -> None:
        self.repository.tag(self.repository.find(name), tag)
        self.tags[tag] = name

    @rule(pack=st.sampled_from([CHUNK, 5 * CHUNK, 64 * CHUNK]))
    def prune(self, pack: int) -> None:
        prune(self.repository, pack_size=pack)
        used = {one.tobytes() for image in self.repository.images() for one in self.repository.read(image).used()}
        if not used:
            assert list(self.repository.backend.list("packs")) == []

    @rule()
    def repair(self) -> None:
        assert repair_index(self.repository).problems == []

    @rule()
    def lose_the_index(self) -> None:
        self.repository.backend.delete([one.name for one in self.repository.backend.list("index")])
        assert repair_index(self.repository).problems == []

    @rule(name=names)
    def copy_out_and_in(self, name: str) -> None:
        """Through another store, after which this one has it again."""
        transfer(self.repository, self.repository.find(name), self.other)
        self.repository.remove(self.repository.find(name))
        prune(self.repository)
        transfer(self.other, self.other.find(name), self.repository)
        self.other.remove(self.other.find(name))
        self.tags = {tag: target for tag, target in self.tags.items() if target != name}

    @rule()
    def open_again(self) -> None:
        self.repository = open_repository(self.repository.backend)

    @invariant()
    def lists_what_it_has(self) -> None:
        by_id = {image.id: image.head.name for image in self.repository.images()}
        assert sorted(by_id.values()) == sorted(self.images)
        assert {tag: by_id[target] for tag, target in self.repository.tags().items()} == self.tags

    @invariant()
    def has_no_problems(self) -> None:
        assert verify_store(self.repository).problems == []
        assert list(self.repository.backend.list("locks")) == []


TestStore = Store.TestCase
TestStore.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
