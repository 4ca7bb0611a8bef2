"""Reports of figures: tables, pages, plots. No GPU takes part."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.unit.bench_made import MACHINE, found_in, measured, said
from torpor.bench import report, results
from torpor.bench.report import markdown, page, plots, tables
from torpor.bench.results import Figure, Measurement, PartResult, Results
from torpor.cli import bench as cli_bench

FIGURES = (
    Figure(name="cost", title="Costs", kind="cost"),
    Figure(name="lines", title="Against size", kind="lines", x="size", y="µs", x_log=True, x_is_bytes=True),
    Figure(name="bars", title="Beside each other", kind="bars", y="ns per call"),
    Figure(name="empty", title="Nothing to see", kind="bars"),
)


def drawable(**more: Any) -> Results:
    many = (1.00, 1.01, 1.02)
    return found_in(
        measured("a | b", cost=many, figures=["cost", "bars"], note="a note"),
        measured("c", cost=many, figures=["lines"], x=8.0, series="pinned", panel="in"),
        measured("d", cost=many, figures=["lines"], x=4096.0, series="pinned", panel="in"),
        measured("e", cost=many, figures=["lines"], x=4096.0, series="pinned", panel="out"),
        measured("hidden", cost=many, in_table=False),
        figures=FIGURES,
        **more,
    )


def test_a_report_has_everything(tmp_path: Path) -> None:
    written = report.write(drawable(), tmp_path)
    pngs = {f"p-{name}.png" for name in ("cost", "lines", "bars")}
    assert {path.name for path in written} == {"report.md", "index.html", *pngs}
    text, html = (tmp_path / "report.md").read_text(), (tmp_path / "index.html").read_text()
    assert r"| a \| b | ns | 10 | 10.1 (10 to 10.2) | 1.0100 (1.0000 to 1.0200) |" in text
    assert "≤ 1 % over native: within noise" in text and "≤ 1 % over native: within noise" in html
    assert "hidden" not in text
    assert all(f"]({name})" in text for name in pngs)
    assert html.count("data:image/png;base64,") == len(pngs) and "http" not in html.replace("http-equiv", "")
    assert "H1000, 9 MiB" in text and "H1000, 9 MiB" in html
    assert tables.SOFTWARE_GPU not in text + html
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pngs)


def test_the_whole_at_a_glance() -> None:
    many = [measured(name, cost=(cost,) * 3) for name, cost in (("a", 1.0), ("b", 1.05), ("c", 1.001))]
    sides = {"torpor": results.spread([2.0]), "driver + CRIU": results.spread([30.0])}
    restore = Measurement(
        name="restore", unit="s", sides=sides, headline=True, bars=[results.times_faster(8, "driver + CRIU")]
    )
    costs, values = tables.glance(found_in(*many, restore))
    assert costs.rows == (("p", "3", "1.001", "1.050", "b", "1.000 to 1.000", "3 met, 1 missed"),)
    assert values.rows == (("p", "restore", "s", "2", "30", "≥ 8 × as fast as driver + CRIU: met"),)
    start = Measurement(name="start", unit="s", sides=sides, bars=[results.times_faster(8, "driver + CRIU")])
    assert tables.glance(found_in(start))[0].rows[0][1] == "start"  # for its bar, which the other table does not count
    assert tables.glance(found_in()) == []
    only_drawn = measured("a single turn", cost=(1.5,), in_table=False)
    [costs] = tables.glance(found_in(measured(), only_drawn))
    assert costs.rows[0][1:5] == ("1", "1.000", "1.000", "launch")


def test_sides_are_explained_where_there_are_any() -> None:
    def told(*sides: str) -> str:
        values = {side: results.spread([1.0]) for side in sides}
        return " ".join(tables.legend(found_in(Measurement(name="start", unit="s", sides=values))))

    assert "CRIU" not in told("native", "torpor", "control") and "dram" not in told("native", "torpor")
    assert "with CRIU" in told("native", "driver + CRIU disk") and "one run" in told("torpor", "driver + CRIU")
    assert "in memory" in told("torpor", "driver + CRIU")
    assert "hbm, in GPU memory" in told("native", "torpor hbm")


def test_a_command_is_told_without_its_folder() -> None:
    told = cli_bench._told(["bench", "raw", "--out", "/somewhere", "--groups", "3", "--out=/elsewhere"])
    assert told == ["bench", "raw", "--groups", "3"]


def test_the_software_gpu_is_told_everywhere() -> None:
    found = drawable(software_gpu=True, backend="sim")
    for text in (markdown.text(found, {}), page.text(found, {})):
        assert text.count(tables.SOFTWARE_GPU) == 2  # at the top, and with the only part's table
    for figure in FIGURES[:3]:
        shown = [m for m in found.parts[0].measurements if figure.name in m.figures]
        texts = [text.get_text() for text in plots.canvas_of(figure, shown, found).texts]
        assert any("SOFTWARE GPU" in text for text in texts)
        assert any("H1000, 9 MiB" in text for text in texts)


def test_the_machine_is_not_broken_within_a_fact() -> None:
    told = plots._between_facts("A GPU, 9 MiB · 2 of 2 processors · --vm answers · 2026-12-01", 24)
    assert told.split("\n") == ["A GPU, 9 MiB ·", "2 of 2 processors ·", "--vm answers ·", "2026-12-01"]


def axes_of(name: str) -> list[Any]:
    found = drawable()
    [figure] = [figure for figure in FIGURES if figure.name == name]
    shown = [m for m in found.parts[0].measurements if name in m.figures]
    axes: list[Any] = plots.canvas_of(figure, shown, found).axes
    return axes


def test_axes_begin_at_zero_and_have_units() -> None:
    assert [(axes.get_xlim()[0], axes.get_xlabel()) for axes in axes_of("cost")] == [(0, "time relative to native")]
    assert [(axes.get_xlim()[0], axes.get_xlabel()) for axes in axes_of("bars")] == [(0, "ns per call")]
    panels = axes_of("lines")
    assert [(axes.get_ylim()[0], axes.get_ylabel(), axes.get_title()) for axes in panels] == [
        (0, "µs", "in"),
        (0, "µs", "out"),
    ]
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["8 B", "4 KiB"]
    # What lines that lie on each other do not tell stands below.
    below = [text.get_text() for text in panels[0].texts]
    assert below == ["pinned, native", "10", "10", "pinned, torpor", "10.1", "10.1"]


@pytest.mark.parametrize("x", [1.0, None])
def test_one_run_has_no_error_bar(x: float | None) -> None:
    """Nor the caps of one without length, which look like a spread of nothing."""
    figure = Figure(name="f", title="t", kind="bars" if x is None else "lines", y="s", x="GiB")
    for runs, bars in (((2.0,), 0), ((2.0, 2.5, 3.0), 1)):
        one = Measurement(name="m", unit="s", sides={"torpor": results.spread(runs)}, figures=["f"], x=x)
        [axes] = plots.canvas_of(figure, [one], found_in(one)).axes
        drawn = [path for lines in axes.collections for path in lines.get_segments() if np.isfinite(path).any()]
        assert len(drawn) == bars


def test_native_is_always_to_be_seen_beside_a_ratio() -> None:
    figure = Figure(name="f", title="t", kind="cost", x="threads")
    fast = [measured(f"m{x}", cost=(0.2, 0.3, 0.4), figures=["f"], x=x) for x in (1.0, 2.0, None)]
    [by_x] = plots.canvas_of(figure, fast[:2], found_in(*fast)).axes
    [lying] = plots.canvas_of(figure, fast[2:], found_in(*fast)).axes
    assert by_x.get_ylim()[1] > 1 and lying.get_xlim()[1] > 1


@pytest.mark.parametrize("lost", ["report.md", "index.html", "p-cost.png"])
def test_what_cannot_be_written_anew_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    before = {path: path.read_bytes() for path in report.write(drawable(), tmp_path)}
    replace = Path.replace

    def full(source: Path, target: Path) -> Path:
        if target.name == lost:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        report.write(drawable(vm="full"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in before}
    assert (tmp_path / lost).read_bytes() == before[tmp_path / lost]


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """Also such that matplotlib would take for formulas, and for wrong ones."""
    figures = tuple(Figure(name=kind, title="$\\frac{$", kind=kind, x="$_$") for kind in ("cost", "lines", "bars"))
    names = [figure.name for figure in figures]
    points = [
        measured(f"$x_{{$ {x}", figures=names, x=float(x), series="$\\bad{$", panel="${$") for x in range(1, 10)
    ]
    found = found_in(*points, figures=figures, machine={**MACHINE, "gpu": "$\\bad{$"})
    assert len(report.write(found, tmp_path)) == 2 + len(figures)
    [axes] = plots.canvas_of(msgspec.structs.replace(figures[1], x_log=True), points, found).axes
    axes.figure.canvas.draw()
    assert "1" in [label.get_text() for label in axes.get_xticklabels()]


def test_without_matplotlib_there_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "available", lambda: False)
    assert {path.name for path in report.write(drawable(), tmp_path)} == {"report.md", "index.html"}
    assert "![" not in (tmp_path / "report.md").read_text()
    assert "a note" in (tmp_path / "index.html").read_text()


def test_report_is_made_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plots, "available", lambda: False)
    results.save(drawable(), tmp_path / "a.json")
    said_of_it = said(capsys, "report", str(tmp_path / "a.json"), "--out", str(tmp_path / "out"))
    assert "matplotlib is not installed" in said_of_it
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.md", "index.html", "results.json"}
    assert results.load(tmp_path / "out") == drawable()


def test_pages_are_safe_from_what_results_say() -> None:
    """Names and reasons are text, whatever is in them."""
    evil = "<script>alert(1)</script>"
    found = found_in(measured(evil, note=evil), machine={**MACHINE, "gpu": evil})
    found.parts.append(PartResult(name=evil, title=evil, status="failed", reason=f"line\n{evil}"))
    assert "<script" not in page.text(found, {})
    assert "\n**failed: line" in markdown.text(found, {})


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (12.3456, "12.35"), (0.00001234, "0.0000123"), (48295.4, "48,295"), (-2.5, "-2.5"), (100.0, "100")],
)
def test_numbers_have_four_digits(value: float, shown: str) -> None:
    number: Callable[[float], str] = tables.number
    assert number(value) == shown
