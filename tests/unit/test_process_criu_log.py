"""CRIU's log lines, as it wrote them, and what they are turned into."""

from __future__ import annotations

from pathlib import Path

import pytest

from torpor.errors import NoSpace, StepFailed
from torpor.process.criu_log import explain, failure

LOG = Path("/somewhere/dump.log")
NOISE = "Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n"
FAILED = "Error (criu/cr-dump.c:1681): Dump files (pid: 300) failed with -1\n"


@pytest.mark.parametrize(
    ("line", "process", "reason"),
    [
        (
            "Error (criu/files-reg.c:1790): Can't lookup mount=24 for fd=10 path=/dev/null\n" + FAILED,
            300,
            "its descriptor 10 (/dev/null) was opened outside the job's mount namespace",
        ),
        (
            "Error (criu/cr-dump.c:1664): A session leader of 302(302) is outside of its pid namespace\n",
            None,
            "the leader of its session is not part of the job",
        ),
        (
            "Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using --tcp-established option.\n"
            + FAILED,
            300,
            "it has a TCP connection, which cannot be saved",
        ),
        (
            "Error (criu/sk-unix.c:889): unix: External socket is used. Consider using --ext-unix-sk option.\n"
            + FAILED,
            300,
            "it has a Unix socket whose other end is outside the job",
        ),
        (
            "300: Error (criu/files-reg.c:2353): Can't open file run/torpor/job/app.log on restore: No such file or "
            "directory\n   300: Error (criu/files.c:1221): Unable to open fd=7 id=0x16\n",
            300,
            "the file /run/torpor/job/app.log, which the job had open or mapped, cannot be opened: "
            "No such file or directory",
        ),
        (
            "   301: Error (criu/files-reg.c:2168): File usr/lib/x.so has bad size 10 (expect 20)\n",
            301,
            "the file /usr/lib/x.so has 10 bytes; the job knows it with 20",
        ),
        (
            "Error (criu/cr-restore.c:1244): Can't fork for 300: File exists\n",
            300,
            "the process id 300 is taken",
        ),
        (
            "pie: 300: Error (criu/pie/restorer.c:316): Unable to drop capability 8: -1\n",
            300,
            "its capabilities cannot be set: the right to is missing",
        ),
        (
            "Error (criu/cr-restore.c:1924): Unable to detach 502: No such process\n",
            None,
            "thread 502 ended as soon as the job was woken, and CRIU, which had not let go of all others, ended those",
        ),
        ("Error (criu/x.c:1): Something new happened.\n", None, "CRIU says: Something new happened"),
    ],
)
def test_a_reason_in_plain_words(line: str, process: int | None, reason: str) -> None:
    error = explain("criu dump", 1, NOISE + line, LOG)
    assert isinstance(error, StepFailed)
    assert (error.process, error.reason) == (process, reason)
    assert error.hint
    assert not any("RLIMIT_NOFILE" in said for said in error.details["log"])


def test_no_space() -> None:
    text = NOISE + "Error (criu/bfd.c:250): bfd: Can't write: No space left on device\n"
    assert isinstance(explain("criu dump", 1, text, LOG), NoSpace)


def test_nothing_was_logged(tmp_path: Path) -> None:
    error = failure("criu dump", -9, "", tmp_path / "none")
    assert isinstance(error, StepFailed)
    assert error.reason == "CRIU was ended by signal 9"
    error = failure("criu dump", 1, "unrecognized option\n", tmp_path / "none")
    assert isinstance(error, StepFailed)
    assert error.reason == "CRIU ended with status 1: unrecognized option"


def test_the_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Error (criu/x.c:1): Deep trouble\n")
    assert failure("criu dump", 1, "", tmp_path / "log").details["log"] == ["Error (criu/x.c:1): Deep trouble"]
