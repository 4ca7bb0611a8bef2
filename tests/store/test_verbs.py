"""The store by its verbs, as a user types them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.store.images import contents, make_image, noise
from torpor import api

MIB = 1 << 20


@pytest.fixture
def image(home: Path) -> Path:
    """An image among the user's."""
    (home / "images").mkdir()
    return make_image(home / "images" / "job-1", blocks={1 << 40: noise(1, 3 * MIB), 2 << 40: noise(2, MIB)})


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "store"
    api.create_store(str(path)).close()
    monkeypatch.setenv("TORPOR_STORE", str(path))
    return path


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (("init", "file"), 2, "file is not a folder"),
        (("init", "full"), 2, "has something else in it"),
        (("init", "new", "--chunk", "3"), 2, "chunks of 3072 bytes"),
        (("init", "none/new"), 3, "there is no folder"),
        (("init", "/proc/new"), 8, "no folder can be made at /proc/new"),
        (("import", "full"), 3, "full is not a file"),
        (("import", "none"), 3, "there is no file"),
        (("show", "image"), 3, "no image named 'image'\n  a path needs a slash: ./image is one"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_is_made(
    torpor: Cli, tmp_path: Path, line: tuple[str, ...], code: int, told: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full/thing").mkdir(parents=True)
    make_image(tmp_path / "image")
    before = sorted(tmp_path.rglob("*"))
    assert told in torpor(*line, check=code, cwd=tmp_path).stderr.decode()
    assert sorted(tmp_path.rglob("*")) == before


def test_into_a_store_and_back(torpor: Cli, store: Path, image: Path, tmp_path: Path) -> None:
    first = torpor.json("copy", "job-1", str(store))
    assert first["new"] == first["bytes"] > 4 * MIB
    assert torpor.json("copy", "job-1", "@", "--name", "again")["new"] == 0
    listed = torpor.json("images", "--store", str(store))
    assert [one["name"] for one in listed] == ["job-1", "again"]
    assert torpor("images", "--store", "@").stdout.decode().splitlines()[1].split()[0] == "job-1"
    back = torpor.json("copy", "job-1@", str(tmp_path / "back"))
    assert contents(Path(back["path"])) == contents(image)
    torpor("copy", f"job-1@{store}", "--name", "mine")
    assert "mine" in [one["name"] for one in torpor.json("images")]


def test_images_of_a_store_are_shown_verified_tagged_and_removed(torpor: Cli, store: Path, image: Path) -> None:
    assert image.is_dir()
    torpor("copy", "job-1", "@")
    shown = torpor.json("show", "job-1@")
    assert shown["chunk"] == MIB // 2
    assert {one["kind"] for one in shown["streams"]} == {"block", "file"}
    assert "chunks" in torpor("show", "job-1@").stdout.decode()
    of_image = ("--checkpoint", "2", "--restore", "1", "--rate", "3", "--price", "30000")
    there, here = (torpor.json("plan", "--image", name, *of_image)["ways"][0] for name in ("job-1@", "job-1"))
    assert there["storage_per_day"] == here["storage_per_day"] > 0
    torpor("verify", "job-1@", "job-1")
    torpor("tag", "job-1@", "best")
    assert torpor.json("images", "--store", "@")[0]["tags"] == ["best"]
    torpor("verify", "best@")
    torpor("tag", "best@", "best", "--delete")
    torpor("show", "best@", check=3)
    torpor("tag", "job-1@", "best")
    removed = torpor.json("rm", "best@")["removed"]
    assert removed == [{"name": "best", "kind": "tag", "image": "job-1"}]
    assert torpor.json("images", "--store", "@")[0]["tags"] == []
    torpor("tag", "job-1@", "best")
    torpor("rm", "job-1@")
    assert torpor.json("images", "--store", "@") == []
    assert torpor.json("prune")["freed"] > 4 * MIB
    assert sum(path.stat().st_size for path in (store / "packs").iterdir()) == 0


def test_differences_are_told(torpor: Cli, store: Path, image: Path, home: Path) -> None:
    assert store.is_dir()
    changed = noise(1, 2 * MIB) + noise(9, MIB)
    make_image(home / "images" / "job-2", blocks={1 << 40: changed, 3 << 40: noise(2, MIB)})
    for name in ("job-1", "job-2"):
        torpor("copy", name, "@")
    folders = torpor.json("diff", "job-1", "job-2")
    stored = torpor.json("diff", "job-1@", "job-2@")
    assert folders == stored
    assert stored["bytes"]["gpu"] == {"old": 4 * MIB, "new": 4 * MIB, "moved": MIB}
    blocks = stored["blocks"]
    assert blocks["changed"] == [{"block": f"300/{1 << 40:#x}", "size": 3 * MIB, "changed": MIB}]
    assert (blocks["gone"], blocks["come"]) == ([f"300/{2 << 40:#x}"], [f"300/{3 << 40:#x}"])
    assert torpor.json("diff", "job-1", "job-1@")["chunks"]["old_only"] == 0
    assert "1.0 MiB of 3.0 MiB" in torpor("diff", "job-1@", "job-2@").stdout.decode()
    assert image.is_dir()


def test_one_file_takes_an_image_anywhere(torpor: Cli, store: Path, image: Path, tmp_path: Path) -> None:
    torpor("copy", "job-1", str(store))
    for source, file in (("job-1", "a.tar"), ("job-1@", "b.tar")):
        told = torpor("export", source, str(tmp_path / file)).stdout.decode()
        assert "MiB, which take" in told and "store" not in told.partition("\n")[2]
        with tarfile.open(tmp_path / file) as archive:
            assert {name.partition("/")[0] for name in archive.getnames()} == {"config", "packs", "index", "images"}
        made = torpor.json("import", str(tmp_path / file), "--name", file.replace(".", "-"))
        assert contents(Path(made["path"])) == contents(image)
        torpor("verify", f"job-1@{tmp_path / file}")
    torpor("init", str(tmp_path / "other"))
    assert torpor.json("import", str(tmp_path / "a.tar"), str(tmp_path / "other"))["new"] > 4 * MIB
    assert torpor.json("copy", f"job-1@{store}", str(tmp_path / "other"), "--name", "twice")["new"] == 0
    torpor("verify", "--store", str(tmp_path / "other"))
    torpor("export", "job-1", str(tmp_path / "a.tar"), check=2)
    said = torpor("export", "job-1", str(tmp_path / "nowhere" / "a.tar"), check=3).stderr.decode()
    assert f"no folder {tmp_path / 'nowhere'}" in said


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_damaged_file_is_not_imported(torpor: Cli, store: Path, image: Path, tmp_path: Path, at: float) -> None:
    file = tmp_path / "a.tar"
    torpor("export", "job-1", str(file))
    whole = file.read_bytes()
    data = bytearray(whole)
    data[int(at * (len(data) - 2048))] ^= 1
    file.write_bytes(data)
    torpor("import", str(file), "@", check=7)
    file.write_bytes(whole[: int(at * len(whole))])
    torpor("import", str(file), "@", check=7)
    assert torpor.json("images", "--store", str(store)) == []
    assert image.is_dir()


def test_damage_in_a_store_is_told_with_its_exit_code(torpor: Cli, store: Path, image: Path) -> None:
    assert image.is_dir()
    torpor("copy", "job-1", "@", "--compress", "none")
    pack = max((store / "packs").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[MIB] ^= 8
    pack.write_bytes(data)
    error = json.loads(torpor("verify", "--store", str(store), "--json", check=7).stdout)["error"]
    assert error["details"]["images"] == ["job-1"]
    assert error["details"]["problems"][0]["details"]["pack"] == pack.name
    told = torpor("verify", check=7).stderr.decode()
    assert [told.count(problem["message"]) for problem in error["details"]["problems"]] == [1]
    torpor("verify", "job-1@", check=7)
    torpor("copy", "job-1@", str(store.parent / "back"), check=7)
    torpor("copy", "job-1", "@", "--name", "new")
    found = torpor.json("verify", "--store", str(store), "--repair-index", check=7)
    assert found["damaged"] == ["job-1", "new"]
    torpor("copy", "job-1", "@", "--name", "healed")
    torpor("verify", "job-1@", "new@", "healed@")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("copy", "job-1", "/nowhere/store"), 3),
        (("copy", "job-1", "@/nowhere/store"), 3),
        (("copy", "job-1", "/etc"), 3),
        (("copy", "job-1"), 2),
        (("copy", "nobody@", "@"), 3),
        (("images", "--store", "/nowhere"), 3),
        (("images", "--store", "gopher://x"), 2),
        (("verify", "--store", "/nowhere"), 3),
        (("tag", "job-1", "x"), 2),
        (("restore", "nobody@"), 3),
        (("rm", "nobody@"), 3),
        (("init", "/nowhere/deep/store"), 3),
        (("import", "/nowhere/file"), 3),
        (("prune", "--break-lock", "none"), 3),
        (("checkpoint", "nobody", "--store", "@"), 3),
    ],
)
def test_what_cannot_be_is_refused(torpor: Cli, store: Path, image: Path, line: tuple[str, ...], code: int) -> None:
    assert store.is_dir()
    assert image.is_dir()
    error = json.loads(torpor(*line, "--json", check=code).stdout)["error"]
    assert error["code"] == code


def test_no_store_named_is_said(torpor: Cli, image: Path) -> None:
    assert image.is_dir()
    for line in (("prune",), ("copy", "job-1", "@"), ("show", "job-1@")):
        assert "TORPOR_STORE" in torpor(*line, check=2).stderr.decode()


def test_a_folder_with_something_else_in_it_becomes_no_store(torpor: Cli, image: Path, home: Path) -> None:
    assert image.is_dir()
    (home / "full").mkdir()
    (home / "full" / "thesis").touch()
    torpor("init", str(home / "full"), check=2)
    for line in (("images", "--store", "full"), ("copy", "job-1", "./full")):
        told = torpor(*line, check=3, cwd=home).stderr.decode()
        assert "has something else in it" in told and "makes one there" not in told
    assert [path.name for path in (home / "full").iterdir()] == ["thesis"]


def test_a_store_without_its_config_is_not_told_to_be_made_anew(torpor: Cli, store: Path) -> None:
    (store / "config").unlink()
    told = torpor("verify", check=3).stderr.decode()
    assert "config is missing" in told and "makes one there" not in told
