"""What is made of results.json: report.md, index.html, and a PNG of each figure."""

from __future__ import annotations

from pathlib import Path

from torpor.bench.report import markdown, page, plots
from torpor.bench.results import Results


def write(found: Results, folder: Path) -> list[Path]:
    """Draw everything into the folder, and return what was written.

    Without matplotlib there are tables only: `plots.available()` tells.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(found, folder) if plots.available() else {}
    (folder / "report.md").write_text(markdown.text(found, drawn))
    (folder / "index.html").write_text(page.text(found, drawn))
    return [folder / "report.md", folder / "index.html", *drawn.values()]
