"""The supervisor: PID 1 of a job's namespace. docs/design/control-protocol.md says what it answers.

It starts the program, or CRIU to restore it; pumps its streams; reaps it and records how it ended; runs CRIU for the
keeper; and holds block descriptors while blocks are away. It has one thread and imports nothing heavy, since every
job pays for it. `torpor.process.namespace` starts it as

    python -I -S -c <bootstrap> SPEC_FD REPORT_FD

with the spec (`namespace.Spec`) as JSON on the first descriptor. On the second it reports lines of JSON: `{"pid": n}`
(on the host), then `{"ready": true, "root": n}`, or `{"error": {"kind", "message", "exit_code", "output"}}`.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import time

from torpor.process import limits, mounts, spawn, wire
from torpor.process.criu_run import CriuRun
from torpor.process.loop import READ, Loop, signal_events
from torpor.process.requests import Requests
from torpor.process.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

FIRST_JOB_PID = 300
"""The kernel hands out no pid below 300 again once it has wrapped around, so these stay free for CRIU."""

_KINDS = {errno.EPERM: "rights", errno.EACCES: "rights", errno.ENOSPC: "space", errno.EDQUOT: "space"}

_TERM_GRACE = 5.0  # seconds between asking the job to end and ending it
_END_GRACE = 5.0  # seconds for processes that were killed to be gone

_END_BYTES = 256  # more than the record of a job's end has


class Supervisor:
    """One job, from its start to the end of its last process."""

    def __init__(self, spec: dict[str, Any], report: int, umask: int) -> None:
        self.spec = spec
        self.job_dir: str = spec["job_dir"]
        self.isolated: bool = spec["namespaces"]
        self.state = "starting"
        self.root: int | None = None
        self.end: dict[str, Any] | None = None
        self.loop = Loop()
        self.criu: CriuRun | None = None
        self._report = report
        self._umask = umask
        self._limits = _raise_limits()
        self._closing = False
        self._childless = False
        self._root_status: int | None = None
        self._killed = False  # whether a process other than the root was, before the job ran
        self._checkpointed = False
        self._signals = signal_events([signal.SIGCHLD, signal.SIGTERM, signal.SIGINT])
        self.loop.watch(self._signals, READ, lambda _events: self._on_signals())
        log = os.open(f"{self.job_dir}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._reserve_end()
        self.streams = Streams(self.loop, log, spec["stdin"], spec["await_client"], spec["terminal"])
        self.streams.shape_terminal(spec["attributes"], spec["window"])
        self.requests = Requests(self, wire.listen(self.job_dir))

    def run(self) -> None:
        {"restore": self._restore, "adopt": self._adopt, "run": self._start}[self.spec["mode"]]()
        while not self._done():
            self.loop.turn()
        self.requests.close()

    def _start(self) -> None:
        self._set_last_pid(FIRST_JOB_PID - 1)
        spec, ends = self.spec, self.streams.job_ends
        stdio = [ends[name] for name in ("stdin", "stdout", "stderr")]
        try:
            pid = spawn.program(
                spec["argv"], spec["env"], spec["cwd"], stdio, self._limits, self._umask, bool(spec["terminal"])
            )
        except spawn.ExecFailed as error:
            self._fail("exec", error.message, exit_code=error.exit_code)
        self._alive(pid)

    def _restore(self) -> None:
        restore, ends = self.spec["restore"], self.streams.job_ends
        inherit = {restore["inherit"][name]: fd for name, fd in ends.items() if restore["inherit"].get(name)}
        self.root = int(restore["root"])
        self.streams.put_back(restore["unread_input"].encode("latin-1"))
        inherit |= self._pinned(restore["pinned"])
        if restore["criu_pid"]:
            self._set_last_pid(restore["criu_pid"])
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus.intersection(restore["cpus"]) or cpus)  # which CRIU inherits, and the job from it
        self.run_criu(restore["argv"], inherit, self._restored)
        os.sched_setaffinity(0, cpus)
        for key in set(inherit) - set(restore["inherit"].values()):
            os.close(inherit[key])  # CRIU has them
        self.loop.after(restore["timeout"], self._restore_late)

    def _pinned(self, wanted: list[dict[str, Any]]) -> dict[str, int]:
        if not wanted:
            return {}
        from torpor.process import pinned_fill

        try:
            return pinned_fill.make(wanted)
        except OSError as error:
            self._fail("criu", f"the job's pinned host memory cannot be made: {error}", output=str(error))

    def _restore_late(self) -> None:
        # CRIU waits for ever for a process of the tree that stopped half-way.
        if self.state == "starting":
            output = self.criu.output if self.criu else ""
            self._fail("criu", "criu restore did not end in time", output=output)

    def _adopt(self) -> None:
        pid = int(self.spec["adopt"])
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:
            self._fail("setup", f"process {pid} cannot be watched: {error.strerror}")
        self.streams.keys = dict.fromkeys(self.streams.keys)  # whatever its streams are, they are not ours

        def ended(_events: int) -> None:
            self.loop.forget(handle)
            os.close(handle)
            self._reap()
            # Its parent learns how it ended. If CRIU is at work it may have been CRIU: then its exit status tells.
            self._root_status = signal.SIGKILL
            if self.criu is None:
                self._root_ended(signal.SIGKILL, self._checkpointed)

        self.loop.watch(handle, READ, ended)
        self._alive(pid)

    def _restored(self, run: CriuRun) -> None:
        if self.root is None or run.status is None or (run.status != 0 and not self._came_to_its_end(run.status)):
            self._fail("criu", f"criu restore ended with status {run.status}", output=run.output)
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self._set_last_pid(max([FIRST_JOB_PID - 1, int(self.spec["restore"].get("last_pid") or 0), *pids]))
        self._alive(self.root)

    def _came_to_its_end(self, criu_status: int) -> bool:
        """Whether the job has gone on and ended, the root with exit code 0, so soon that CRIU had not let go of all.

        CRIU fails then, and kills whatever there is, the root first: one that ended with 0 was not killed, nor was who
        ended before it. Whom it left behind is our child by now. That must have ended too, and not by CRIU's hand: it
        would have gone on. A CRIU that was killed itself may have left anything.
        """
        limit = time.monotonic() + _END_GRACE
        while criu_status > 0 and not self._killed and self._root_status in (None, 0):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._root_status == 0
            if pid != 0:
                self._note_end(pid, status)
            elif time.monotonic() > limit:
                break
            else:
                time.sleep(0.01)
        return False

    def _note_end(self, pid: int, status: int) -> None:
        if pid == self.root:
            self._root_status = status
        elif self.state == "starting" and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self._killed = True

    def _alive(self, root: int) -> None:
        self.root = root
        if self.state == "starting":
            self.state = "running"
        self.streams.start()
        if not self._tell({"ready": True, "root": root}) and self.spec["mode"] == "restore":
            self._fail("criu", "whoever wanted the restore is gone")  # nobody is left to give the job its memory
        os.close(self._report)
        if self._root_status is not None:
            self._root_ended(self._root_status)

    def run_criu(self, argv: list[str], inherit: dict[str, int], ended: Callable[[CriuRun], None]) -> None:
        """Run CRIU in here; `ended(run)` is called when it is over. Raises spawn.ExecFailed."""
        self.criu = CriuRun(self.loop, argv, inherit, ended)
        self._childless = False

    def kill_all(self) -> None:
        """SIGKILL to every process of the job, CRIU included."""
        if self.isolated:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            for pid in _descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def shut_down(self) -> None:
        """End the job now, then this process."""
        self._closing = True
        self.kill_all()
        self._reap()

    def stop_gently(self) -> None:
        """End the job as its end of day: SIGTERM to its root, and the rest after a while."""
        if self.root is not None and self.end is None and not self.spec["adopt"]:
            os.kill(self.root, signal.SIGTERM)
            self.loop.after(_TERM_GRACE, self.shut_down)
        else:
            self.shut_down()

    def _on_signals(self) -> None:
        try:
            numbers = set(os.read(self._signals, 256))
        except BlockingIOError:
            return
        self._reap()
        if numbers & {signal.SIGTERM, signal.SIGINT}:
            self.stop_gently()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                break
            if pid == 0:
                break
            if self.criu is not None and pid == self.criu.pid:
                run, self.criu = self.criu, None
                run.finish(os.waitstatus_to_exitcode(status))
                self._checkpointed = run.dumped_and_killed
                if self._root_status is not None and self.end is None and self.state != "starting":
                    self._root_ended(self._root_status, checkpointed=run.dumped_and_killed)
                continue
            self._note_end(pid, status)
            # While CRIU runs it may be CRIU that killed the job: its exit status tells.
            if pid == self.root and self.criu is None and self.state != "starting":
                self._root_ended(status)

    def _root_ended(self, status: int, checkpointed: bool = False) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.state = "exited"
        self.end = {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "ended": time.time(),
            "checkpointed": checkpointed,
        }
        self.streams.drain()
        try:
            self._record_end()
        except OSError:
            pass  # whoever is attached learns of it all the same
        self.streams.finish(self.end)

    def _reserve_end(self) -> None:
        """Take the room that the record of the job's end needs: there may be none by then."""
        with open(f"{self.job_dir}/.exit.json", "wb") as file:  # noqa: PTH123
            file.write(b" " * _END_BYTES)

    def _record_end(self) -> None:
        with open(f"{self.job_dir}/.exit.json", "r+b") as file:  # noqa: PTH123
            file.write(json.dumps(self.end).encode())
            file.truncate()
        os.replace(f"{self.job_dir}/.exit.json", f"{self.job_dir}/exit.json")

    def _done(self) -> bool:
        if self._closing:
            if not self._childless:
                self.kill_all()
            return self._childless
        return self._childless and self.end is not None and self.streams.quiet

    def _set_last_pid(self, pid: int) -> None:
        if self.isolated:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(str(pid))

    def _tell(self, message: dict[str, Any]) -> bool:
        return tell(self._report, message)

    def _fail(self, kind: str, message: str, **more: Any) -> NoReturn:
        """Report to the starter, and end with all there is in here."""
        self.requests.close()
        self.kill_all()
        while not self._childless:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                self._childless = True
        self._tell({"error": {"kind": kind, "message": message, **more}})
        os._exit(1)


