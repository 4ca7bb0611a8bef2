"""Every error that Torpor raises, each with an exit code and a word for `--json`.

    TorporError                1   internal: something that should not happen
    ├── UsageError             2   usage: the command line or an argument makes no sense
    ├── NotFound               3   not-found: no such job, image or program
    ├── WrongState             4   wrong-state: the job exists, but not in a state that allows this
    ├── Refused                5   refused: something in the job cannot be saved; the message names it
    ├── NoSpace                6   no-space: the image does not fit; details give `needed` and `free` bytes
    ├── ImageDamaged           7   image-damaged: a file of the image is missing, short or altered
    ├── NoRights               8   no-rights: a privilege is missing; the message names it
    ├── MissingPart            9   missing-part: a part of the host that Torpor needs is absent
    │   ├── CriuMissing        9   criu-missing
    │   └── DriverMissing      9   driver-missing
    ├── FreezeTimeout         10   freeze-timeout: the job did not come to rest in time; it runs on
    ├── StepFailed            11   step-failed: a step failed and was rolled back; the job runs on
    ├── KeeperUnavailable     12   keeper-unavailable: the daemon cannot be started or reached
    ├── ImageMismatch         13   image-mismatch: the image does not suit this host's GPU or driver
    └── Cancelled             14   cancelled: the user broke the verb off; it was rolled back

Beside these, `torpor run` and `torpor wait` exit as the job did, and with the codes named below the tree.

An error crosses the keeper's socket as `to_dict()` and is raised again on the other side by `from_dict()`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, ClassVar

AWAY = 75
"""`run`, `attach`, `restore --attach`, `wait`: the job left for an image (EX_TEMPFAIL: it can go on later)."""
COMMAND_NOT_EXECUTABLE = 126
"""`run`: the program is there but cannot be executed, as a shell says it."""
COMMAND_NOT_FOUND = 127
"""`run`: there is no such program, as a shell says it."""


class TorporError(Exception):
    """`message` says what happened, `hint` what to do about it, `details` holds JSON-safe facts."""

    code: ClassVar[int] = 1
    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})

    def to_dict(self) -> dict[str, Any]:
        """`{"kind", "code", "message", "hint", "details"}`, all JSON-safe."""
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> TorporError:
        """The error that `to_dict` described; an unknown kind becomes a plain TorporError."""
        cls = _by_kind().get(str(data.get("kind")), TorporError)
        error = cls.__new__(cls)
        TorporError.__init__(
            error,
            str(data.get("message", "unknown error")),
            hint=data.get("hint"),
            details=data.get("details"),
        )
        return error


class UsageError(TorporError):
    code, kind = 2, "usage"


class NotFound(TorporError):
    code, kind = 3, "not-found"


class WrongState(TorporError):
    code, kind = 4, "wrong-state"


class Refused(TorporError):
    code, kind = 5, "refused"


class NoSpace(TorporError):
    code, kind = 6, "no-space"


NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""How the operating system says that there is no room: on the file system, or in the user's share of it."""


class ImageDamaged(TorporError):
    code, kind = 7, "image-damaged"


class NoRights(TorporError):
    code, kind = 8, "no-rights"


class MissingPart(TorporError):
    code, kind = 9, "missing-part"


class CriuMissing(MissingPart):
    kind = "criu-missing"


class DriverMissing(MissingPart):
    kind = "driver-missing"


class FreezeTimeout(TorporError):
    code, kind = 10, "freeze-timeout"


class StepFailed(TorporError):
    """A step of a flow failed; `step`, `process` (pid as the job sees it, or None) and `reason` say which and why."""

    code, kind = 11, "step-failed"

    def __init__(
        self,
        message: str | None = None,
        *,
        step: str,
        reason: str,
        process: int | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        where = f" (process {process})" if process is not None else ""
        super().__init__(
            message or f"{step} failed{where}: {reason}",
            hint=hint,
            details={**(details or {}), "step": step, "process": process, "reason": reason},
        )

    @property
    def step(self) -> str:
        return str(self.details.get("step", ""))

    @property
    def process(self) -> int | None:
        value = self.details.get("process")
        return None if value is None else int(value)

    @property
    def reason(self) -> str:
        return str(self.details.get("reason", ""))


class KeeperUnavailable(TorporError):
    code, kind = 12, "keeper-unavailable"


class ImageMismatch(TorporError):
    code, kind = 13, "image-mismatch"


class Cancelled(TorporError):
    code, kind = 14, "cancelled"


def every_error() -> list[type[TorporError]]:
    """All classes of the tree, the root first, in the order in which they are drawn above."""
    found: list[type[TorporError]] = []
    pending: list[type[TorporError]] = [TorporError]
    while pending:
        cls = pending.pop(0)
        found.append(cls)
        pending = [*cls.__subclasses__(), *pending]
    return found


def _by_kind() -> dict[str, type[TorporError]]:
    found: dict[str, type[TorporError]] = {}
    for cls in every_error():
        # A special case defined elsewhere has its parent's kind, and crosses as its parent.
        found.setdefault(cls.kind, cls)
    return found
