"""Start the job's program, or CRIU, as children of the supervisor."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"  # for CRIU's scripts


class ExecFailed(Exception):
    """`exit_code` is what a shell gives: 127 when the program is not there, 126 when it cannot be run."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def program(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdio: Sequence[int],
    limits: Mapping[int, tuple[int, int]],
    umask: int,
    terminal: bool = False,
) -> int:
    """Start the job's root in a session of its own and return its pid. Raises ExecFailed, OSError.

    `stdio` are the three descriptors it gets, `limits` those that the supervisor raised for itself. With
    `terminal` one of the three is a terminal, which becomes the session's.
    """

    def prepare() -> None:
        for limit, values in limits.items():
            resource.setrlimit(limit, values)
        os.umask(umask)
        if terminal:
            fcntl.ioctl(next(fd for fd in range(3) if os.isatty(fd)), termios.TIOCSCTTY, 0)
        try:
            os.chdir(cwd)
        except OSError as error:
            raise ExecFailed(126, f"{cwd}: cannot start there: {os.strerror(error.errno or 0)}") from None

    return _start(argv, env, stdio, (), prepare)


def criu(argv: Sequence[str], keep: Sequence[int]) -> tuple[int, int]:
    """Start CRIU with the descriptors `keep` under their numbers; returns its pid and where to read its output."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = _start(argv, {"PATH": _PATH}, (null, writer, writer), keep, lambda: None)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(null)
        os.close(writer)
    os.set_blocking(reader, False)
    return pid, reader


def _start(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdio: Sequence[int],
    keep: Sequence[int],
    prepare: Callable[[], None],
) -> int:
    failure, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _child(argv, env, stdio, keep, prepare, tell)
    os.close(tell)
    with os.fdopen(failure, "rb") as file:
        told = file.read()
    if told:
        os.waitpid(pid, 0)
        code, _, message = told.decode(errors="replace").partition(" ")
        raise ExecFailed(int(code), message)
    return pid


def _child(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdio: Sequence[int],
    keep: Sequence[int],
    prepare: Callable[[], None],
    tell: int,
) -> None:
    try:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target, inheritable=True)
        for fd in keep:
            os.set_inheritable(fd, True)
        prepare()
        os.execvpe(argv[0], list(argv), dict(env))
    except ExecFailed as error:
        os.write(tell, f"{error.exit_code} {error.message}".encode())
    except (FileNotFoundError, NotADirectoryError):
        os.write(tell, f"127 {argv[0]}: command not found".encode())
    except BaseException as error:  # noqa: BLE001  nothing may return into the supervisor's code
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        os.write(tell, f"126 {argv[0]}: {reason}".encode())
    finally:
        os._exit(126)
