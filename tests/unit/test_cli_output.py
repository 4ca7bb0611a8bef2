"""How the command line words numbers, tables and progress."""

from __future__ import annotations

import pytest

from torpor.cli import output, progress
from torpor.cli.keeper import parse_size
from torpor.errors import UsageError
from torpor.keeper.messages import Progress


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (256 << 20, "256.0 MiB"),
        (18 << 30, "18.0 GiB"),
        (3 << 40, "3.0 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert output.size(count) == text


def test_rates_are_decimal() -> None:
    assert output.rate(55_200_000_000, 1.0) == "55.2 GB/s"
    assert output.rate(0, 1.0) == "0.0 GB/s"
    assert output.rate(2_000_000, 1.0) == "2.0 MB/s"  # as with `--limit 2MB/s`
    assert output.rate(1, 0.0) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert output.age(seconds) == text


def test_tables_line_up() -> None:
    assert output.table(("a", "b"), [("xx", "1"), ("y", "22")]) == "A   B\nxx  1\ny   22"


def test_what_is_no_line_of_text_leaves_tables_whole() -> None:
    told = output.table(("a", "b"), [("sh -c a\nb\x1b[31m", "1"), ("für", "2")])
    assert told.splitlines()[1:] == [r"sh -c a\nb\x1b[31m  1", "für                 2"]


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("1024", 1024), ("512M", 512 << 20), ("16GiB", 16 << 30), ("1.5k", 1536), ("2 TB", 2 << 40)],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1GG", "9999999T", "9" * 400])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def told(event: str, moved: int = 0, seconds: float = 0.0) -> Progress:
    return Progress(phase="copy", event=event, seconds=seconds, bytes=moved, total=8 << 30)  # type: ignore[arg-type]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(output, "as_json", False)
    return Clock(monkeypatch)


def test_a_quick_verb_shows_no_progress(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("checkpoint j") as report:
        report(told("start"))
        clock.now += 0.4
        report(told("end", 8 << 30, 0.4))
    assert capsys.readouterr().err == ""
    assert report.phases == {"copy": 0.4}
    assert report.elapsed == pytest.approx(0.4)


def test_a_longer_verb_shows_bytes_and_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("checkpoint j") as report:
        report(told("start"))
        clock.now += 2.5
        report(told("move", 4 << 30, 2.5))
        clock.now += 0.5
        report(told("move", 5 << 30, 3.0))
        clock.now += 1.0
        report(told("end", 8 << 30, 4.0))
    assert capsys.readouterr().err.splitlines() == [
        "checkpoint j: copy 2.50 s, 4.0 GiB of 8.0 GiB, 1.7 GB/s",
        "checkpoint j: copy 4.00 s, 8.0 GiB of 8.0 GiB, 2.1 GB/s",
    ]


def test_a_step_of_less_than_two_seconds_has_one_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("checkpoint j") as report:
        report(told("start"))
        clock.now += 0.9
        report(told("move", 8 << 30, 0.9))
        report(told("end", 8 << 30, 0.9))
    assert capsys.readouterr().err.splitlines() == ["checkpoint j: copy 0.90 s, 8.0 GiB of 8.0 GiB, 9.5 GB/s"]


def test_json_shows_no_progress(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "as_json", True)
    with progress.shown("checkpoint j") as report:
        clock.now += 5
        report(told("end", 8 << 30, 5.0))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_bars_that_leave_nothing_behind(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.shown("checkpoint j") as report:
        clock.now += 1
        report(told("move", 4 << 30, 1.0))
        report(told("end", 8 << 30, 2.0))
    text = terminal.getvalue()
    assert "copy" in text
    assert "GB/s" in text
    assert text.rstrip().endswith("\x1b[2K")


def test_figures_name_seconds_bytes_and_rate() -> None:
    figures = progress.figures(2.0, 16 << 30, 1 << 30, {"copy": 0.5})
    assert figures.text == "2.00 s, 16.0 GiB of GPU memory at 34.4 GB/s, 1.0 GiB of process memory"
    assert figures.data == {"seconds": 2.0, "gpu_bytes": 16 << 30, "cpu_bytes": 1 << 30, "phases": {"copy": 0.5}}


@pytest.mark.parametrize("created", ["2025-11-29T12:00:00Z", "2025-11-29T12:00:00.250Z"])
def test_times_are_shown_in_seconds(created: str) -> None:
    assert output.second(created) == "2025-11-29T12:00:00Z"
