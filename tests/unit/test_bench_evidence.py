"""The list of what is to be run on a GPU names things that exist, and what runs too long keeps its output."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from torpor.bench import parts

EVIDENCE = REPOSITORY / "bench" / "evidence.py"


def evidence(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(EVIDENCE), *words], capture_output=True, text=True, check=False)


def test_everything_in_the_list_exists() -> None:
    done = evidence("--list")
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line.split(" s  ", 1)[1]) for line in done.stdout.splitlines()]
    assert {words[0] for words in lines} == {"python", "taskset", "sh"}
    scripts = [word for words in lines for word in words if word.endswith(".py")]
    assert len(scripts) > 15
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert sorted(set(names)) == sorted(names)  # each has a log of its own
    assert not [name for name in scripts if not (REPOSITORY / name).is_file()]
    measured = {words[4] for words in lines if words[1:4] == ["-m", "torpor", "bench"]}
    assert measured == set(parts.REGISTRY) - {"gpus"}
    assert {f"tests/gpu/{file.name}" for file in (REPOSITORY / "tests" / "gpu").glob("test_*.py")} <= set(scripts)


def test_an_item_that_is_not_known_is_an_error(tmp_path: Path) -> None:
    done = evidence(str(tmp_path), "no-such-item")
    assert done.returncode == 2
    assert "no item is called no-such-item" in done.stderr


@pytest.mark.parametrize("status", [0, 3])
def test_what_an_item_says_is_kept(tmp_path: Path, status: int) -> None:
    homes = tmp_path / "homes"
    names = "os.environ[name] for name in ('TORPOR_HOME', 'TORPOR_DRAM')"
    code = f"import os; open({str(homes)!r}, 'w').write(' '.join({names})); print('| a row |'); exit({status})"
    program = (
        f"import sys; sys.path.insert(0, {str(EVIDENCE.parent)!r}); import evidence\n"
        f"evidence.ITEMS = (evidence.Item('one', 100, (sys.executable, '-c', {code!r})),)\n"
        f"sys.argv = ['evidence', {str(tmp_path / 'out')!r}]; sys.exit(evidence.main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == (status != 0), done.stderr
    assert f"one: status {status}: | a row |" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["one.log", "| a row |"]
    assert (tmp_path / "out" / "one.log").read_text() == "| a row |\n"
    assert not any(Path(folder).exists() for folder in homes.read_text().split())
