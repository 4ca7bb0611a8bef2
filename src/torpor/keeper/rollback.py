"""Steps that fail, and what is undone then."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from torpor.errors import NO_SPACE, NoRights, NoSpace, StepFailed, TorporError

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


FROZEN = "the job may be frozen: try `torpor resume`, else `torpor kill`"


class Rollback:
    """A stack of undo steps. Leaving its block by an error runs them, the last first; `done` forgets them.

    An undo step that fails does not stop the others; its reason is added to the error, since the job may then need
    attention. Threads may push at the same time.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object], str]] = []
        self._lock = threading.Lock()

    def push(self, what: str, undo: Callable[[], object], leaves: str = FROZEN) -> None:
        """`leaves` says, as a hint to the user, what is the matter when this step cannot be undone."""
        with self._lock:
            self._steps.append((what, undo, leaves))

    def done(self) -> None:
        """The point of no return: nothing will be undone."""
        with self._lock:
            self._steps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        failed: list[str] = []
        hints: list[str] = []
        while self._steps:
            what, undo, leaves = self._steps.pop()
            try:
                undo()
            except Exception as problem:  # the rest must be undone all the same
                log.exception("rollback: %s", what)
                failed.append(f"{what}: {problem}")
                hints.append(leaves)
        if failed and isinstance(error, TorporError):
            error.message += f"; and rolling back failed ({'; '.join(failed)})"
            error.args = (error.message,)
            error.hint = FROZEN if FROZEN in hints else hints[0]
            error.details["rollback_failed"] = failed


@contextmanager
def step(name: str, process: int | None = None) -> Iterator[None]:
    """Errors of the block become ours: those with a kind of their own keep it, the rest are StepFailed of `name`."""
    with named(name, process):
        try:
            yield
        except StepFailed:
            raise
        except TorporError as error:
            # What the driver returned says nothing of the step yet; errors of our own kinds speak for themselves.
            if isinstance(error, NoSpace) or ("result" not in error.details and type(error) is not TorporError):
                raise
            raise StepFailed(
                step=name, process=process, reason=error.message, hint=error.hint, details=error.details
            ) from error


@contextmanager
def named(name: str, process: int | None = None) -> Iterator[None]:
    """As `step`, but errors of Torpor's own stay what they are and only learn where they happened."""
    try:
        yield
    except TorporError as error:
        error.details.setdefault("step", name)
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise NoSpace(
                f"{name} failed: no space left on the file system ({error.filename or 'of the image'})",
                hint="free space there, or choose another place with --to",
                details={"step": name, "needed": None, "free": None},
            ) from error
        if error.errno == errno.EFBIG:
            raise NoSpace(
                f"{name} failed: {error.filename or 'a file'} would become larger than this process may make files",
                hint="raise the limit (`ulimit -f`, RLIMIT_FSIZE) of the keeper and start it again",
                details={"step": name, "needed": None, "free": None},
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise NoRights(f"{name} failed: {error}", details={"step": name}) from error
        raise StepFailed(step=name, process=process, reason=str(error)) from error
    except Exception as error:
        log.exception("step %s", name)
        raise StepFailed(step=name, process=process, reason=f"{type(error).__name__}: {error}") from error


def each(items: Sequence[T], action: Callable[[T], R]) -> list[R]:
    """`action` for all items at the same time; returns, or raises the first failure, when all have ended."""
    if len(items) <= 1:
        return [action(item) for item in items]
    with ThreadPoolExecutor(max_workers=len(items)) as workers:
        futures = [workers.submit(action, item) for item in items]
    return [future.result() for future in futures]
