"""Process trees as the host sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor.process import refusals, tree


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """A shell with a child, a grandchild, and an orphan that this process does not know of."""
    script = "sh -c 'sleep 1000 & echo child; wait' & echo self; wait"
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", script], stdout=pipe, text=True, start_new_session=True) as started:
        assert started.stdout is not None
        assert {started.stdout.readline(), started.stdout.readline()} == {"self\n", "child\n"}
        yield started
        os.killpg(started.pid, 9)


def test_parents_come_before_children(family: subprocess.Popen[str]) -> None:
    def family_as_it_will_be() -> tree.Tree | None:
        seen = tree.read(os.getpid(), family.pid)
        return seen if [process.comm for process in seen.processes] == ["sh", "sh", "sleep"] else None

    found = eventually(family_as_it_will_be)
    parents = [process.parent for process in found.processes]
    assert parents == [os.getpid(), family.pid, found.processes[1].pid]
    assert found.root == found.processes[0]
    assert all(process.threads == (process.pid,) for process in found.processes)
    assert all(process.inner == process.pid for process in found.processes)


def test_ten_processes_are_read_quickly() -> None:
    """20 ms of the processor at most; the best of five counts, since the machine may be busy."""
    with subprocess.Popen(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait"],
                          start_new_session=True) as shell:  # fmt: skip
        try:
            eventually(lambda: len(tree.read(os.getpid(), shell.pid).processes) == 10)
            times = []
            for _ in range(5):
                began = time.thread_time()
                tree.read(os.getpid(), shell.pid)
                times.append(time.thread_time() - began)
        finally:
            os.killpg(shell.pid, 9)
    assert min(times) < 0.020


def test_strays_and_what_is_ignored(family: subprocess.Popen[str]) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            found = tree.read(os.getpid(), family.pid)
            assert other.pid in {process.pid for process in found.strays}
            found = tree.read(os.getpid(), family.pid, ignore=frozenset({other.pid}))
            assert other.pid not in {process.pid for process in found.strays}
        finally:
            other.kill()


def test_a_file_whose_path_is_too_long_to_be_told(tmp_path: Path) -> None:
    """Of a descriptor no link can be read then; the process is there all the same."""
    deep = (
        "import os\n"
        "for _ in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "os.dup2(os.open('.', 0), 0); os.execvp('sleep', ['sleep', '1000'])"
    )
    with subprocess.Popen([sys.executable, "-c", deep], cwd=tmp_path) as sleeper:
        try:
            link = Path(f"/proc/{sleeper.pid}/fd/0")
            eventually(lambda: tree.name(sleeper.pid) == "sleep")
            with pytest.raises(OSError, match="too long"):
                link.readlink()
            assert [one.pid for one in tree.below(0, sleeper.pid).processes] == [sleeper.pid]
        finally:
            sleeper.kill()


def test_one_that_may_not_be_looked_at_is_told(family: subprocess.Popen[str]) -> None:
    """It is not taken for one that is gone."""
    look = (
        "import sys; from torpor.process import tree\n"
        "pid = int(sys.argv[1]); found = tree.below(0, pid)\n"
        "print(found.root.pid == pid, found.hidden, tree._same_namespace(pid))"
    )
    poor = ("setpriv", "--bounding-set", "-sys_ptrace")
    done = subprocess.run([*poor, sys.executable, "-c", look, str(family.pid)], capture_output=True, text=True)
    assert done.stdout == f"True process {family.pid} (sh) None\n", done


def test_one_is_told_from_others_of_its_pid() -> None:
    """By its ancestors and the number it has in the innermost of its PID namespaces."""
    script = "sleep 1000 & echo $!; wait"
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        try:
            assert supervisor.stdout is not None
            inner = int(supervisor.stdout.readline())
            found = tree.below(0, supervisor.pid).processes
            sleeper = eventually(lambda: next((one for one in found if one.inner == inner), None))
            assert tree.is_inside(supervisor.pid, inner, sleeper.pid)
            assert not tree.is_inside(supervisor.pid, inner + 1, sleeper.pid)
            assert not tree.is_inside(supervisor.pid, os.getpid(), os.getpid())
            assert not tree.is_inside(sleeper.pid, inner, supervisor.pid)
            assert not tree.is_inside(supervisor.pid, inner, 0)
        finally:
            supervisor.kill()


def test_a_root_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as ended:
        eventually(lambda: Path(f"/proc/{ended.pid}/stat").read_text().split()[2] == "Z")
        assert tree.host_pid(os.getpid(), ended.pid) is None
        assert tree.read(os.getpid(), ended.pid).root is None


@pytest.mark.parametrize(
    ("name", "said", "frozen"),
    [
        ("{v2}/cgroup.events", "populated 1\nfrozen 1\n", True),
        ("{v2}/cgroup.events", "populated 1\nfrozen 0\n", False),
        ("unified/{v2}/cgroup.events", "populated 1\nfrozen 1\n", True),
        ("freezer/{v1}/freezer.state", "FROZEN\n", True),
        ("freezer/{v1}/freezer.state", "FREEZING\n", True),
        ("freezer/{v1}/freezer.state", "THAWED\n", False),
    ],
)
def test_frozen_by_a_cgroup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, said: str, frozen: bool
) -> None:
    groups = "6:freezer:/jobs/old\n4:memory:/other\n0::/jobs/new\n"
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *a, **k: groups if path.name == "cgroup" else read(path, *a, **k)
    )
    file = tmp_path / name.format(v1="jobs/old", v2="jobs/new")
    file.parent.mkdir(parents=True)
    file.write_text(said)
    assert tree.frozen_by(1, tmp_path) == (file.parent if frozen else None)
    assert tree.frozen_by(1, tmp_path / "none") is None


def test_a_process_that_has_just_ended_is_no_obstacle() -> None:
    """A job's shell starts and reaps programs while it is looked at."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as child:
        [seen] = tree.below(0, child.pid).processes
        child.kill()
        eventually(lambda: tree.status(child.pid)["State"].startswith("Z"))
        assert list(refusals.obstacles([seen], os.getpid(), [], [])) == []
