"""A power cut at any moment leaves every image that was reported, and nothing that looks like one and is not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.conftest import CHUNK
from tests.store.images import contents, make_image, noise
from tests.store.power_cut import RecordingFiles, UnsyncedFiles, after_cut
from torpor.store import locks
from torpor.store.get import get
from torpor.store.local import LocalBackend
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, create, open_repository
from torpor.store.verify import repair_index, verify_store

PACK = 3 * CHUNK


class Course:
    """A store's life, recorded. Each action is marked when it begins and when its success was reported."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = RecordingFiles()
        self.root = folder / "store"
        self.images: dict[str, dict[str, tuple[bytes | None, int]]] = {}
        self._folder = folder
        with monkeypatch.context() as patched:
            # Who ran before the cut was of another boot.
            real = locks.identity
            patched.setattr(locks, "identity", lambda: {**real(), "boot": "before the cut"})
            backend = LocalBackend(self.root, self.files)
            backend.prepare()
            self.repository = create(backend, chunk=CHUNK)
            self.begun = len(self.files.journal)
            self._live()

    def _live(self) -> None:
        shared = [noise(number, CHUNK) for number in range(6)]
        self.put("a-1", *shared)
        self.put("a-2", *shared[:4], noise("a2", CHUNK), noise("a2 too", CHUNK))
        self.do(("tag", "a-1"), lambda: self.repository.tag(self.repository.find("a-1"), "first"))
        self.put("b-1", *(noise(("b", number), CHUNK) for number in range(8)))
        self.do(("rm", "b-1"), lambda: self.repository.remove(self.repository.find("b-1")))
        self.do(("prune", ""), lambda: prune(self.repository, pack_size=PACK))
        self.do(("rm", "a-1"), lambda: self.repository.remove(self.repository.find("a-1")))
        self.do(("prune", ""), lambda: prune(self.repository, pack_size=PACK))
        self.put("a-1", *shared[2:], noise("new", CHUNK // 2))
        self.do(("tag", "a-2"), lambda: self.repository.tag(self.repository.find("a-2"), "first"))
        self.do(("repair", ""), lambda: repair_index(self.repository))
        for number in range(9):
            self.put(f"c-{number}", noise(("c", number), 4096))
        self.do(("rm", "c-3"), lambda: self.repository.remove(self.repository.find("c-3")))
        self.do(("prune", ""), lambda: prune(self.repository, pack_size=PACK))

    def put(self, name: str, *blocks: bytes) -> None:
        number = len(self.images)
        image = make_image(
            self._folder / f"image-{number}", blocks={(at + 1) << 40: data for at, data in enumerate(blocks)}
        )
        self.images[f"{name}/{number}"] = contents(image)
        self.do(("put", f"{name}/{number}"), lambda: put(self.repository, image, name=name, pack_size=PACK))

    def do(self, what: tuple[str, str], action: Callable[[], Any]) -> None:
        self.files.mark(("begin", *what))
        action()
        self.files.mark(("done", *what))

    def expected(self, moment: int) -> tuple[set[str], set[str]]:
        """Images that have to be there after a cut at that moment, and those that may be."""
        must: set[str] = set()
        may: set[str] = set()
        for state, verb, what in self.files.marks(moment):
            if verb == "put":
                (must if state == "done" else may).add(what)
            elif verb == "rm":
                gone = {one for one in must | may if one.partition("/")[0] == what}
                must -= gone
                may = may - gone if state == "done" else may | gone
        return must, may


def check(course: Course, moment: int, seed: int, tmp_path: Path) -> None:
    target = tmp_path / f"cut-{moment}-{seed}"
    after_cut(course.files.journal, moment, course.root, target, random.Random(f"{moment} {seed}"))
    where = f"moment {moment}, seed {seed}"
    repository = open_repository(LocalBackend(target, UnsyncedFiles()))
    _check_images(course, repository, moment, tmp_path, where)
    findings = verify_store(repository)
    assert findings.problems == [], where
    prune(repository, pack_size=PACK)
    _check_images(course, repository, moment, tmp_path, where)
    findings = verify_store(repository)
    assert (findings.problems, findings.unindexed) == ([], 0), where
    used = {one.tobytes() for image in repository.images() for one in repository.read(image).used()}
    if not used:
        assert list(repository.backend.list("packs")) == [], where
    shutil.rmtree(target)


def _check_images(course: Course, repository: Repository, moment: int, tmp_path: Path, where: str) -> None:
    must, may = course.expected(moment)
    found = set()
    back = tmp_path / "back"
    for image in repository.images():
        get(repository, image, back, durable=False)
        whole = contents(back)
        shutil.rmtree(back)
        fitting = [name for name in must | may if course.images[name] == whole]
        assert len(fitting) == 1, f"{where}: {image.head.name} is not what was put"
        assert fitting[0].partition("/")[0] == image.head.name, where
        found.add(fitting[0])
    assert must <= found, f"{where}: lost {must - found}"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    return Course(tmp_path, monkeypatch)


def test_after_power_cuts_all_is_whole(course: Course, tmp_path: Path) -> None:
    """A part of the moments, the same each time: spread evenly, each with its own losses."""
    moments = range(course.begun, len(course.files.journal) + 1)
    for moment in moments[:: max(len(moments) // 40, 1)]:
        check(course, moment, 0, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_after_a_power_cut_at_every_moment_all_is_whole(course: Course, tmp_path: Path) -> None:
    """Every moment with several losses each, more than 1,000 in all."""
    moments = range(course.begun, len(course.files.journal) + 1)
    rounds = -(-1200 // len(moments))
    for seed in range(1, rounds + 1):
        for moment in moments:
            check(course, moment, seed, tmp_path)


def test_a_store_is_made_whole_or_not_at_all(course: Course, tmp_path: Path) -> None:
    for moment in range(course.begun + 1):
        for seed in range(5):
            target = tmp_path / f"cut-{moment}-{seed}"
            after_cut(course.files.journal, moment, course.root, target, random.Random(seed))
            if (target / "config").exists():
                assert open_repository(LocalBackend(target)).config == course.repository.config
            else:
                assert moment < course.begun
            shutil.rmtree(target)


def test_a_sync_that_is_forgotten_is_found(course: Course, tmp_path: Path) -> None:
    """The campaign itself can fail: without any of the kinds of sync some cut loses an image or makes a false one."""
    for forgotten in ("sync", "sync folder"):
        broken = [entry for entry in course.files.journal if entry[0] != forgotten]
        begun = course.begun
        course.files.journal, kept = broken, course.files.journal
        failures = 0
        for moment in range(begun, len(broken) + 1, 11):
            try:
                check(course, moment, 0, tmp_path)
            except Exception:  # noqa: BLE001 — any failure will do
                failures += 1
                shutil.rmtree(tmp_path / "back", ignore_errors=True)
        course.files.journal = kept
        assert failures > 0, forgotten
