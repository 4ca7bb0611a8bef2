"""The fault matrix as a page: docs/results/faults.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.faults.rows import Row

HEAD = """# What becomes of a job when something fails

Written by `python -m tests.faults --write docs/results/faults.md`: {done} of {all} rows, on the software GPU with
CRIU, {system}. Each row is also a test (`tests/faults/test_matrix.py`: a part in every run, all with
`scripts/test --full`). [design/faults.md](../design/faults.md) says how the outcomes come about.

| outcome | seen by |
| --- | --- |
| runs on | the job counts on without a gap, and every page of its device memory holds what was put there |
| suspended | a new keeper resumes the job, and then it runs on |
| asleep | the image was complete: it restores and runs on |
| restores | the job (or its GPU) is gone, or there was none: the old image restores and runs on |

After each row the old image was verified, and no process, mount, partial image, held descriptor or folder of the flow
was left. Exit code 0 means that the fault did not keep the verb from being done.
Results are kept between runs (`--rows`), so rows may stem from revisions that lie hours apart.

| outcome | rows |
| --- | --- |
{counts}
"""


def table(found: list[tuple[Row, dict[str, Any]]], all_rows: int, system: str) -> str:
    """The page for these rows and their results."""
    counts = Counter(result["outcome"] for _row, result in found)
    lines = "\n".join(f"| {outcome} | {count} |" for outcome, count in sorted(counts.items()))
    page = HEAD.format(done=len(found), all=all_rows, system=system, counts=lines)
    for flow in dict.fromkeys(row.flow for row, _result in found):
        page += f"\n## {flow}\n| step | who | fault | outcome | exit | what the verb said |\n"
        page += "| --- | --- | --- | --- | --- | --- |\n"
        for row, result in found:
            if row.flow == flow:
                said = _short(result["message"])
                page += (
                    f"| {row.step} | {row.agent} | {row.fault} | {result['outcome']} | {result['code']} | {said} |\n"
                )
    return page


def _short(message: str) -> str:
    """One line without what differs from run to run."""
    line = " ".join(message.split()).replace("|", "/")
    words = ["…" if "/tf-" in word else word for word in line.split(" ")]
    text = " ".join(words)
    return text if len(text) <= 140 else text[:139] + "…"
