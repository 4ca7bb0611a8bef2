"""CRIU: which one, a dump with a commit point, a restore. docs/design/criu.md says why it is run this way."""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torpor import paths
from torpor.errors import CriuMissing, StepFailed, TorporError
from torpor.process import abstract_names, pinned, sessions, traits, tree, wire
from torpor.process.client import SupervisorClient
from torpor.process.criu_images import pipe_contents
from torpor.process.criu_log import failure
from torpor.process.namespace import RestoreFailed, RestoreSpec, Spec, start_supervisor

MINIMUM = (4, 1)
"""Older ones cannot dump on kernels from 6.13 on."""

_WORK = "criu"  # folder in the job's folder: logs and the verdict script, which are not part of an image

_COMMON = ("--no-default-config", "-v2", "--manage-cgroups=ignore", "--ghost-limit", "1G", "--file-locks")

# The post-dump stage is the one moment at which all is written and the tasks are still frozen. The script runs in the
# work folder. `<>` opens a FIFO without waiting for its other end, and the supervisor answers if the keeper is gone.
_VERDICT_SCRIPT = """#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
echo written 1<>written || exit 3
read -r verdict 0<>verdict || exit 4
[ "$verdict" = commit ] || exit 5
"""


@dataclass(frozen=True)
class Criu:
    """`argv` is the start of a command; `path` is what a person would call it by."""

    argv: tuple[str, ...]
    version: str
    path: Path


def find_criu() -> Criu:
    """The CRIU to use: `TORPOR_CRIU` (program or prefix) and no other, else the newest in a private prefix or on PATH.

    Raises CriuMissing when there is none that is new enough.

    The versions are asked for once per program and process (10 ms each).
    """
    chosen = os.environ.get("TORPOR_CRIU")
    candidates = [Path(chosen)] if chosen else paths.criu_prefixes()
    system = shutil.which("criu") or shutil.which("criu", path="/usr/local/sbin:/usr/sbin:/sbin")
    if system and not chosen:
        candidates.append(Path(system))
    unusable = ""
    best: Criu | None = None
    for candidate in dict.fromkeys(candidates):
        argv = _command(candidate)
        if argv is None:
            continue
        version = _version(argv)
        if not version or _number(version) < MINIMUM:
            unusable = f" ({candidate} is {version or 'not one that runs here'})"
        elif best is None or _number(version) > _number(best.version):
            best = Criu(argv, version, candidate)
    if best is not None:
        return best
    raise CriuMissing(
        f"no CRIU {MINIMUM[0]}.{MINIMUM[1]} or newer{unusable}",
        hint="run scripts/criu, which puts one beside Torpor and leaves the system as it is; install one; "
        "or name one in TORPOR_CRIU",
    )


def _command(candidate: Path) -> tuple[str, ...] | None:
    candidate = Path(os.path.abspath(candidate))
    if candidate.is_file():
        return (str(candidate),) if os.access(candidate, os.X_OK) else None
    # A prefix made by scripts/criu carries its own C library: its loader runs it, with no shell in between.
    loader, program = candidate / "lib" / "ld.so", candidate / "criu.bin"
    if loader.is_file() and program.is_file():
        return (str(loader), "--library-path", str(candidate / "lib"), str(program))
    return _command(candidate / "criu") if (candidate / "criu").is_file() else None


