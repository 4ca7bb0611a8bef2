"""What was seen of a job while its calls were counted: for each process the first and the last look, and the course."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from torpor.keeper.control import Counted
from torpor.profiling import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.profiling.kernels import Work

MOST_POINTS = 2000


@dataclass
class Process:
    """One process. `base` is what it had counted before; `ended` says that `last` is its last word."""

    pid: int
    base: Counted | None
    last: Counted
    ended: bool = False
    whole: bool = True
    """Whether nothing was counted after `last`."""
    devices: list[str] = field(default_factory=list)
    """UUIDs by ordinal, once it has told them."""

    def busy(self) -> list[float]:
        """Seconds for which each device was at work for it since the beginning, as its driver says."""
        before = self.base.busy_ns if self.base is not None else []
        return [
            (spent - (before[number] if number < len(before) else 0)) / 1e9
            for number, spent in enumerate(self.last.busy_ns)
        ]

    def since_base(self, name: str) -> Counter[str]:
        """A field of numbers, less what it was at the beginning."""
        found = Counter[str](getattr(self.last, name))
        if self.base is not None:
            found.subtract(getattr(self.base, name))
        return found


@dataclass(frozen=True)
class Point:
    """All processes together, `seconds` after the beginning; sums since then, but for `queued`, a number of now."""

    seconds: float
    calls: int
    launches: int
    bytes: int
    queued: int
    busy: float
    families: dict[str, int]


@dataclass
class Recording:
    """`busy`: seconds for which each device was at work, by UUID; `source` says by whose word, "" for nobody's."""

    job: str
    level: str
    seconds: float = 0.0
    processes: list[Process] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)
    source: str = ""
    work: list[Work] | None = None
    """Where kernels were timed: what ran, by the seconds it took."""
    notes: list[str] = field(default_factory=list)
    grain: float = 0.0
    """Seconds between two points of the course, at least."""

    def total(self, name: str) -> Counter[str]:
        """A field of numbers, over all processes."""
        found = Counter[str]()
        for process in self.processes:
            found.update(process.since_base(name))
        return found

    def see(self, counted: Iterable[Counted], first: bool) -> None:
        """A look at the processes that answer. What one had counted before the first look of all is none of ours."""
        alive = {process.pid: process for process in self.processes if not process.ended}
        for one in counted:
            known = alive.get(one.pid)
            if known is None:
                known = Process(one.pid, one if first else None, one)
                self.processes.append(known)
            known.last = one
            known.devices = [device.uuid for device in one.devices] or known.devices

    def hear(self, word: Counted) -> None:
        """A process's last word."""
        for process in self.processes:
            if process.pid == word.pid and not process.ended and process.last.clock_ns <= word.clock_ns:
                process.last, process.ended = word, True
                return
        self.processes.append(Process(word.pid, None, word, ended=True))

    def ask_the_driver(self) -> bool:
        """Take the devices' busy times from the processes' drivers; False where none tells any."""
        if not any(process.last.busy_ns for process in self.processes):
            return False
        self.source = "the software GPU's own clock"
        self.busy = {}
        # A last word does not name the devices, but all of a job's processes have the same.
        names = max((process.devices for process in self.processes), key=len)
        for process in self.processes:
            for number, seconds in enumerate(process.busy()):
                name = names[number] if number < len(names) else f"device {number}"
                self.busy[name] = self.busy.get(name, 0.0) + seconds
        return True

    def mark(self, seconds: float, *, last: bool = False) -> None:
        """Add a point to the course; of a long one only as many as a picture can show, and the last."""
        if not last and self.points and seconds - self.points[-1].seconds < self.grain:
            return
        if len(self.points) >= MOST_POINTS:
            del self.points[1::2]
            self.grain = max(2 * self.grain, 2 * seconds / MOST_POINTS)
        found = self.total("calls")
        families = Counter[str]()
        for name, count in found.items():
            families[calls.of(name).family] += count
        self.points.append(
            Point(
                seconds=seconds,
                calls=found.total(),
                launches=sum(n for name, n in found.items() if calls.is_kernel_launch(name)),
                bytes=sum(self.total("bytes").values()),
                queued=sum(process.last.vm.get("queued", 0) for process in self.processes if not process.ended),
                busy=sum(self.busy.values()),
                families=dict(families),
            )
        )
