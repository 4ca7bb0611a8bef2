"""Several copies of one job at once, although a process has a name that all network peers share."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually
from torpor.errors import StepFailed

pytestmark = pytest.mark.criu

PROGRAM = """
import os, socket, sys, time

bound = []
for name in sys.argv[1:]:
    bound.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    bound[-1].bind(b"\\0" + name.encode().replace(b"%", b"\\0"))
    bound[-1].listen()
number = 0
while True:
    os.write(1, f"{number}\\n".encode())
    number += 1
    time.sleep(0.02)
"""


def began(*names: str) -> torpor.Job:
    job = torpor.run([sys.executable, "-c", PROGRAM, *names], gpu="sim")
    eventually(lambda: counted(job) >= 3)
    return job


def counted(job: torpor.Job) -> int:
    return b"".join(job.logs()).count(b"\n")


def goes_on(job: torpor.Job) -> None:
    before = counted(job)
    eventually(lambda: counted(job) > before + 2)
    assert job.state is torpor.JobState.RUNNING


def ended(*jobs: torpor.Job) -> None:
    for job in jobs:
        job.kill(9)
        assert job.wait(100)


def test_the_drivers_own_socket_gets_another_name(home: Path) -> None:
    job = began(f"cuda-uvmfd-{home.name}-300%%")
    image = job.checkpoint(leave_running=True)
    first = torpor.restore(image, name="first")
    second = torpor.restore(image, name="second")
    for one in (job, first, second):
        goes_on(one)
    # A copy can be saved as any job, and its image copied beside it in turn.
    third = torpor.restore(first.checkpoint(leave_running=True), name="third")
    for one in (job, first, second, third):
        goes_on(one)
    ended(job, first, second, third)
    again = torpor.restore(image, name="again")
    goes_on(again)
    ended(again)


@pytest.mark.parametrize("names", [["service-{}"], ["cuda-uvmfd-{}-301", "cuda-uvmfd-{}-302"]])
def test_names_that_others_look_for_are_kept(home: Path, names: list[str]) -> None:
    job = began(*(name.format(home.name) for name in names))
    image = job.checkpoint(leave_running=True)
    with pytest.raises(StepFailed, match="Address already in use"):
        torpor.restore(image, name="copy")
    goes_on(job)
    ended(job)
    copy = torpor.restore(image, name="copy")
    goes_on(copy)
    ended(copy)


OWN_NAME = PROGRAM.replace(
    "sys.argv[1:]", "[f'cuda-uvmfd-{os.stat(\"/proc/self/ns/pid\").st_ino}-{os.getpid()}']"
)  # as the driver's


def namespace_of(job: torpor.Job) -> int:
    pid = job.record.supervisor_pid
    return Path(f"/proc/{pid}/ns/pid").stat().st_ino


def began_by_namespace() -> torpor.Job:
    job = torpor.run([sys.executable, "-c", OWN_NAME], gpu="sim")
    eventually(lambda: counted(job) >= 3)
    return job


@pytest.mark.usefixtures("home")
def test_a_restored_job_leaves_its_name_to_others() -> None:
    """Another job's namespace may get the number that this one's had."""
    job = began_by_namespace()
    name = f"@cuda-uvmfd-{namespace_of(job)}-300"
    image = job.checkpoint()
    assert name not in Path("/proc/net/unix").read_text().split()
    job = torpor.restore(image)
    assert name not in Path("/proc/net/unix").read_text().split()
    other = began_by_namespace()
    for one in (job, other):
        goes_on(one)
    ended(job, other)


@pytest.mark.usefixtures("home")
def test_no_job_gets_a_namespace_whose_number_is_in_a_name() -> None:
    job = began_by_namespace()
    number = namespace_of(job)
    ended(job)
    taken = range(number - 5, number + 10)
    bound = []
    for one in taken:
        bound.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        bound[-1].bind(f"\0cuda-uvmfd-{one}-299".encode())
    jobs = [began_by_namespace() for _ in range(3)]
    assert not {namespace_of(one) for one in jobs} & set(taken)
    ended(*jobs)
    for sock in bound:
        sock.close()
