"""What CRIU's log says, in plain words: which file, socket or mapping, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torpor.errors import NoSpace, StepFailed, TorporError

_LINE = re.compile(r"^(?:\([\d.]+\))?\s*(?:pie:\s+)?(?:(?P<pid>\d+):\s+)?Error \((?P<where>[^)]*)\):\s*(?P<text>.*)$")
_PROCESS = re.compile(
    r"Dump \w+ \(pid: (\d+)\) failed|Can't fork for (\d+)|Unseizable \S+ (\d+)|^(\d+)\((?:native|compat)\)"
)

# What CRIU calls an error and goes on after.
_HARMLESS = re.compile(r"rlimit: Can't setup RLIMIT_NOFILE|Can't keep kdat cache")


@dataclass(frozen=True)
class _Known:
    pattern: re.Pattern[str]
    reason: str
    hint: str


def _known(pattern: str, reason: str, hint: str) -> _Known:
    return _Known(re.compile(pattern), reason, hint)


_KNOWN = [
    _known(
        r"Connected TCP socket",
        "it has a TCP connection, which cannot be saved",
        "close network connections before the checkpoint",
    ),
    _known(
        r"sockets: Can't get 1:\d+(?:\(\d+\))? opt: Operation not supported",
        "it has a network socket, which a CRIU before 4.2 cannot save on Linux from 6.16 on",
        "run scripts/criu for a newer one, or close network sockets before the checkpoint",
    ),
    _known(
        r"External socket is used|Unix socket (?P<a>\S+) without peer",
        "it has a Unix socket whose other end is outside the job",
        "close it before the checkpoint, e.g. connections to D-Bus, nscd or a display",
    ),
    _known(
        r"Can't lookup mount=\S+ for fd=(?P<a>\S+) path=(?P<b>\S+)",
        "its descriptor {a} ({b}) was opened outside the job's mount namespace",
        "let the job open the file itself",
    ),
    _known(
        r"Can't dump ghost file (?P<a>\S+) of (?P<b>\d+) size",
        "it has the deleted file {a} of {b} bytes open, more than an image takes",
        "close the file, or do not delete it while it is open",
    ),
    _known(
        r"Can't create link remap for (?P<a>\S+?)\.? ",
        "its open file {a} was deleted under that name and lives on under another",
        "close the file before the checkpoint",
    ),
    _known(
        r"session leader of (?P<a>\d+)",
        "the leader of its session is not part of the job",
        "start the whole program with `torpor run`",
    ),
    _known(
        r"(?:Found dangling tty|slave peer index|tty: |has inherited tty)",
        "it has a terminal open whose other end is outside the job",
        "do not give the job a terminal",
    ),
    _known(
        r"Can't dump file (?P<a>\d+) of that type \[\S+\] \((?P<b>[^)]*)\)",
        "its descriptor {a} is of a kind that CRIU cannot save ({b})",
        "close it before the checkpoint; io_uring can usually be turned off in the library that uses it",
    ),
    _known(
        r"io_uring|send_fds failed \(-22\)",
        "it uses io_uring, which CRIU cannot save",
        "turn io_uring off in the library that uses it",
    ),
    _known(
        r"handle_device_vma|Can't handle non-regular mapping on (?P<a>\d+)'s map",
        "it maps a device, which CRIU cannot save",
        "a GPU's mappings must be gone by now: did every process of the job go through the interposer?",
    ),
    _known(
        r"SysVIPC shmem map",
        "it uses System V shared memory",
        "use POSIX shared memory, or files in /dev/shm",
    ),
    _known(
        r"[Cc]an't (?:ptrace|seize)|Unable to interrupt task|is being traced|SEIZE|Unseizable",
        "it cannot be stopped: another program traces it, or the right to is missing",
        "detach the debugger; CRIU needs CAP_SYS_PTRACE",
    ),
    _known(
        r"inotify|fanotify|fsnotify",
        "it watches files, and their names cannot be found",
        "end the watch before the checkpoint",
    ),
    _known(
        r"Can't fork for (?P<a>\d+): File exists|Can't set_tid|pid (?P<b>\d+) is already",
        "the process id {a} is taken",
        "restore into namespaces of its own, or wait for the process with that id to end",
    ),
    _known(
        r"File (?P<a>.+) has bad size (?P<b>\d+) \(expect (?P<c>\d+)\)",
        "the file {a} has {b} bytes; the job knows it with {c}",
        "bring back the file as it was at the checkpoint",
    ),
    _known(
        r"File (?P<a>.+) has bad build-?ID",
        "the program or library {a} is another build than at the checkpoint",
        "bring back the version that the job has mapped",
    ),
    _known(
        r"File (?P<a>.+) has bad (?:mode|permissions)",
        "the file {a} has other permissions than at the checkpoint",
        "bring back its permissions",
    ),
    _known(
        r"Can't open file (?P<a>\S+)(?: on restore)?: (?P<b>.*)",
        "the file {a}, which the job had open or mapped, cannot be opened: {b}",
        "bring the file back to its place",
    ),
    _known(
        r"Can't open (?P<a>/\S+): (?P<b>.*)",
        "{a} cannot be opened: {b}",
        "bring it back to its place",
    ),
    _known(
        r"(?:Unable to open|Can't open|failed to open|Failed to open) (?P<a>\S+\.img)",
        "the image's file {a} is missing or cannot be read",
        "the image is damaged; restore another",
    ),
    _known(
        r"Read \d+ bytes while \d+ expected from \S*?(?P<a>[^/]+\.img)",
        "the image's file {a} is short",
        "the image is damaged; restore another",
    ),
    _known(
        r"Unexpected EOF|Magic doesn't match|Image corrupted|Can't read image|unexpected EOF",
        "a file of the image is missing, short or altered",
        "the image is damaged; restore another",
    ),
    _known(
        r"Unable to detach (?P<a>\d+): No such process",
        "thread {a} ended as soon as the job was woken, and CRIU, which had not let go of all others, ended those",
        "the image is as it was: restore it again",
    ),
    _known(
        r"Unable to (?:drop capability|restore capabilities)",
        "its capabilities cannot be set: the right to is missing",
        "run with CAP_SETPCAP, as root has",
    ),
    _known(
        r"Can't bind (?:\w+ )?socket",
        "a socket of the job cannot be bound again: its name or port is taken",
        "end the program that uses it",
    ),
]


def failure(step: str, status: int, output: str, log: Path) -> TorporError:
    """The error for a CRIU that ended with `status`: NoSpace, or StepFailed with process, reason, hint and log lines.

    `output` is what it printed, `log` the file it logged to, which need not exist.
    """
    try:
        text = log.read_text(errors="replace")
    except OSError:
        text = ""
    return explain(step, status, f"{text}\n{output}", log)


def explain(step: str, status: int, text: str, log: Path) -> TorporError:
    """As `failure`, from the log's text."""
    lines = text.splitlines()
    errors = [found for line in lines if (found := _LINE.match(line)) and not _HARMLESS.search(line)]
    details = {"log": [found[0].strip() for found in errors[-12:]], "criu_status": status}
    if any("No space left on device" in found["text"] for found in errors):
        return NoSpace(
            f"{step} failed: no space left for the process images",
            hint="free some space, or choose another place",
            details=details,
        )
    process = _process(errors)
    for found in errors:
        for known in _KNOWN:
            match = known.pattern.search(found["text"])
            if match:
                values = {name: _shown(value) for name, value in match.groupdict().items()}
                return StepFailed(
                    step=step,
                    reason=known.reason.format(**values),
                    process=process,
                    hint=known.hint,
                    details=details,
                )
    if errors:
        reason = f"CRIU says: {errors[0]['text'].rstrip('. ')}"
    elif status < 0:
        reason = f"CRIU was ended by signal {-status}"
    else:
        spoken = [line.strip() for line in lines if line.strip() and not _HARMLESS.search(line)]
        reason = f"CRIU ended with status {status}" + (f": {spoken[-1]}" if spoken else "")
    return StepFailed(step=step, reason=reason, process=process, hint=f"see {log}", details=details)


def _shown(value: str | None) -> str:
    if value is None:
        return "?"
    # CRIU opens files relative to the root, and logs them so.
    relative = "/" in value and not value.startswith(("/", "."))
    return f"/{value}" if relative else value


def _process(errors: list[re.Match[str]]) -> int | None:
    for found in errors:
        if found["pid"]:
            return int(found["pid"])
        match = _PROCESS.search(found["text"])
        if match:
            return int(next(group for group in match.groups() if group))
    return None
