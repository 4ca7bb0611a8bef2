"""A place that gives no answer says nothing of its objects: nothing is called damaged, removed or left out for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.images import make_image, noise
from tests.store.memory import MemoryBackend
from torpor.errors import StepFailed
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, create
from torpor.store.verify import repair_index, verify_store

CHUNK = 64 << 10


class Silent(MemoryBackend):
    """Says nothing to whoever reads the `nth` object of a kind."""

    silent: tuple[str, int] | None = None

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if self.silent is not None:
            kind, nth = self.silent
            if name == sorted(one for one in self.objects if one.startswith(f"{kind}/"))[nth]:
                raise StepFailed(step="store", reason=f"{name}: no answer")
        return super().read(name, offset, length)


@pytest.fixture
def place() -> Silent:
    return Silent()


@pytest.fixture
def repository(place: Silent, tmp_path: Path) -> Repository:
    made = create(place, chunk=CHUNK)
    for number in range(2):
        image = make_image(tmp_path / f"image-{number}", blocks={1 << 40: noise(number, 5 * CHUNK)})
        put(made, image, pack_size=2 * CHUNK)
    made.tag(made.find("image-0"), "best")
    return made


VERBS: dict[str, Callable[[Repository], object]] = {
    "images": lambda repository: repository.images(),
    "find": lambda repository: repository.find("image-1"),
    "verify": verify_store,
    "repair": repair_index,
    "prune": lambda repository: prune(repository, pack_size=2 * CHUNK),
}

CASES = [
    (verb, kind, nth)
    for verb, kinds in {
        "images": ("images",),
        "find": ("images",),
        "verify": ("images", "index", "packs", "tags"),
        "repair": ("images", "index", "packs"),
        "prune": ("images", "index"),
    }.items()
    for kind in kinds
    for nth in (0, -1)
]


@pytest.mark.parametrize(("verb", "kind", "nth"), CASES)
def test_what_says_nothing_is_not_taken_for_damaged(
    place: Silent, repository: Repository, verb: str, kind: str, nth: int
) -> None:
    before = {name: data for name, data in place.objects.items() if not name.startswith("index/")}
    place.silent = (kind, nth)
    with pytest.raises(StepFailed, match="no answer"):
        VERBS[verb](repository)
    place.silent = None
    assert {name: place.objects[name] for name in before} == before
    findings = verify_store(repository)
    assert (findings.problems, findings.unindexed) == ([], 0)
    repair_index(repository)
    assert {image.head.name for image in repository.images()} == {"image-0", "image-1"}
