"""What is made of results.json: report.md, index.html, and a PNG of each figure."""

from __future__ import annotations

from pathlib import Path

from torpor import written
from torpor.bench.report import markdown, page, plots
from torpor.bench.results import Results


def write(found: Results, folder: Path) -> list[Path]:
    """Draw everything into the folder, and return what was written. Each file is as it was before, or whole.

    Without matplotlib there are tables only: `plots.available()` tells.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(found, folder) if plots.available() else {}
    written.data(folder / "report.md", markdown.text(found, drawn).encode())
    written.data(folder / "index.html", page.text(found, drawn).encode())
    return [folder / "report.md", folder / "index.html", *drawn.values()]
