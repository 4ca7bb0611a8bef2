"""What the processes of a job hold open, read from /proc, and which of it leads out of the job."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torpor.process import tree
from torpor.process.tree import Process

_INODE = re.compile(r"(?:pipe|socket):\[(\d+)\]")


@dataclass(frozen=True)
class Descriptor:
    """One descriptor of one process; `target` is what /proc says it leads to."""

    owner: Process
    number: int
    target: str

    @property
    def path(self) -> str:
        """Its magic link on the host: it opens, or tells of, the very same file."""
        return f"/proc/{self.owner.pid}/fd/{self.number}"

    @property
    def inode(self) -> int | None:
        """Of a pipe or a socket."""
        found = _INODE.fullmatch(self.target)
        return int(found[1]) if found else None

    @cached_property
    def facts(self) -> dict[str, str]:
        """The first lines of its fdinfo; empty when it has just been closed."""
        try:
            lines = Path(f"/proc/{self.owner.pid}/fdinfo/{self.number}").read_text().splitlines()
        except OSError:
            return {}
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def access(self) -> int:
        """O_RDONLY, O_WRONLY or O_RDWR."""
        return int(self.facts.get("flags", "0"), 8) & os.O_ACCMODE

    @property
    def hung_up(self) -> bool:
        """Of a pipe: whether nobody at all has its other end any more."""
        reads = self.access == os.O_RDONLY
        try:
            fd = os.open(self.path, (os.O_RDONLY if reads else os.O_WRONLY) | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            poll = select.poll()
            poll.register(fd, 0)
            return bool(poll.poll(0))  # a hang-up is always told
        finally:
            os.close(fd)


def descriptors(processes: Iterable[Process]) -> Iterator[Descriptor]:
    """All descriptors of the processes; what is closed during the look is left out."""
    for process in processes:
        folder = f"/proc/{process.pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                yield Descriptor(process, int(name), str(Path(folder, name).readlink()))
            except OSError:
                continue


def half_pipes(held: Iterable[Descriptor]) -> list[Descriptor]:
    """Descriptors of unnamed pipes whose other end none of the processes has."""
    readers: dict[int, list[Descriptor]] = {}
    writers: dict[int, list[Descriptor]] = {}
    for one in held:
        if one.target.startswith("pipe:") and one.inode is not None:
            if one.access != os.O_WRONLY:
                readers.setdefault(one.inode, []).append(one)
            if one.access != os.O_RDONLY:
                writers.setdefault(one.inode, []).append(one)
    found = [one for inode, ends in readers.items() if inode not in writers for one in ends]
    return found + [one for inode, ends in writers.items() if inode not in readers for one in ends]


def holder_of(target: str, but: Collection[int] = ()) -> str | None:
    """A process of the host, none of `but`, that has a descriptor which leads to `target`."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in but:
            continue
        try:
            for number in os.listdir(f"/proc/{entry}/fd"):
                if str(Path(f"/proc/{entry}/fd/{number}").readlink()) == target:
                    return f"process {entry} ({tree.name(int(entry))})"
        except OSError:
            continue
    return None


def streams(processes: Iterable[Process]) -> dict[str, str | None]:
    """CRIU's keys of the standard streams of the first process that lead out of the job: a pipe or a terminal.

    None for one that CRIU brings back by itself, such as a file.
    """
    listed = list(processes)
    outside = {one.inode for one in half_pipes(descriptors(listed)) if not one.hung_up}
    keys: dict[str, str | None] = {}
    for one in descriptors(listed[:1]):
        if one.number > 2:
            continue
        key = None
        if one.target.startswith("pipe:") and one.inode in outside:
            key = one.target
        elif one.target.startswith("/dev/pts/"):
            status = Path(one.path).stat()
            key = f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
        keys[("stdin", "stdout", "stderr")[one.number]] = key
    return {name: keys.get(name) for name in ("stdin", "stdout", "stderr")}
