"""The supervisor starts a program as a shell would, in a world of its own, and tells how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.flow.supervised import ALL_KINDS, World, world
from torpor import records
from torpor.errors import TorporError, WrongState
from torpor.process.client import SupervisorClient
from torpor.process.namespace import CannotExec, Spec, start_supervisor

__all__ = ["world"]
pytestmark = pytest.mark.criu


def test_the_job_has_ids_and_mounts_of_its_own(world: World) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    job = world().python(
        "import os; print(os.getpid(), os.getsid(0), os.getppid(), sorted(int(n) for n in os.listdir('/proc')"
        " if n.isdigit()), os.listdir('/run/torpor/job/ctl'))"
    )
    assert job.end()["exit_code"] == 0
    eventually(job.gone)
    assert job.log == "300 300 1 [1, 300] []\n"
    assert Path("/proc/self/mountinfo").read_text() == before


def test_no_namespaces(world: World) -> None:
    job = world().python(
        "import os, time; print(os.getpid(), os.environ['TORPOR_JOB_DIR'], flush=True); time.sleep(1000)",
        namespaces=False,
    )
    root = job.info().root
    eventually(lambda: job.log == f"{root} {job.folder}\n")
    assert records.process_start(root) is not None
    with job.client() as client:
        client.shutdown()
    eventually(job.gone)
    assert records.process_start(root) is None


def test_a_program_gets_only_what_is_its_own(world: World, tmp_path: Path) -> None:
    """Three descriptors, default signals, its limits, umask, folder and environment."""
    program = (
        "import os, resource, signal\n"
        "fds = sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]\n"
        "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
        "print(fds, int(status['SigBlk'], 16), int(status['SigIgn'], 16) & ~0x1001000, end=' ')\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), oct(os.umask(0)), os.getcwd(), dict(os.environ))\n"
    )
    umask = os.umask(0o027)
    try:
        job = world().python(program, cwd=str(tmp_path), env={"ONLY": "this"})
    finally:
        os.umask(umask)
    assert job.end()["exit_code"] == 0
    limits = subprocess.run(
        [sys.executable, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    env = {"ONLY": "this", "LC_CTYPE": "C.UTF-8"}
    assert job.log == f"[0, 1, 2] 0 0 {limits} 0o27 {tmp_path} {env}\n"


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["no-such-program"], 127, "no-such-program: command not found"),
        (["/no/such/program"], 127, "/no/such/program: command not found"),
        (["/etc"], 126, "/etc: Permission denied"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
    ],
)
def test_what_cannot_be_run(world: World, argv: list[str], code: int, says: str) -> None:
    job = world()
    with pytest.raises(CannotExec, match=says) as caught:
        job.start(*argv)
    assert caught.value.exit_code == code
    assert not (job.folder / "supervisor.sock").exists()


def test_a_folder_that_is_not_there(world: World) -> None:
    with pytest.raises(CannotExec, match="/no/such/folder: cannot start there") as caught:
        world().start("true", cwd="/no/such/folder")
    assert caught.value.exit_code == 126


def test_a_job_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TorporError, match="did not start"):
        start_supervisor(Spec("run", str(tmp_path / "none"), argv=["true"], env={}))


@pytest.mark.parametrize(
    ("argv", "code", "number"),
    [(["sh", "-c", "exit 7"], 7, None), (["sh", "-c", "kill -9 $$"], None, 9), (["true"], 0, None)],
)
def test_how_it_ended(world: World, argv: list[str], code: int | None, number: int | None) -> None:
    job = world().start(*argv)
    end = job.end()
    assert (end["exit_code"], end["signal"], end["checkpointed"]) == (code, number, False)
    eventually(job.gone)


def test_a_signal_to_the_root(world: World) -> None:
    job = world().start("sleep", "1000")
    with job.client() as client:
        client.signal(signal.SIGUSR1)
    assert job.end()["signal"] == signal.SIGUSR1
    eventually(job.gone)
    with pytest.raises(WrongState, match="the job has ended"):
        job.client()


def test_sigterm_to_the_supervisor_ends_the_job(world: World) -> None:
    job = world().start("sh", "-c", "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
    eventually(lambda: "ready" in job.log)
    os.kill(job.supervisor, signal.SIGTERM)
    assert job.end()["exit_code"] == 3
    eventually(job.gone)
    assert job.log == "ready\ntold\n"


def test_shutdown_leaves_nothing(world: World) -> None:
    job = world().start("sh", "-c", "trap '' TERM; sleep 1000 & setsid sleep 1000 & wait")
    inside = eventually(lambda: len(job.tree().processes) == 3 and job.tree().processes)
    with job.client() as client:
        client.shutdown()
    eventually(job.gone)
    assert [process.pid for process in inside if records.process_start(process.pid) is not None] == []


def test_it_stays_for_what_the_root_left_behind(world: World) -> None:
    job = world().start("sh", "-c", "(while [ ! -e /run/torpor/job/go ]; do sleep 0.01; done; echo late) & exit 4")
    assert job.end()["exit_code"] == 4
    assert job.info().state == "exited"
    assert len(job.tree().strays) > 0
    (job.folder / "go").touch()
    eventually(job.gone)
    assert job.log == "late\n"


def test_its_starter_may_go(world: World) -> None:
    """It has its own session and none of its starter's descriptors, so nobody waits for it."""
    job = world()
    spec = f"Spec('run', {str(job.folder)!r}, argv=['sleep', '1000'], env={dict(os.environ)!r})"
    program = f"from torpor.process.namespace import Spec, start_supervisor; print(start_supervisor({spec}))"
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    job.supervisor = int(started.stdout)
    assert os.getsid(job.supervisor) != os.getsid(0)
    assert job.info().state == "running"


def test_a_second_connection_is_served_while_one_is_silent(world: World) -> None:
    job = world().start("sleep", "1000")
    with SupervisorClient(job.folder) as silent:
        assert job.info().root == 300
        assert silent.info().root == 300


def test_requests_that_make_no_sense(world: World) -> None:
    job = world().start("sleep", "1000")
    with job.client() as client:
        for request, says in (
            ({"op": "dance"}, "no such operation"),
            ({"op": "signal", "signal": 4000}, "4000"),
            ({"op": "signal"}, "signal"),
            ({"op": "hold", "blocks": [{}]}, "1 blocks for 0 descriptors"),
            ({"op": "criu", "argv": ["/no/criu"], "inherit": []}, "command not found"),
        ):
            with pytest.raises(TorporError, match=says):
                client._ask(request)
        assert client.info().state == "running"


def test_all_kinds_in_the_tree(world: World) -> None:
    job = world().start(*ALL_KINDS, stdin="pipe")
    said = job.ask()
    found = job.tree()
    assert [process.inner for process in found.processes] == [300, said["child"]]
    assert len(found.processes[0].threads) == len(said["threads"]) == 3
    assert found.processes[1].parent == found.processes[0].pid
    assert found.strays == ()
    assert not any(process.uses_gpu for process in found.processes)
