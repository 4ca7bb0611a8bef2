"""What is tried again, how often, and after which pauses."""

from __future__ import annotations

import pytest

from tests.store.memory import MemoryBackend
from torpor.errors import NoRights, NoSpace, StepFailed, TorporError
from torpor.store.backend import Backend, NoObject, Passing
from torpor.store.retry import Patience, RetryBackend


class Failing(MemoryBackend):
    """Every request but a listing fails with `error`; `times` of them, then none."""

    def __init__(self, error: TorporError, times: int = 10**9) -> None:
        super().__init__()
        self.error = error
        self.times = times

    def _ask(self, what: str) -> None:
        super()._ask(what)
        if self.times > 0:
            self.times -= 1
            raise self.error


def lost() -> Passing:
    return Passing(step="store", reason="packs/x of the store: no answer", hint="check the network")


CALLS = {
    "list": lambda backend: [*backend.list("packs")],
    "size": lambda backend: backend.size("config"),
    "read": lambda backend: backend.read("config"),
    "write": lambda backend: backend.write("config", [b"x"]),
    "delete": lambda backend: backend.delete(["config"]),
    "sweep": lambda backend: backend.sweep(),
}


@pytest.mark.parametrize("call", sorted(CALLS))
def test_what_may_pass_is_tried_a_bounded_number_of_times(call: str) -> None:
    pauses: list[float] = []
    inner = Failing(lost())
    backend: Backend = RetryBackend(inner, Patience(tries=5, first=1.0, most=3.0, pause=pauses.append))
    with pytest.raises(StepFailed, match="the last of 5 tries") as caught:
        CALLS[call](backend)
    assert inner.asked == {call: 5}
    # Whoever tries again around this one is not to try as often again.
    assert not isinstance(caught.value, Passing)
    assert caught.value.hint == "check the network"
    assert len(pauses) == 4
    assert all(0 <= pause <= most for pause, most in zip(pauses, (1.0, 2.0, 3.0, 3.0), strict=True))


@pytest.mark.parametrize(("each", "tries"), [(60.0, 3), (11.0, 10), (0.0, 12)])
def test_what_takes_long_is_tried_less_often(each: float, tries: int) -> None:
    class Slow(Failing):
        now = 0.0

        def _ask(self, what: str) -> None:
            self.now += each
            super()._ask(what)

    inner = Slow(lost())
    patience = Patience(tries=12, first=0.0, longest=100.0, clock=lambda: inner.now)
    with pytest.raises(StepFailed, match=f"the last of {tries} tries in {tries * each:.0f} s"):
        RetryBackend(inner, patience).size("config")
    assert inner.asked == {"size": tries}


@pytest.mark.parametrize("call", sorted(CALLS))
def test_what_passes_is_no_failure(call: str) -> None:
    inner = Failing(lost(), times=3)
    inner.objects["config"] = b"{}"
    CALLS[call](RetryBackend(inner, Patience(tries=4, first=0.0)))
    assert inner.asked == {call: 4}


@pytest.mark.parametrize(
    "error", [NoRights("no"), NoSpace("full"), NoObject("x", "y"), StepFailed(step="s", reason="r")]
)
@pytest.mark.parametrize("call", sorted(CALLS))
def test_what_stays_is_told_at_once(call: str, error: TorporError) -> None:
    inner = Failing(error)
    with pytest.raises(type(error)) as caught:
        CALLS[call](RetryBackend(inner))
    assert caught.value is error
    assert inner.asked == {call: 1}


def test_pauses_differ() -> None:
    """Those whom one failure hit together come back at different times."""
    pauses: list[float] = []
    patience = Patience(tries=2, first=1.0, pause=pauses.append)
    for _ in range(20):
        with pytest.raises(StepFailed):
            RetryBackend(Failing(lost()), patience).size("config")
    assert len(set(pauses)) == 20
