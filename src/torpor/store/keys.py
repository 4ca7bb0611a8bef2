"""Keys of encrypted stores: 32 random bytes in a file, raw or as 64 hex digits, or what a command prints."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from torpor.errors import NoRights, NotFound, StepFailed, UsageError
from torpor.process import tree
from torpor.process.loop import is_readable
from torpor.store.cipher import KEY

FILE = "TORPOR_KEY_FILE"
"""Names files with keys, with a colon between them; the one that fits a store is used."""

COMMAND = "TORPOR_KEY_COMMAND"
"""A shell command that prints a key; it finds the store's place in TORPOR_KEY_STORE."""

COMMAND_SECONDS = 120.0
"""How long such a command may take: its user may have to answer it."""

_LOOK_SECONDS = 0.02
_END_SECONDS = 1.0
_MOST_PRINTED = 4096
_WHAT = "what the command for the key printed"


def from_environment(url: str, env: Mapping[str, str] = os.environ) -> list[bytes]:
    """The keys that the environment names for the store at `url`. Raises NotFound, NoRights, UsageError, StepFailed."""
    files = [one for one in env.get(FILE, "").split(":") if one]
    found = [from_file(Path(one)) for one in files]
    if command := env.get(COMMAND):
        found.append(from_command(command, url))
    return found


def from_file(path: Path) -> bytes:
    """The key in a file."""
    try:
        return _parsed(path.read_bytes(), str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no key file {path}", hint=f"name the key's file in {FILE}") from None
    except OSError as error:
        raise NoRights(f"the key file {path} cannot be read: {error.strerror}") from error


def from_command(command: str, url: str) -> bytes:
    """The key that a shell command prints. It has our standard input and error output, so it can ask for something.

    StepFailed when it fails or takes longer than COMMAND_SECONDS; it is ended then, with all that it has started.
    """
    # No error tells the command: it may have the key in itself, and errors are written into logs.
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, env={**os.environ, "TORPOR_KEY_STORE": url}
    )
    assert process.stdout is not None
    with process.stdout as output:
        try:
            printed = _printed(output.fileno(), process)
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        how = f"ended with {process.returncode}" if process.returncode > 0 else f"died of signal {-process.returncode}"
        raise StepFailed(step="key command", reason=f"the command for the key {how}", hint=f"see {COMMAND}")
    return _parsed(printed, _WHAT)


def _printed(output: int, process: subprocess.Popen[bytes]) -> bytes:
    """All that a command prints, which has ended then; what it left in the background may go on."""
    end = time.monotonic() + COMMAND_SECONDS
    printed = bytearray()
    closed = False
    while time.monotonic() < end:
        ended = process.poll() is not None
        if closed and not ended:
            time.sleep(_LOOK_SECONDS)
        elif not closed and is_readable(output, 0.0 if ended else _LOOK_SECONDS):
            part = os.read(output, _MOST_PRINTED)
            closed = not part
            printed += part
            if len(printed) > _MOST_PRINTED:
                return _parsed(bytes(printed), _WHAT)  # which raises
        elif ended:
            return bytes(printed)
    raise StepFailed(
        step="key command",
        reason=f"the command for the key took longer than {COMMAND_SECONDS:g} s",
        hint=f"see {COMMAND}; where it asks for something, answer sooner, or name a file in {FILE}",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started, as far as they are ours to end."""
    for pid in tree.family(process.pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def make_file(path: Path) -> bytes:
    """Write a new random key into a file for this user only, which must not be there; durable when this returns."""
    key = secrets.token_bytes(KEY)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NoRights(f"no key file can be made at {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key.hex()}\n")
        file.flush()
        os.fsync(descriptor)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return key


def for_new_store(url: str, file: Path | None = None, command: str | None = None) -> bytes:
    """The key in that file, which is made where it is not there, or of that command; else that of the environment.

    Raises UsageError when none or several are named, and what reading it raises.
    """
    if file is not None and command is not None:
        raise UsageError("a store has one key; name a file or a command")
    if file is not None:
        return from_file(file) if file.exists() else make_file(file)
    found = [from_command(command, url)] if command is not None else from_environment(url)
    if len(found) != 1:
        raise UsageError(
            "the environment names several keys" if found else "an encrypted store needs a key",
            hint="name its file with --key-file, which is made if it is not there",
        )
    return found[0]


def _parsed(data: bytes, where: str) -> bytes:
    if len(data) == KEY:
        return data
    try:
        key = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY:
        raise UsageError(f"{where} is no key", hint="32 random bytes, or 64 hex digits: `openssl rand -hex 32`")
    return key
