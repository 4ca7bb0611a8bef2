"""Wait until an image in memory is durable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torpor.keeper.host import Host
from torpor.keeper.messages import FlushParams
from torpor.keeper.report import Report


def run(host: Host, params: FlushParams, report: Report) -> dict[str, Any]:
    """Where it is then, and what a store said of it. Raises why it could not be written."""
    return host.writeback.flush(Path(params.image), params.env, report)
