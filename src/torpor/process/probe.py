"""What the host must offer for process checkpoints: capabilities, kernel features, CRIU's own check."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from torpor.process.criu import Criu
from torpor.process.namespace import effective_capabilities

CAPABILITIES = {
    "CAP_SYS_ADMIN": (21, "make the job's namespaces, set process ids"),
    "CAP_SYS_PTRACE": (19, "stop the job's processes and read their memory"),
    "CAP_CHECKPOINT_RESTORE": (40, "restore processes with their old ids"),
    "CAP_SETPCAP": (8, "restore the job's capabilities"),
    "CAP_SYS_CHROOT": (18, "restore the job's root folder"),
    "CAP_SYS_TIME": (25, "let the job's monotonic clock go on where it stood"),
    "CAP_NET_ADMIN": (12, "ask the kernel about its network features"),
    "CAP_DAC_OVERRIDE": (1, "reopen the job's files whoever owns them"),
    "CAP_SETUID": (7, "restore the job's user"),
    "CAP_SETGID": (6, "restore the job's groups"),
    "CAP_KILL": (5, "end the job whoever owns it"),
}
"""Name: (number, what Torpor or CRIU needs it for). docs/design/criu.md says which were found needed, and how."""

NEEDED_TO_RESTORE = frozenset({"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SYS_CHROOT", "CAP_SYS_TIME", "CAP_NET_ADMIN"})
"""Those of CAPABILITIES without which no job can be restored, whoever it belongs to."""

FEATURES = {
    "clone3_set_tid": "restored processes get their old ids",
    "get_rseq_conf": "programs built for a recent C library can be saved",
    "can_map_vdso": "the kernel's own library is put back in its place",
    "seccomp_filters": "sandboxed processes can be saved",
    "uffd": "pages can be loaded after the start",
    "pagemap_scan": "changed and empty pages are found fast",
}
"""CRIU's name of a kernel feature, and what it is good for."""


@dataclass(frozen=True)
class Feature:
    name: str
    meaning: str
    available: bool


def missing_capabilities(mask: int | None = None) -> list[str]:
    """The names in CAPABILITIES that `mask`, by default this process's, lacks."""
    have = effective_capabilities() if mask is None else mask
    return [name for name, (bit, _) in CAPABILITIES.items() if not have >> bit & 1]


def check(criu: Criu) -> list[str]:
    """What `criu check` complains about, a line each; empty when the kernel offers all that is required."""
    done = _run(criu, ["check"])
    if done.returncode == 0:
        return []
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.startswith("Error")]
    return said or [f"criu check ended with status {done.returncode}"]


def features(criu: Criu, names: Iterable[str] = FEATURES) -> list[Feature]:
    """Which kernel features there are, by CRIU's probes (10 to 20 ms each)."""
    return [
        Feature(name, FEATURES.get(name, ""), _run(criu, ["check", "--feature", name]).returncode == 0)
        for name in names
    ]


def _run(criu: Criu, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*criu.argv, *arguments, "--no-default-config"], capture_output=True, text=True, timeout=60, check=False
    )
