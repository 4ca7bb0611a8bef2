"""What `torpor doctor` says of a host."""

from __future__ import annotations

import pytest

from torpor import doctor


@pytest.mark.parametrize(
    ("folder", "level", "found"), [("/dev/shm/none/yet", "ok", "GiB free"), ("/proc", "note", "disk (proc)")]
)
def test_the_keepers_memory_has_to_be_memory(
    monkeypatch: pytest.MonkeyPatch, folder: str, level: str, found: str
) -> None:
    monkeypatch.setenv("TORPOR_DRAM", folder)
    monkeypatch.setattr(doctor, "SPACE_LEAST", 0)  # /proc has none
    check = doctor.dram()
    assert check.level == level
    assert found in check.found
    assert (check.fix is None) == (level == "ok")
