"""Keys of encrypted stores: 32 random bytes in a file, raw or as 64 hex digits, or what a command prints."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

from torpor.errors import NoRights, NotFound, StepFailed, UsageError
from torpor.store.cipher import KEY

FILE = "TORPOR_KEY_FILE"
"""Names files with keys, with a colon between them; the one that fits a store is used."""

COMMAND = "TORPOR_KEY_COMMAND"
"""A shell command that prints a key; it finds the store's place in TORPOR_KEY_STORE."""


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
    """The key that a shell command prints. It has our standard input and error output, so it can ask for something."""
    done = subprocess.run(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, env={**os.environ, "TORPOR_KEY_STORE": url}, check=False
    )
    if done.returncode:
        raise StepFailed(step="key command", reason=f"{command!r} ended with {done.returncode}", hint=f"see {COMMAND}")
    return _parsed(done.stdout, f"what {command!r} printed")


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
