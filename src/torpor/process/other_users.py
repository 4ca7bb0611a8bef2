"""Processes of a job that belong to another user than CRIU does, which is its supervisor's."""

from __future__ import annotations

from collections.abc import Iterable

from torpor import paths
from torpor.process import tree
from torpor.process.tree import Process


def words_before_criu(processes: Iterable[Process], supervisor: int) -> list[str]:
    """What to put before CRIU's command so that it can save them; `supervisor` is a pid of the host.

    The kernel tells nobody the resource limits of another user's process who lacks CAP_SYS_RESOURCE, root included;
    native/criu reads them where they are shown.
    """
    ours = _ids(supervisor)
    library = paths.criu_limits()
    if library is None or all(_ids(one.pid) in (ours, None) for one in processes):
        return []
    return ["env", f"LD_PRELOAD={library}"]


def _ids(pid: int) -> tuple[str, str] | None:
    """Real, effective and saved user and group; None when the process is gone."""
    try:
        facts = tree.status(pid)
        return " ".join(facts["Uid"].split()[:3]), " ".join(facts["Gid"].split()[:3])
    except (OSError, KeyError):
        return None
