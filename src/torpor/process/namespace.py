"""Start a job's supervisor, in namespaces of its own, cut loose from whoever starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from torpor.errors import NoRights, NoSpace, NotFound, StepFailed, TorporError
from torpor.paths import JOB_DIR_IN_JOB

_CAP_SYS_ADMIN = 21

# The package itself is not imported in the supervisor: only the few modules beside this one.
_BOOTSTRAP = (
    "import sys, types; package = types.ModuleType('torpor'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['torpor'] = package; from torpor.process import supervisor; "
    "supervisor.main(int(sys.argv[2]), int(sys.argv[3]))"
)


@dataclass(frozen=True)
class RestoreSpec:
    """How to bring a job back.

    `argv` runs `criu restore`; `root` is the pid of the job's root as the job sees it; `inherit` gives CRIU's key of
    the pipe (`pipe:[inode]`) or terminal (`tty[rdev:dev]`) for each of `stdin`, `stdout`, `stderr`, or None. No pid up
    to `last_pid` is given to a new process of the job, and CRIU itself runs with pids after `criu_pid`. `unread_input`
    (bytes as Latin-1) goes into the new standard input before all else. `pinned` is what `pinned_fill` makes first.
    The job begins on the CPUs `cpus`, as far as there are such. After `timeout` seconds the restore counts as failed.
    """

    argv: list[str]
    root: int
    inherit: dict[str, str | None] = field(default_factory=dict)
    last_pid: int = 0
    criu_pid: int = 0
    unread_input: str = ""
    pinned: list[dict[str, Any]] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    timeout: float = 600.0


@dataclass(frozen=True)
class Spec:
    """What a supervisor is to do.

    `stdin` is "null" or "pipe" (fed by attached clients); the streams named in `terminal` are a terminal that the job
    controls and clients are in front of, with these `attributes` and `window` at first (`terminal.Terminal`). With
    `await_client` the job's output waits up to 10 s for a first client, which so misses none of it. Without
    `namespaces` the job shares the host's process ids and mounts. `env` is the whole environment; the supervisor adds
    nothing to it. With the mode "adopt" the job is the process `adopt` of the host, which is nobody's child here and is
    left alone when the supervisor ends.
    """

    mode: Literal["run", "restore", "adopt"]
    job_dir: str
    argv: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "/"
    namespaces: bool = True
    stdin: Literal["null", "pipe"] = "null"
    terminal: list[str] = field(default_factory=list)
    attributes: list[Any] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    await_client: bool = False
    restore: RestoreSpec | None = None
    adopt: int = 0


class CannotExec(NotFound):
    """The program is not there (`exit_code` 127) or cannot be run (126); nothing of the job is left."""

    exit_code: int

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, details={"exit_code": exit_code})
        self.exit_code = exit_code


class RestoreFailed(StepFailed):
    """`criu restore` failed; nothing of the job is left. `output` is what CRIU printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(step="criu restore", reason=message)
        self.output = output


def job_view(job_dir: str | os.PathLike[str], namespaces: bool = True) -> Path:
    """The job's folder as the job sees it."""
    return JOB_DIR_IN_JOB if namespaces else Path(job_dir)


def effective_capabilities() -> int:
    """This process's effective capabilities as the kernel's bit mask."""
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def may_make_namespaces() -> bool:
    """Whether a job started by this process can have namespaces of its own (CAP_SYS_ADMIN)."""
    return bool(effective_capabilities() & (1 << _CAP_SYS_ADMIN))


def start_supervisor(spec: Spec) -> int:
    """Start the supervisor and wait until the job runs; returns the supervisor's pid on the host.

    The supervisor outlives this process and holds none of its descriptors. Raises CannotExec, RestoreFailed,
    NoRights, TorporError; nothing of the job is left then.
    """
    data = json.dumps(asdict(spec)).encode()
    spec_fd = os.memfd_create("torpor-spec")
    report, tell = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(spec_fd, data)
        os.lseek(spec_fd, 0, os.SEEK_SET)
        package = str(Path(__file__).resolve().parents[1])
        command = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, package, str(spec_fd), str(tell)]
        starter = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(spec_fd, tell),
            env={},
            cwd="/",
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(tell)
        os.close(spec_fd)
    said = _read_report(report)
    _, trouble = starter.communicate()
    if "error" in said:
        raise _error(said["error"])
    if not said.get("ready"):
        lines = trouble.decode(errors="replace").strip().splitlines()
        raise TorporError(
            f"the job's supervisor did not start: {lines[-1] if lines else 'it died'}",
            hint=f"see {spec.job_dir}/supervisor.log",
        )
    return int(said["pid"])


def _read_report(report: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    with os.fdopen(report, "rb") as file:
        for line in file:
            said |= json.loads(line)
    return said


def _error(error: Mapping[str, Any]) -> TorporError:
    message = str(error["message"])
    match error["kind"]:
        case "exec":
            return CannotExec(message, int(error["exit_code"]))
        case "criu":
            return RestoreFailed(message, str(error.get("output", "")))
        case "rights":
            return NoRights(
                f"the job's namespaces cannot be made: {message}",
                hint="run as root, or give the capability CAP_SYS_ADMIN; without, use a job with no namespaces",
            )
        case "space":
            return NoSpace(
                f"there is no room for a job: {message}",
                hint="TORPOR_HOME chooses where Torpor keeps its files",
                details={"needed": None, "free": None},
            )
    return TorporError(f"the job's supervisor did not start: {message}")
