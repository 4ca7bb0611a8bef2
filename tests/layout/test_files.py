"""Rules for the files of the repository (docs/design/layout-rules.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

HAND_WRITTEN = (".py", ".cpp", ".cu", ".h", ".S", ".cmake", ".sh")
LIMIT = 400
GENERATED = ("native/abi/", "native/interposer/generated/", "api/seed/")
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)(_|$)")


def tracked() -> list[Path]:
    """The files in git, and those that could be added; where there is no git, those that are not ignored."""
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        return not_ignored()
    listed = subprocess.run(
        # A checkout is often another user's than root's, whom the tests need.
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    paths = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if (REPOSITORY / path).is_file()]


def not_ignored() -> list[Path]:
    """The files that no line of .gitignore names; all its lines are names of folders."""
    names = [line.strip("/") for line in (REPOSITORY / ".gitignore").read_text().split()]
    found: list[Path] = []
    for folder, folders, files in os.walk(REPOSITORY):
        folders[:] = [one for one in folders if one != ".git" and not any(fnmatch(one, name) for name in names)]
        found += [Path(folder, file).relative_to(REPOSITORY) for file in files]
    return found


def hand_written() -> list[Path]:
    return [
        path
        for path in tracked()
        if not str(path).startswith(GENERATED) and (path.suffix in HAND_WRITTEN or path.parts[0] in ("scripts", ".ci"))
    ]


def test_git_is_not_needed() -> None:
    assert set(tracked()) <= set(not_ignored()), "or .gitignore has lines of another kind"


def test_there_are_files_to_check() -> None:
    found = {path.parts[0] for path in hand_written()}
    assert {"src", "native", "gen", "tests", "scripts"} <= found


def test_hand_written_files_are_short() -> None:
    lengths = {path: len((REPOSITORY / path).read_text().splitlines()) for path in hand_written()}
    assert {path: length for path, length in lengths.items() if length > LIMIT} == {}


def test_no_vague_names() -> None:
    assert [path for path in tracked() if any(VAGUE.search(part.split(".")[0]) for part in path.parts)] == []


def test_no_unfinished_work() -> None:
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", r"\bXX" + r"X\b", "NotImplemented" + "Error")))
    assert [path for path in hand_written() if marks.search((REPOSITORY / path).read_text())] == []


def test_generated_files_say_so() -> None:
    folders = ("native/abi/", "native/interposer/generated/", "src/torpor/driver/ptx/")
    generated = [path for path in tracked() if str(path).startswith(folders)]
    assert generated
    silent = [path for path in generated if "generated" not in (REPOSITORY / path).read_text()[:400].lower()]
    assert silent == []


@pytest.mark.parametrize("script", ["scripts/setup", "scripts/demo", "scripts/test", "scripts/check", ".ci/run"])
def test_scripts_can_be_executed(script: str) -> None:
    path = REPOSITORY / script
    assert path.stat().st_mode & 0o111 == 0o111
    assert path.read_text().startswith("#!/usr/bin/env bash\n")


def test_no_test_is_skipped() -> None:
    skips = re.compile(r"pytest\.(mark\.)?(skip|xfail|importorskip)")
    tests = [path for path in tracked() if path.parts[0] == "tests" and path.suffix == ".py"]
    this = Path(__file__).relative_to(REPOSITORY)
    assert [path for path in tests if path != this and skips.search((REPOSITORY / path).read_text())] == []
