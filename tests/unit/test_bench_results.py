"""What is made of figures: spreads, verdicts, comparisons. No GPU takes part."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.bench_made import MACHINE, found_in, measured, said
from torpor import written
from torpor.bench import comparison, results, verdict
from torpor.bench.results import Bar, Figure, Measurement, PartResult, Results, Spread
from torpor.errors import NotFound, UsageError


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9, 20, 101])
def test_a_spread_holds_the_median(n: int) -> None:
    """The share of samples of n whose interval holds the true median, by the binomial distribution."""
    found = results.spread(float(value) for value in range(n))
    below = int(found.low)
    assert found == Spread((n - 1) / 2, below, n - 1 - below, n)
    missed = [2 * sum(math.comb(n, k) for k in range(cut + 1)) / 2**n for cut in (below, below + 1)]
    assert missed[1] > 0.05
    if n > 5:
        assert missed[0] <= 0.05
    assert (below > 0) == (n > 8)


@pytest.mark.parametrize(
    ("cost", "control", "expected"),
    [
        ((1.000, 1.005, 1.008), (1.0,), "met"),
        ((1.000, 1.005, 1.012), (1.0,), "within noise"),
        ((1.012, 1.015, 1.030), (1.0,), "missed"),
        ((1.012, 1.015, 1.030), (1.005,), "within noise"),
        ((1.000, 1.005, 1.008), (0.990,), "within noise"),
        ((0.5, 0.6, 0.7), (1.0,), "met"),
        ((0.5, 0.6), (1.0,), "too few runs"),
    ],
)
def test_a_verdict_needs_the_whole_interval(cost: Any, control: Any, expected: str) -> None:
    ratios = {"torpor": results.spread(cost), "control": results.spread(control)}
    measurement = msgspec.structs.replace(measured(), cost=ratios)
    assert verdict.judged(measurement, results.within(0.01)) == expected


def test_bars_on_other_sides_and_on_values() -> None:
    sides = {"torpor": results.spread([1.0, 1.1, 1.2]), "driver + CRIU": results.spread([9.5, 10.0, 11.0])}
    restore = Measurement(name="restore", unit="s", sides=sides)
    assert verdict.judged(restore, results.times_faster(7, "driver + CRIU")) == "met"
    assert verdict.judged(restore, results.times_faster(9, "driver + CRIU")) == "within noise"
    assert verdict.judged(restore, results.times_faster(12, "driver + CRIU")) == "missed"
    assert verdict.judged(restore, results.times_faster(2, "native")) == "not measured"
    most = [Bar(side="torpor", against=None, most=limit, text="") for limit in (1.3, 1.15, 0.9)]
    assert [verdict.judged(restore, bar) for bar in most] == ["met", "within noise", "missed"]
    rate = Measurement(name="copy", unit="GB/s", sides={"torpor": results.spread([50, 52, 54])}, better="higher")
    least = [Bar(side="torpor", against=None, most=limit, text="") for limit in (49, 51, 60)]
    assert [verdict.judged(rate, bar) for bar in least] == ["met", "within noise", "missed"]


def test_more_is_slower_whatever_the_unit() -> None:
    rate = Measurement(
        name="copy",
        unit="GB/s",
        better="higher",
        sides={"native": results.spread([50]), "torpor": results.spread([40])},
    )
    assert results.relative(rate, "torpor", "native") == Spread(1.25, 1.25, 1.25, 1)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    whole = found_in(measured(), figures=(Figure(name="f", title="t", kind="cost"),))
    results.save(whole, tmp_path / "results.json")
    assert results.load(tmp_path) == results.load(tmp_path / "results.json") == whole
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_what_cannot_be_written_leaves_what_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results.save(found_in(measured("before")), tmp_path / "results.json")

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        results.save(found_in(measured("after")), tmp_path / "results.json")
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert [m.name for m in results.load(tmp_path).parts[0].measurements] == ["before"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\x00\xff", '{"format": 1}'])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"a\.json"):
        results.load(tmp_path / "a.json")
    with pytest.raises(NotFound):
        results.load(tmp_path / "b.json")


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    results.save(found_in(format=results.FORMAT + 1), tmp_path / "a.json")
    with pytest.raises(UsageError, match="format 2"):
        results.load(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "x" * 61, "a\n"])
def test_names_that_would_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    """They are parts of the pictures' file names."""
    run = found_in(measured())
    run.parts[0].name = name
    results.save(run, tmp_path / "a.json")
    with pytest.raises(UsageError, match=r"parts\[0\]\.name"):
        results.load(tmp_path / "a.json")


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    written.data(pipe, b"all")
    assert pipe.is_fifo() and os.read(reader, 10) == b"all" and list(tmp_path.iterdir()) == [pipe]
    os.close(reader)


