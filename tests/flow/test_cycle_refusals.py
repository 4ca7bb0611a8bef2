"""What cannot be saved is named before the job is touched, and what does not come to rest is left alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, eventually
from tests.flow import walking
from torpor import api, errors, paths
from torpor.process.client import SupervisorClient
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = Path(__file__).with_name("stubborn.py")


@pytest.fixture
def stubborn(home: Path, tmp_path: Path) -> Callable[[str], api.Job]:
    """Starts a program that has or does something difficult, until the file `go` appears."""
    del home

    def start(what: str) -> api.Job:
        job = api.run([sys.executable, str(PROGRAM), what, str(tmp_path / "go")], name="stubborn", gpu="sim")
        eventually(lambda: b"ready\n" in b"".join(job.logs()))
        return job

    return start


REFUSED = {
    "managed": "managed memory",
    "imported": "imported by descriptor",
    "stray": "left the job's process tree",
}


@pytest.mark.parametrize("what", ["managed", "imported", "stray"])
@pytest.mark.parametrize("verb", ["checkpoint", "suspend"])
def test_it_is_named_and_the_job_goes_on(
    stubborn: Callable[[str], api.Job], home: Path, tmp_path: Path, what: str, verb: str
) -> None:
    job = stubborn(what)
    before = walking.traces(home)
    with pytest.raises(errors.Refused, match=str(REFUSED[what])) as caught:
        getattr(job, verb)()
    assert caught.value.hint
    assert caught.value.details["process"] >= 300
    assert walking.traces(home) == before
    assert job.state is JobState.RUNNING
    (tmp_path / "go").touch()
    assert walking.finish(job)[-1] == "right"


def test_a_busy_gpu_is_named_and_the_job_goes_on(
    stubborn: Callable[[str], api.Job], home: Path, tmp_path: Path
) -> None:
    job = stubborn("busy")
    before = walking.traces(home)
    with pytest.raises(errors.FreezeTimeout, match="GPU 0 is busy"):
        job.checkpoint(deadline=0.3)
    assert walking.traces(home) == before
    (tmp_path / "go").touch()
    assert walking.finish(job)[-1] == "right"


def test_input_that_waits_is_not_lost(home: Path, tmp_path: Path) -> None:
    del home
    go = tmp_path / "go"
    program = (
        f"import sys, time, os\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint(len(sys.stdin.read()))"
    )
    job = api.run([sys.executable, "-c", program], name="reader", gpu="sim", detach=False)
    with SupervisorClient(paths.job_dir("reader")) as client:
        streams = client.attach()
        # More than fits the pipe: the supervisor keeps the rest, and the writer waits.
        writer = threading.Thread(target=lambda: (streams.write(b"x" * (3 << 20)), streams.end_input()), daemon=True)
        writer.start()
        eventually(lambda: unsent("reader"))
        with pytest.raises(errors.Refused, match="bytes of input"):
            job.checkpoint()
        go.touch()
        assert walking.finish(job) == [str(3 << 20)]
        writer.join()


def unsent(job: str) -> int:
    with SupervisorClient(paths.job_dir(job)) as client:
        return client.info().unsent_input


class Unprivileged(Cli):
    """Runs `torpor` without CAP_SYS_ADMIN, and so do all that it starts."""

    command = ("setpriv", "--bounding-set", "-sys_admin", *Cli.command)


def test_no_rights(home: Path) -> None:
    torpor = Unprivileged()
    counter = (sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "8", "--delay", "0.02")
    torpor("run", "-d", "--name", "plain", "--", *counter)
    eventually(lambda: b"count 3\n" in torpor("logs", "plain").stdout)
    before = walking.traces(home)
    refused = torpor("checkpoint", "plain", check=errors.NoRights.code)
    assert b"namespaces" in refused.stderr
    assert b"root" in refused.stderr
    assert walking.traces(home) == before
    # What needs no rights works: the process stays where it is.
    torpor("suspend", "plain")
    torpor("resume", "plain")
    last = torpor("logs", "plain").stdout
    eventually(lambda: torpor("logs", "plain").stdout != last)