def tell(report: int, message: dict[str, Any]) -> bool:
    """One line to the starter; False when it is gone."""
    try:
        os.write(report, json.dumps(message).encode() + b"\n")
    except BrokenPipeError:
        return False
    return True


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    pending = [pid]
    while pending:
        current = pending.pop()
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123
                    children = [int(word) for word in file.read().split()]
                found += children
                pending += children
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _raise_limits() -> dict[int, tuple[int, int]]:
    """Room for the descriptors of blocks that are away, and for CRIU's files: one that is too long would be its death.

    Returns the limits as they were, which are the job's.
    """
    wanted = {resource.RLIMIT_NOFILE: limits.most_descriptors(), resource.RLIMIT_FSIZE: resource.RLIM_INFINITY}
    return {limit: limits.lift(limit, room) for limit, room in wanted.items()}


def main(spec_fd: int, report: int) -> None:
    """Become the supervisor: leave the starter behind, make the namespaces, take care of the job to its end."""
    with os.fdopen(spec_fd, "rb") as file:
        spec = json.load(file)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever starts it may hold signals back, or this thread of it
    for number in (signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    umask = os.umask(0o077)
    os.set_inheritable(report, False)
    try:
        if spec["namespaces"]:
            mounts.unshare()
        pid = mounts.fork() if spec["namespaces"] else os.fork()
        if pid:
            tell(report, {"pid": pid})
            os._exit(0)
        if spec["namespaces"]:
            mounts.furnish(spec["job_dir"])
        else:
            mounts.adopt_orphans()
        _settle(spec["job_dir"])
        supervisor = Supervisor(spec, report, umask)
    except OSError as error:
        where = "" if error.filename else f" ({spec['job_dir']})"  # a write does not say it
        tell(report, {"error": {"kind": _KINDS.get(error.errno or 0, "setup"), "message": f"{error}{where}"}})
        os._exit(1)
    supervisor.run()
    sys.exit(0)


def _settle(job_dir: str) -> None:
    """Standard descriptors from inside the new namespaces, and a name for `ps`."""
    null = os.open("/dev/null", os.O_RDWR)
    errors = os.open(f"{job_dir}/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, fd in enumerate((null, null, errors)):
        os.dup2(fd, target)
    for fd in {null, errors} - {0, 1, 2}:
        os.close(fd)
    os.chdir("/")
    with open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("torpor-job")