def test_a_link_stays_one(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    written.data(link, b"new")
    assert link.is_symlink() and file.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [file, link]


def test_what_has_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LARGEST", 1000)
    with pytest.raises(UsageError, match="too large"):
        results.load(Path("/dev/zero"))


def test_runs_of_one_machine_are_joined() -> None:
    first, second = found_in(measured("old")), found_in(measured("new"), quick=True)
    second.parts.append(PartResult(name="q", title="Another", status="done"))
    joined = results.merged([first, second])
    names = [(part.name, [m.name for m in part.measurements]) for part in joined.parts]
    assert names == [("p", ["old", "new"]), ("q", [])]
    assert joined.quick
    joined.command[-1] = "two words"
    assert results.told(joined.command) == "torpor bench; torpor 'two words'"
    again = results.merged([first, second, found_in(measured("old", unit="h"))])
    assert [(m.name, m.unit) for m in again.parts[0].measurements] == [("new", "ns"), ("old", "h")]
    skipped = PartResult(name="p", title="The part", status="skipped", reason="no GPU")
    assert results.merged([first, found_in(parts=[skipped])]).parts[0].status == "done"
    with pytest.raises(UsageError, match="gpu is H1000, 9 MiB and H2000"):
        results.merged([first, found_in(machine={**MACHINE, "gpu": "H2000"})])
    with pytest.raises(UsageError, match="--vm"):
        results.merged([first, found_in(vm="defer")])


def part_of(status: str, *names: str, reason: str = "") -> Results:
    """A run of the part that ended so, and had measured these by then."""
    one = PartResult(name="p", title="The part", status=status, reason=reason)  # type: ignore[arg-type]
    one.measurements = [measured(name) for name in names]
    return found_in(parts=[one])


@pytest.mark.parametrize(
    ("earlier", "later", "status", "names"),
    [
        (part_of("done", "a"), part_of("interrupted", reason="not begun"), "done", ["a"]),
        (part_of("interrupted", "a", reason="broken off"), part_of("done", "b"), "interrupted", ["a", "b"]),
        (part_of("interrupted", "a", reason="broken off"), part_of("done", "a", "b"), "done", ["a", "b"]),
        (part_of("done", "a"), part_of("interrupted", "b", reason="broken off"), "interrupted", ["a", "b"]),
        (part_of("failed", "a", reason="no driver"), part_of("done", "b"), "failed", ["a", "b"]),
        (part_of("done", "a"), part_of("failed", reason="no driver"), "failed", ["a"]),
    ],
)
def test_what_was_cut_is_not_done_by_being_joined(
    earlier: Results, later: Results, status: str, names: list[str]
) -> None:
    [part] = results.merged([earlier, later]).parts
    assert (part.status, [m.name for m in part.measurements]) == (status, names)
    told = {one.parts[0].reason for one in (earlier, later) if one.parts[0].status == status}
    assert part.reason.removesuffix(results.EARLIER) in told
    [again] = results.merged([earlier, later, part_of("done", "c")]).parts
    assert again.reason.count(results.EARLIER) == (status != "done")


def changes(first: Measurement, second: Measurement) -> list[tuple[str, str]]:
    rows = comparison.compare(found_in(first), found_in(second))
    return [(row.side, row.change) for row in rows]


def test_what_got_better_or_worse_beyond_both_spreads() -> None:
    still, slower, faster = (1.00, 1.01, 1.02), (1.03, 1.04, 1.05), (0.90, 0.91, 0.92)
    overlapping = (1.015, 1.04, 1.05)
    assert ("torpor", "worse") in changes(measured(cost=still), measured(cost=slower))
    assert ("torpor", "better") in changes(measured(cost=still), measured(cost=faster))
    assert ("torpor", "same") in changes(measured(cost=still), measured(cost=overlapping))
    assert ("torpor", "too few runs") in changes(measured(cost=still), measured(cost=(9.0, 9.1)))
    assert changes(measured("a"), measured("b")) == [("", "new"), ("", "gone")]
    times = [
        Measurement(name="copy", unit="GB/s", better="higher", sides={"torpor": results.spread(values)})
        for values in ((50, 51, 52), (40, 41, 42))
    ]
    assert changes(*times) == [("torpor", "worse")]
    assert changes(*times[::-1]) == [("torpor", "better")]


def test_the_machines_mood_is_no_change_of_torpors() -> None:
    """All sides twice as slow on another day: the ratio stands."""
    rows = comparison.compare(
        found_in(measured(native=10.0, cost=(1.0, 1.01, 1.02))), found_in(measured(native=20.0, cost=(1.0, 1.01, 1.02)))
    )
    assert not any(row.is_worse_for_torpor for row in rows)
    # Two native copies differ by as much on one of the days: that is noise, too.
    still, slower = measured(cost=(1.00, 1.01, 1.02)), measured(cost=(1.03, 1.04, 1.05))
    slower.cost["control"] = results.spread((1.03, 1.04, 1.05))
    assert ("torpor", "same") in changes(still, slower) and ("torpor", "same") in changes(slower, still)
    slower = [
        Measurement(name="restore", unit="s", sides={"driver + CRIU": results.spread(values)})
        for values in ((10, 11, 12), (20, 21, 22))
    ]
    [row] = comparison.compare(*map(found_in, slower))
    assert row.change == "worse" and not row.is_worse_for_torpor


def test_points_over_time_are_not_compared_one_by_one() -> None:
    whole, point = measured("over time"), measured("turn 1")
    point.in_table = False
    assert {row.name for row in comparison.compare(found_in(whole, point), found_in(whole, point))} == {"over time"}


def test_compare_exits_with_1_where_torpor_got_worse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = []
    for name, cost in (("a", (1.00, 1.01, 1.02)), ("b", (1.03, 1.04, 1.05))):
        results.save(found_in(measured(cost=cost), machine={**MACHINE, "kernel": name}), tmp_path / f"{name}.json")
        files.append(str(tmp_path / f"{name}.json"))
    shown = said(capsys, "compare", *files, code=1)
    assert "differs: kernel: a → b" in shown
    assert "worse" in shown
    told = json.loads(said(capsys, "compare", *files[::-1], "--json"))
    assert [row["change"] for row in told["rows"] if row["side"] == "torpor"] == ["better"]
    for names, only in (("abc", ["only in A: p (launch)", "only in B: p (a, b, c)"]), ("", ["only in A: p (1)"])):
        results.save(found_in(*map(measured, names)), tmp_path / "other.json")
        lines = said(capsys, "compare", files[0], str(tmp_path / "other.json")).splitlines()
        assert [line for line in lines if line.startswith("only in")] == only
        assert not any("launch" in line for line in lines if line not in only)  # and no row for each
    unchanged = said(capsys, "compare", files[0], files[0])
    assert "1 same, 1 too few runs (--all lists every one)" in unchanged and "differs" not in unchanged
    assert "--all" not in said(capsys, "compare", files[0], files[0], "--all")
    cut = PartResult(name="p", title="The part", status="interrupted", reason="broken off")
    results.save(found_in(parts=[cut], command=["torpor", "bench", "--requests", "9"]), tmp_path / "cut.json")
    shown = said(capsys, "compare", files[0], str(tmp_path / "cut.json"))
    assert "differs: part p: done → interrupted" in shown
    assert "differs: command: torpor bench → torpor bench --requests 9" in shown
    results.save(found_in(software_gpu=True, backend="sim"), tmp_path / "sim.json")
    assert "software GPU" in said(capsys, "compare", files[0], str(tmp_path / "sim.json"), code=2)
    assert "nowhere" in said(capsys, "compare", files[0], "nowhere.json", code=3)
