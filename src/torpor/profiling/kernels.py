"""Kernels, copies and fills one by one: what a job's processes tell of them, as CUPTI timed them inside."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from torpor.profiling import calls
from torpor.profiling.plain_file import read_plain
from torpor.profiling.recording import MOST_POINTS, Recording

SUFFIX = ".kernels.json"
SOURCE = "CUPTI, time in which a kernel, copy or fill ran"

_LONGEST = 16 << 20
"""Bytes of a file that are read at most: several times what native/cupti/ writes."""

_MISSING_SHARE = 0.02
"""Launches of which CUPTI need not have told before a note says so."""


class Device(msgspec.Struct):
    ordinal: int
    busy_ns: int


class Row(msgspec.Struct):
    name: str
    kind: str
    calls: int
    ns: int
    longest_ns: int
    bytes: int


class Told(msgspec.Struct):
    """A process's file, `$TORPOR_JOB_DIR/profile/<pid>-<clock>.kernels.json`: figures since its cuInit.

    `clock_ns` is when CUPTI was asked for them, on the system's monotonic clock; `untimed` are records without times,
    `dropped` those without room.
    """

    pid: int
    clock_ns: int
    ended: bool
    library: str
    failures: list[str]
    dropped: int
    untimed: int
    devices: list[Device]
    work: list[Row]

    @property
    def usable(self) -> bool:
        # Nothing was told of one that was gone before CUPTI had given any record, which is not the same as no work.
        return bool(self.library) and (bool(self.work) or (self.ended and not self.failures))

    @property
    def busy(self) -> float:
        """Seconds, all devices together."""
        return sum(device.busy_ns for device in self.devices) / 1e9


@dataclass
class Work:
    """One kernel, one direction of copies, or all fills, over all processes and devices; seconds."""

    name: str
    kind: str
    calls: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    bytes: int = 0


class KernelTimes:
    """Looks at the files of a job's processes, which each replaces about once a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}
        self._told: dict[Path, Told] = {}
        self._courses: dict[Path, list[tuple[float, float]]] = {}
        self._notes: list[str] = []

    def look(self) -> None:
        """Read what is new. A file that cannot be read is noted."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else []:
            try:
                status = path.lstat()
                mark = (status.st_ino, status.st_mtime_ns)
                if self._seen.get(path) == mark:
                    continue
                told = msgspec.json.decode(read_plain(path, _LONGEST), type=Told)
            except (OSError, msgspec.DecodeError) as error:
                note = f"{path.name} cannot be read: {error}"
                self._notes += [note] if note not in self._notes else []
                continue
            self._seen[path] = mark
            self._told[path] = told
            course = self._courses.setdefault(path, [])
            course.append((told.clock_ns / 1e9, told.busy))
            if len(course) > MOST_POINTS:  # as the recording's own course, which is what these are for
                del course[1:-1:2]

    def settle(self, recording: Recording, begun: float, *, over: bool) -> None:
        """Put the figures in the place of others in `recording`, which began at `begun` on the monotonic clock.

        Where no process has any, those others stay, and a note says so. `over`: all processes have ended.
        """
        self.look()
        recording.notes += self._notes
        for told in self._told.values():
            recording.notes += _notes(told, begun, over=over)
        known = {told.pid for told in self._told.values()}
        recording.notes += [
            f"process {process.pid}: its kernels were not timed, it did not load the library or could write no file"
            for process in recording.processes
            if process.pid not in known
        ]
        usable = [told for told in self._told.values() if told.usable]
        if not usable:
            if recording.processes:
                recording.notes.append(f"no kernels were timed, GPU time is {recording.source or 'not known'}")
            return
        recording.source = SOURCE
        recording.busy = _by_device(recording, usable)
        recording.work = _merged(usable)
        recording.points = [
            replace(point, busy=sum(at(course, begun + point.seconds) for course in self._courses.values()))
            for point in recording.points
        ]
        recording.notes += _missing(recording, explained=any(_is_cut_short(told) for told in self._told.values()))

    def remove(self) -> None:
        """Remove the files, which are read."""
        for path in self._told:
            path.unlink(missing_ok=True)


def at(course: list[tuple[float, float]], moment: float) -> float:
    """A sum that grows, at a moment between two at which it is known (ascending): nothing before, the last after."""
    after = bisect_right(course, moment, key=lambda point: point[0])
    if after == 0:
        return 0.0
    if after == len(course):
        return course[-1][1]
    (one, low), (other, high) = course[after - 1], course[after]
    return low + (high - low) * (moment - one) / (other - one)


def _by_device(recording: Recording, usable: list[Told]) -> dict[str, float]:
    """Seconds by UUID. Processes that share a device are added up."""
    own = {process.pid: process.devices for process in recording.processes if process.devices}
    # Each may have a CUDA_VISIBLE_DEVICES of its own. One that was never seen has what others have, if they agree.
    common = max(own.values(), key=len, default=[])
    if any(devices != common[: len(devices)] for devices in own.values()):
        common = []
    found: dict[str, float] = {}
    for told in usable:
        names = own.get(told.pid, common)
        for device in told.devices:
            name = names[device.ordinal] if device.ordinal < len(names) else f"device {device.ordinal}"
            found[name] = found.get(name, 0.0) + device.busy_ns / 1e9
    return found


def _merged(usable: list[Told]) -> list[Work]:
    found: dict[tuple[str, str], Work] = {}
    for row in (row for told in usable for row in told.work):
        work = found.setdefault((row.kind, row.name), Work(row.name, row.kind))
        work.calls += row.calls
        work.seconds += row.ns / 1e9
        work.longest = max(work.longest, row.longest_ns / 1e9)
        work.bytes += row.bytes
    return sorted(found.values(), key=lambda work: (-work.seconds, work.name))


def _notes(told: Told, begun: float, *, over: bool) -> list[str]:
    notes = [f"process {told.pid}, timing its kernels: {failure}" for failure in told.failures]
    if told.dropped:
        notes.append(f"process {told.pid}: CUPTI dropped {told.dropped} records, whose work is missing in GPU time")
    if told.untimed:
        notes.append(f"process {told.pid}: {told.untimed} kernels or copies ended without a time, as at a sudden end")
    if over and told.library and not told.ended:
        # Which is a second before its end, or long before where it could not write its file any more.
        last = max(0.0, told.clock_ns / 1e9 - begun)
        notes.append(
            f"process {told.pid} ended without its last figures: what ran later than {last:.1f} s after the profile's "
            "start may be missing"
        )
    return notes


def _is_cut_short(told: Told) -> bool:
    """Whether it is known of some of a process's work that nothing was told of it."""
    return bool(not told.ended or told.dropped or told.untimed or told.failures)


def _missing(recording: Recording, *, explained: bool) -> list[str]:
    """Whether CUPTI told of as many kernels as were launched. Nobody can say where graphs launch some.

    `explained`: other notes say why some are missing."""
    counted = recording.total("calls")
    if any(calls.is_graph_launch(name) and count for name, count in counted.items()):
        return []
    launched = sum(count for name, count in counted.items() if calls.is_kernel_launch(name))
    timed = sum(work.calls for work in recording.work or () if work.kind == "kernel")
    if timed >= launched * (1 - _MISSING_SHARE):
        return []
    why = "the others had not run when their process ended, or a program that uses CUPTI itself took it from us"
    return [f"{launched} kernels were launched and {timed} timed" + ("" if explained else f": {why}")]
