"""Which jobs and images have a flow under way, and who must not come between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torpor import records
from torpor.errors import WrongState
from torpor.records import JobRecord, JobState, Unfinished

LEAVE_SECONDS = 60.0
"""What a flow that has said its end needs at most to leave."""


@dataclass(eq=False)
class Flow:
    """One that is under way."""

    verb: str
    names: tuple[str, ...]
    reads: str | None
    is_leaving: bool = False

    def ends(self) -> None:
        """All is done, and about to be seen: whoever comes then is not refused, but waits until this one has left."""
        self.is_leaving = True


class Flows:
    """Those of a keeper. Threads may call all of it at once."""

    def __init__(self) -> None:
        self._flows: list[Flow] = []
        self._glances: dict[str, int] = {}
        self._changed = threading.Condition()

    @contextmanager
    def begin(self, verb: str, *names: str, reads: str | None = None) -> Iterator[Flow]:
        """Keep other flows off these jobs and images; WrongState when one is under way.

        `reads` is an image that is only read: any number of flows may read it at the same time.
        """
        flow = Flow(verb, names, reads)
        with self._changed:
            self._changed.wait_for(lambda: not self._may_soon_begin(flow), LEAVE_SECONDS)
            self._changed.wait_for(lambda: not any(map(self._glances.get, names)))
            for name, other in self._in_the_way(flow):
                raise WrongState(f"{name} has a {other.verb} under way", hint="wait for it to end, then try again")
            self._flows.append(flow)
        try:
            yield flow
        finally:
            with self._changed:
                self._flows.remove(flow)
                self._changed.notify_all()

    def settle(
        self, record: JobRecord, state: JobState, *, unfinished: Unfinished | None = None, **changes: object
    ) -> None:
        """Record how the job's flow has ended, with what is left to be done; whoever sees that may begin the next."""
        with self._changed:
            for flow in self._flows:
                if record.name in flow.names:
                    flow.ends()
        record.state, record.unfinished = state, unfinished
        for name, value in changes.items():
            setattr(record, name, value)
        records.save(record)

    @contextmanager
    def glance(self, name: str) -> Iterator[str | None]:
        """Look at a job for a moment, in which no flow begins: that waits. Gives the verb of one that has begun."""
        with self._changed:
            flow = next((flow for flow in self._flows if name in flow.names), None)
            if flow is None:
                self._glances[name] = self._glances.get(name, 0) + 1
        try:
            yield flow.verb if flow is not None else None
        finally:
            if flow is None:
                with self._changed:
                    self._glances[name] -= 1
                    if not self._glances[name]:
                        del self._glances[name]
                    self._changed.notify_all()

    def busy(self, *, leaving: bool = True) -> dict[str, str]:
        """The flows under way, or without those about to leave: job or image → verb."""
        with self._changed:
            flows = [flow for flow in self._flows if leaving or not flow.is_leaving]
        return {name: flow.verb for flow in flows for name in (*flow.names, flow.reads) if name is not None}

    def wait_idle(self) -> None:
        """Return when no flow is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._flows)

    def _may_soon_begin(self, flow: Flow) -> bool:
        others = [other for _name, other in self._in_the_way(flow)]
        return bool(others) and all(other.is_leaving for other in others)

    def _in_the_way(self, flow: Flow) -> Iterator[tuple[str, Flow]]:
        """With the job or image that both want, and not both to read it."""
        for other in self._flows:
            both = {*flow.names, flow.reads} & {*other.names, other.reads} - {None}
            for name in sorted(name for name in both if name and not name == flow.reads == other.reads):
                yield name, other
