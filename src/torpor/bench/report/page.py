"""The report as one HTML file that needs nothing beside itself: figures are inlined."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from torpor.bench.report import tables
from torpor.bench.results import PartResult, Results, told

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
img { max-width: 100%; height: auto; }
code { background: #f3f3f3; padding: .1em .3em; }
.warning { background: #fff1d6; border-left: 4px solid #d98a00; padding: .5em 1em; }
.missed { color: #b00020; } .met { color: #1a7a2e; } .noise { color: #777; }
"""


def text(found: Results, drawn: Mapping[str, Path]) -> str:
    """The whole page; `drawn` are the figures' PNG files by `<part>-<figure>`."""
    body = ["<h1>What Torpor costs and saves</h1>"]
    body.append(f"<p>{escape(tables.machine_line(found))}<br><code>{escape(told(found.command))}</code></p>")
    for line in tables.legend(found):
        warning = ' class="warning"' if line in (tables.SOFTWARE_GPU, tables.QUICK) else ""
        body.append(f"<p{warning}>{escape(line)}</p>")
    for table in tables.glance(found):
        body += _table(table)
    contents = "".join(f'<li><a href="#{escape(part.name)}">{escape(part.title)}</a></li>' for part in found.parts)
    body.append(f"<ul>{contents}</ul>")
    for part in found.parts:
        body += _part(part, found, drawn)
    head = f'<meta charset="utf-8"><title>Torpor: what it costs and saves</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _part(part: PartResult, found: Results, drawn: Mapping[str, Path]) -> Iterable[str]:
    yield f'<h2 id="{escape(part.name)}">{escape(part.title)}</h2>'
    if tables.status(part):
        yield f'<p class="warning">{escape(tables.status(part))}</p>'
    for figure in part.figures:
        file = drawn.get(f"{part.name}-{figure.name}")
        if file is not None:
            data = base64.b64encode(file.read_bytes()).decode()
            yield f'<p><img alt="{escape(figure.title)}" src="data:image/png;base64,{data}"></p>'
    table = tables.of_part(part)
    if not table.rows:
        return
    if found.software_gpu:
        yield f'<p class="warning">{escape(tables.SOFTWARE_GPU)}</p>'
    yield from _table(table)
    if table.notes:
        yield "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in table.notes) + "</ul>"


def _table(table: tables.Table) -> Iterable[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in table.columns) + "</tr>"
    for row in table.rows:
        yield "<tr>" + "".join(f"<td{_colour(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table>"


def _colour(cell: str) -> str:
    for ending, name in (
        (": missed", "missed"),
        (": within noise", "noise"),
        (": too few runs", "noise"),
        (": met", "met"),
    ):
        if ending in cell:
            return f' class="{name}"'
    return ""
