"""What the Python API says of arguments that make no sense; none of them starts anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torpor import api
from torpor.errors import UsageError


@pytest.mark.parametrize(
    ("argv", "options", "told"),
    [
        ("true", {}, "is no command"),
        ([], {}, "no program"),
        (["sleep", 1], {}, "is no command"),
        (7, {}, "is no command"),
        (["true"], {"name": "a/b"}, "is not a name"),
        (["true"], {"gpu": 0}, "names no GPU"),
        (["true"], {"vm": "fast"}, "vm cannot be 'fast'"),
        (["true"], {"managed": "disk"}, "managed cannot be 'disk'"),
        (["true"], {"env": {"A": 1}}, "no variable can be 'A'=1"),
    ],
)
def test_a_job_that_makes_no_sense_is_not_started(home: Path, argv: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        api.run(argv, **options)
    assert not list((home / "jobs").glob("*"))


def test_a_path_may_be_a_word_and_no_signal_is_none(home: Path) -> None:
    del home
    job = api.run([Path("/bin/sleep"), "1000"])
    for signal in ("KILL", 0, 1000):
        with pytest.raises(UsageError, match="number of a signal"):
            job.kill(signal)  # type: ignore[arg-type]
    assert job.state == "running"
    job.kill()
    assert job.wait()