@functools.cache
def _version(argv: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run([*argv, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^Version:\s*(\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


class Dump:
    """One dump of a job's process tree into a folder, with a moment of decision.

    `start`, then `wait_written`; the tasks are frozen now and every image file is complete. Then `commit` (CRIU kills
    the tree or, with `leave_running`, lets it go on) or `roll_back` (the tasks run on as if nothing had been), and
    `finish`. If this process dies before it commits, CRIU rolls back by itself. `close` frees what is left; used as
    a context manager, leaving the block without a verdict rolls back. One thread at a time.
    """

    def __init__(self, job_dir: str | os.PathLike[str], criu: Criu | None = None) -> None:
        self.job_dir = Path(job_dir)
        self.criu = criu or find_criu()
        self._client: SupervisorClient | None = None
        self._written: int | None = None
        self._verdict: int | None = None
        self._committed = False
        self._ended: tuple[int, str] | None = None
        self._seen_written = False
        self._leave_running = False

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        images: str | os.PathLike[str],
        leave_running: bool = False,
        *,
        stdio: Mapping[str, str | None] | None = None,
        foreign_session: bool = False,
        external: Iterable[str] = (),
        before: Sequence[str] = (),
    ) -> None:
        """Start to dump the job into the existing, empty folder `images`. Raises WrongState, TorporError.

        `stdio` are the keys of its standard streams, by default what the supervisor says. The job may belong to a
        session that is led from outside only with `foreign_session`. `external` are CRIU's keys of files whose bytes
        the caller saves. `before` are words in front of CRIU's command, `other_users.words_before_criu`.
        """
        self._leave_running = leave_running
        work = _work_dir(self.job_dir)
        for name in ("written", "verdict"):
            (work / name).unlink(missing_ok=True)
            os.mkfifo(work / name, 0o600)
        script = work / "post-dump"
        script.write_text(_VERDICT_SCRIPT)
        script.chmod(0o700)
        log = self._log()
        log.unlink(missing_ok=True)
        self._client = SupervisorClient(self.job_dir)
        info = self._client.info()
        root = info.root
        argv = [
            *before,
            *self.criu.argv,
            "dump",
            *_COMMON,
            "--network-lock",
            "skip",
            "--tcp-established",
            "--link-remap",
            "-t",
            str(root),
        ]
        # By descriptor: the file system may have been mounted after the job began, and not show in its namespace.
        argv += ["-D", "/proc/self/fd/{images}", "-W", str(work), "-o", log.name, "--action-script", str(script)]
        if leave_running:
            argv.append("--leave-running")
        if foreign_session:
            argv.append("--shell-job")
        for key in {key for key in (stdio or info.stdio).values() if key and key.startswith("tty[")}:
            argv += ["--external", key]
        # There may be thousands, for which no packet to the supervisor has room.
        more = work / "dump.conf"
        more.write_text("".join(f"external {key}\n" for key in external))
        argv += ["--config", str(more)]
        self._written = os.open(work / "written", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._verdict = os.open(work / "verdict", os.O_RDWR | os.O_CLOEXEC)
        folder = os.open(images, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._client.start_criu(argv, {wire.VERDICT_KEY: self._verdict, "images": folder})
        finally:
            os.close(folder)

    def wait_written(self, timeout: float) -> None:
        """Wait until every image file is complete and the job still frozen.

        Raises StepFailed or NoSpace with CRIU's reason when the dump fails, StepFailed after `timeout` seconds (the
        dump is then rolled back as soon as CRIU comes that far); the job runs on in each case.
        """
        if self._seen_written:
            return
        if self._written is None or self._client is None:
            raise TorporError("the dump has not been started")
        poll = select.poll()
        poll.register(self._written, select.POLLIN)
        poll.register(self._client, select.POLLIN)
        if not poll.poll(timeout * 1000):
            self.roll_back(f"not written within {timeout:g} s")
            raise StepFailed(step="criu dump", reason=f"the process images were not written in {timeout:g} s")
        try:
            self._seen_written = bool(os.read(self._written, 64))
        except BlockingIOError:
            pass
        if self._seen_written:
            return
        status, output = self._wait_ended(60.0)
        raise failure("criu dump", status, output, self._log())

    def commit(self) -> None:
        """The dump stands. Only after `wait_written`; `finish` tells whether CRIU did its part."""
        if not self._seen_written:
            raise TorporError("a dump cannot be committed before it is written")
        self._committed = self._say(wire.COMMIT)

    def roll_back(self, reason: str) -> None:
        """The dump does not stand: the tasks run on. CRIU is never killed, which would hurt the job it works in;
        called before all is written this takes effect once it is. `reason` goes to the log."""
        if self._say(wire.ROLL_BACK):
            with suppress(OSError), self._log().open("a") as log:
                log.write(f"Rolled back by the keeper: {reason}\n")

    def finish(self, timeout: float = 600.0) -> None:
        """Wait until CRIU has killed the job or let it go on; nothing to wait for when it was never started.

        Raises StepFailed when it did not do as it was told.
        """
        if self._client is None:
            return
        if self._verdict is not None:
            raise TorporError("neither committed nor rolled back")
        status, output = self._wait_ended(timeout)
        if status != 0 if self._committed else status <= 0:
            raise failure("criu dump", status, output, self._log())

    @property
    def has_ended_job(self) -> bool:
        """Whether CRIU has said, in `finish`, that it killed the job as committed; its end may not be on record yet."""
        return self._committed and not self._leave_running and self._ended is not None and self._ended[0] == 0

    def close(self) -> None:
        """Free the descriptors; without a verdict so far this rolls back."""
        for fd in (self._written, self._verdict):
            if fd is not None:
                os.close(fd)
        self._written = self._verdict = None
        if self._client is not None:
            self._client.close()

    def _log(self) -> Path:
        return self.job_dir / _WORK / "dump.log"

    def _say(self, word: bytes) -> bool:
        if self._verdict is None:
            return False
        os.write(self._verdict, word)
        os.close(self._verdict)
        self._verdict = None
        return True

    def _wait_ended(self, timeout: float) -> tuple[int, str]:
        if self._ended is None:
            assert self._client is not None, "the dump has not been started"
            try:
                self._ended = self._client.criu_ended(timeout)
            except TimeoutError:
                raise StepFailed(
                    step="criu dump", reason=f"CRIU did not end within {timeout:g} s", hint=f"see {self._log()}"
                ) from None
        return self._ended


@dataclass(frozen=True)
class Restored:
    """Pids on the host, no root where that has ended since; `seconds` from the start to the running tree."""

    supervisor: int
    root: int | None
    seconds: float


def restore(
    images: str | os.PathLike[str],
    job_dir: str | os.PathLike[str],
    root: int,
    stdio: Mapping[str, str | None],
    *,
    namespaces: bool = True,
    await_client: bool = False,
    last_pid: int = 0,
    criu: Criu | None = None,
) -> Restored:
    """Bring a dumped tree back, under a new supervisor in the existing folder `job_dir`.

    `root` is the pid of the tree's root as the job sees it, `stdio` CRIU's keys of the pipes that were its standard
    streams at the dump (`client.Info.stdio`); no process to come gets a pid up to `last_pid`. The images are only
    read. Raises StepFailed with CRIU's reason, NoRights, TorporError; no process is left then.
    """
    criu = criu or find_criu()
    work = _work_dir(Path(job_dir))
    log = work / "restore.log"
    log.unlink(missing_ok=True)
    argv = [*criu.argv, "restore", *_COMMON, "--restore-detached", "--restore-sibling", "--tcp-established"]
    terminal = [name for name, key in stdio.items() if key and key.startswith("tty[")]
    stdin_key = None if "stdin" in terminal else stdio.get("stdin")
    stdin: Literal["null", "pipe"] = "pipe" if stdin_key else "null"
    try:
        unread = pipe_contents(Path(images), stdin_key) if stdin_key else b""
        taken = sessions.identifiers(Path(images))
        source = abstract_names.free(Path(images), work)
        to_make = pinned.to_make(Path(images).parent)
    except TorporError as error:
        raise StepFailed(step="criu restore", reason=error.message, hint=error.hint) from error
    argv += ["-D", os.path.abspath(source), "-W", str(work), "-o", log.name]
    spec = Spec(
        mode="restore",
        job_dir=os.path.abspath(job_dir),
        namespaces=namespaces,
        stdin=stdin,
        terminal=terminal,
        await_client=await_client,
        restore=RestoreSpec(
            argv,
            root,
            dict(stdio),
            max(last_pid, *taken),
            criu_pid=sessions.room(taken),
            unread_input=unread.decode("latin-1"),
            pinned=to_make,
            cpus=traits.cpus(Path(images).parent),
        ),
    )
    began = time.monotonic()
    try:
        supervisor = start_supervisor(spec)
    except RestoreFailed as error:
        raise failure("criu restore", 1, error.output, log) from None
    return Restored(supervisor, tree.host_pid(supervisor, root), time.monotonic() - began)


def _work_dir(job_dir: Path) -> Path:
    work = Path(os.path.abspath(job_dir)) / _WORK
    work.mkdir(mode=0o700, exist_ok=True)
    return work
