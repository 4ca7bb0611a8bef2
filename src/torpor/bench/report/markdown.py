"""The report as Markdown, for a README or a page of results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torpor.bench.report import tables
from torpor.bench.results import Results, told


def text(found: Results, drawn: Mapping[str, Path]) -> str:
    """The whole page; `drawn` are the figures' files by `<part>-<figure>`, shown by their names."""
    lines = ["# What Torpor costs and saves", ""]
    lines += [f"{tables.machine_line(found)}  ", f"`{told(found.command)}`", ""]
    for line in tables.legend(found):
        lines += [line, ""]
    for table in tables.glance(found):
        lines += [*_table(table), ""]
    for part in found.parts:
        lines += [f"## {part.title}", ""]
        if tables.status(part):
            lines += [f"**{_cell(tables.status(part))}**", ""]
        table = tables.of_part(part)
        if table.rows:
            lines += [*_table(table), ""]
        lines += [f"- {_cell(note)}" for note in table.notes]
        lines += [""] if table.notes else []
        for figure in part.figures:
            file = drawn.get(f"{part.name}-{figure.name}")
            if file is not None:
                lines += [f"![{figure.title}]({file.name})", ""]
        if found.software_gpu and table.rows:
            lines += [f"*{tables.SOFTWARE_GPU}*", ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(table: tables.Table) -> list[str]:
    return [_row(table.columns), _row(["---"] * len(table.columns)), *map(_row, table.rows)]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").split())
