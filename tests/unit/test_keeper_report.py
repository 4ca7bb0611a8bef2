"""What a flow tells: a client that has cancelled need not wait for a store that does not answer."""

from __future__ import annotations

import pytest

from torpor.errors import Cancelled
from torpor.keeper.messages import CANCEL, Progress
from torpor.keeper.report import Report


def test_a_phase_that_ends_holds_nobody_who_cancelled() -> None:
    """Other steps go on beside the one that waits for the store: what they tell is no sign of an answer."""
    told: list[Progress] = []
    report = Report(told.append)
    report.store_only(True)
    with pytest.raises(Cancelled), report.phase("preflight"), report.phase("verify") as verify:
        report.cancel()
        assert (told[-1].phase, told[-1].event) == (CANCEL, "end")
        verify.move(1)
    assert [one.phase for one in told[-4:]] == ["verify", CANCEL, "preflight", CANCEL]


def test_elsewhere_who_cancelled_waits_for_the_end() -> None:
    told: list[Progress] = []
    report = Report(told.append)
    report.store_only(True)
    report.store_only(False)
    with pytest.raises(Cancelled), report.phase("criu restore") as phase:
        report.cancel()
        phase.move(1)
    assert all(one.phase != CANCEL for one in told)
