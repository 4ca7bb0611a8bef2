"""The fault matrix as data: which fault meets which step of which flow, and what must be there afterwards.

A step is a phase of a flow (docs/design/checkpoint-order.md); a fault that is armed at it strikes when it begins, and
at `<step>:end` when all of it is done.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Literal

Flow = Literal[
    "checkpoint disk", "checkpoint dram", "leave running", "suspend hbm", "suspend dram", "resume hbm", "resume dram",
    "restore disk", "restore dram", "from hbm", "from dram", "from dram stays",
    "store", "store stays", "from hbm to store", "restore store", "through memory to store",
]  # fmt: skip
Outcome = Literal["runs on", "suspended", "restores", "asleep"]
Agent = Literal[
    "keeper", "job", "cli", "interrupt", "driver of the keeper", "driver of the job", "second process",
    "criu", "file system", "writer", "keeper of the writer",
]  # fmt: skip

TAKE = ("freeze", "export", "hold", "release")
GIVE = ("driver restore", "driver unlock", "return", "thaw")

STEPS: dict[Flow, tuple[str, ...]] = {
    "checkpoint disk": (
        "preflight", *TAKE, "image", "import", "copy", "driver lock", "driver checkpoint", "criu dump",
        "drop zero pages", "wait for copy", "commit", "criu end", "criu end:end",
    ),
    "checkpoint dram": (
        "preflight", *TAKE, "image", "copy", "driver lock", "driver checkpoint", "criu dump", "commit", "criu end",
        "criu end:end",
    ),
    "leave running": (
        "preflight", *TAKE, "image", "import", "copy", "driver lock", "driver checkpoint", "criu dump",
        "drop zero pages", "wait for copy", "commit", "criu end", *GIVE, "thaw:end",
    ),
    "suspend hbm": (
        "preflight", *TAKE, "driver lock", "driver checkpoint", "driver checkpoint:end", "save the layout",
    ),
    "suspend dram": (
        "preflight", *TAKE, "import", "copy", "driver lock", "driver checkpoint", "wait for copy", "save the layout",
        "drop", "drop:end",
    ),
    "resume hbm": ("find processes", *GIVE, "thaw:end"),
    "resume dram": ("find processes", "create blocks", "copy", "wait for copy", *GIVE, "thaw:end"),
    "restore disk": (
        "preflight", "create blocks", "copy", "verify", "wait for hashes", "criu restore", "criu restore:end",
        "find processes", "driver restore", "driver unlock", "wait for copy", "hand in", "return", "thaw", "thaw:end",
    ),
    "restore dram": (
        "preflight", "create blocks", "copy", "criu restore", "criu restore:end", "driver restore", "driver unlock",
        "hand in", "return", "thaw", "thaw:end",
    ),
    "store": (
        "open store", "preflight", *TAKE, "image", "import", "sift", "driver lock", "driver checkpoint", "criu dump",
        "drop zero pages", "wait for copy", "store", "store:end", "commit", "criu end", "criu end:end",
    ),
    "store stays": (
        "open store", "preflight", *TAKE, "image", "import", "sift", "driver checkpoint", "criu dump", "wait for copy",
        "store", "commit", "criu end", *GIVE, "thaw:end",
    ),
    "restore store": (
        "preflight", "create blocks", "copy", "fetch", "wait for hashes", "criu restore", "driver restore",
        "wait for copy", "hand in", "return", "thaw:end",
    ),
    # Images of suspended jobs: to a disk, to memory, and to a disk with the job as suspended as before.
    "from hbm": (
        "preflight", "image", "fetch", "import", "copy", "criu dump", "drop zero pages", "wait for copy", "commit",
        "criu end", "criu end:end",
    ),
    "from hbm to store": (
        "open store", "preflight", "image", "fetch", "import", "sift", "criu dump", "store", "commit", "criu end",
        "criu end:end",
    ),
    "from dram": (
        "preflight", "image", "copy", "criu dump", "wait for copy", "commit", "criu end", "criu end:end",
    ),
    "from dram stays": (
        "preflight", "image", "copy", "criu dump", "drop zero pages", "wait for copy", "commit", "criu end",
        "criu end:end",
    ),
}  # fmt: skip

AFTER_COMMIT = ("criu end", "criu end:end", *GIVE, "thaw:end")


WRITING = (
    "image", "copy", "sift", "store", "criu dump", "drop zero pages", "commit", "save the layout", "preflight",
    "criu restore", "fetch",
)  # fmt: skip
"""Steps that write files, so that these can have no room or be read-only."""


@dataclass(frozen=True)
class Row:
    """One fault. `outcomes` are those that are right; `failing` says that the verb must report a failure.

    `text` is the fault in the words of its agent: `TORPOR_FAULT`, `TORPOR_SIM_FAULT`, or a mode of criu.py. `named`
    is the step that the error must name, where it names one; `again` the same fault in rolling back.
    """

    flow: Flow
    step: str
    agent: Agent
    fault: str
    text: str
    outcomes: tuple[Outcome, ...]
    failing: bool = True
    named: str | None = None
    fast: bool = False

    @property
    def name(self) -> str:
        return f"{self.flow}: {self.step}: {self.agent}: {self.fault}"


def _safe(flow: Flow) -> tuple[Outcome, ...]:
    """Where a job may stand when this flow has failed."""
    if flow.startswith("resume"):
        return ("suspended", "runs on")
    if flow.startswith("from"):
        return ("suspended",)
    return ("restores",) if flow.startswith("restore") else ("runs on",)


def _reached(flow: Flow, step: str) -> str:
    """The step in `TORPOR_FAULT`'s words: what follows a suspend comes after that flow's own steps."""
    bare, colon, end = step.partition(":")
    second = flow.startswith(("resume", "from dram")) and bare in ("copy", "wait for copy", "import")
    second |= flow.startswith("from") and bare == "preflight"
    return f"{bare}{colon}{end}@{2 if second else 1}"


def keeper_rows() -> list[Row]:
    """The keeper fails at a step, is killed at it, or is told to stop there."""
    rows = []
    for flow, steps in STEPS.items():
        for step in steps:
            at = _reached(flow, step)
            for number in (errno.EIO, errno.ENOSPC, errno.EROFS) if step in WRITING else (errno.EIO,):
                rows.append(
                    Row(
                        flow, step, "keeper", errno.errorcode[number], f"{at}=fail:{number}", _after_error(flow, step),
                        named=step.partition(":")[0],
                        fast=number == errno.EIO and (
                            (flow == "leave running" and steps.index(step) % 3 == 0)
                            or (flow == "from dram" and step in ("criu dump", "criu end:end"))
                        ),
                    )
                )  # fmt: skip
            rows.append(
                Row(
                    flow, step, "keeper", "SIGKILL", f"{at}=kill", _after_kill(flow, step),
                    fast=_sixth(flow, step, ("leave running", "resume dram", "restore dram", "from hbm"))
                    or (flow == "store" and step in ("store:end", "criu end:end"))
                    or (flow == "restore store" and step == "wait for hashes"),
                )
            )  # fmt: skip
    return rows


def _ends_job(flow: Flow) -> bool:
    """Whether the job is to end in an image."""
    return flow.startswith("checkpoint") or flow in ("from hbm", "from dram", "from hbm to store", "store")


def _after_error(flow: Flow, step: str) -> tuple[Outcome, ...]:
    if _ends_job(flow) and step == "criu end:end":
        return ("asleep",)
    if flow == "suspend dram" and step in ("drop", "drop:end"):
        return ("suspended",)
    return _safe(flow)


def _after_kill(flow: Flow, step: str) -> tuple[Outcome, ...]:
    """A keeper that is killed is followed by one that ends what was begun, or finds that it had ended."""
    if _ends_job(flow) and step == "criu end:end":
        return ("asleep",)
    if flow.startswith("suspend") and step in ("drop", "drop:end"):
        return ("suspended",)
    if flow.startswith("resume"):
        return ("runs on",)
    if flow.startswith("restore") and step in ("thaw", "thaw:end"):
        return ("restores", "runs on")  # a gate opens by itself when its keeper goes
    return _safe(flow)


def _sixth(flow: Flow, step: str, flows: tuple[str, ...]) -> bool:
    """Every sixth step of these flows, for the fast part."""
    return flow in flows and STEPS[flow].index(step) % 6 == 1


FAST_KILLS = ("leave running: release", "leave running: criu dump", "suspend dram: drop", "resume dram: return")


def process_rows() -> list[Row]:
    """The job, the command line, or the user's patience ends while a flow stands at a step."""
    rows = []
    for flow, steps in STEPS.items():
        for step in steps:
            hang = f"{_reached(flow, step)}=hang:GATE"
            late = (step in AFTER_COMMIT and not flow.startswith("restore")) or step in ("drop", "drop:end", "hand in")
            done: dict[str, tuple[Outcome, ...]] = {
                "checkpoint": ("asleep",), "leave": ("runs on",), "suspend": ("suspended",), "resume": ("runs on",),
                "restore": ("runs on",), "from": ("asleep",) if _ends_job(flow) else ("suspended",),
                "store": ("asleep",) if _ends_job(flow) else ("runs on",),
            }  # fmt: skip
            success = done[flow.split()[0]]
            if steps.index(step) % 4 == 2:
                rows.append(Row(flow, step, "cli", "SIGKILL", hang, success, failing=False))
            if not late and not step.startswith(("thaw", "return")) and steps.index(step) % 2:
                rows.append(
                    Row(
                        flow, step, "interrupt", "Ctrl-C", hang, (*_safe(flow), *success), failing=False,
                        fast=flow == "checkpoint disk" and step == "release",
                    )
                )  # fmt: skip
            if not flow.startswith("restore") and ":" not in step and flow not in ("checkpoint dram", "suspend hbm"):
                rows.append(
                    Row(
                        flow, step, "job", "SIGKILL", hang, ("restores", "asleep"),
                        failing=flow.startswith(("suspend", "resume")) and not step.startswith("thaw"),
                        fast=f"{flow}: {step}" in FAST_KILLS,
                    )
                )  # fmt: skip
    return rows


STATUSES = (2, 46, 719, 999)
"""Out of memory, device unavailable, launch failed, unknown: what a driver answers when something is wrong that no
argument of ours explains."""

_OUT = (("cuMemImportFromShareableHandle", "copy"), ("cuMemMap", "copy"), ("cuMemSetAccess", "copy"),
        ("cuMemcpyDtoHAsync", "copy"), ("cuMemHostRegister", "copy"),
        ("cuCheckpointProcessLock", "driver lock"), ("cuCheckpointProcessCheckpoint", "driver checkpoint"))  # fmt: skip
_IN = (("cuMemCreate", "create blocks"), ("cuMemMap", "create blocks"), ("cuMemcpyHtoDAsync", "copy"),
       ("cuCheckpointProcessRestore", "driver restore"), ("cuCheckpointProcessUnlock", "driver unlock"),
       ("cuMemExportToShareableHandle", "hand in"))  # fmt: skip


def driver_rows() -> list[Row]:
    """A driver call fails in the keeper, or the driver's part in the job does; once, or from now on for good."""
    rows = []
    for calls, flow, statuses in (
        (_OUT, "leave running", STATUSES),
        (_OUT, "suspend dram", (719,)),
        (_IN, "restore dram", STATUSES),
        (_IN, "restore disk", (2,)),
    ):
        for call, step in calls:
            if flow == "suspend dram" and call == "cuMemHostRegister":
                continue  # the pool has what it needs by then
            for status in statuses:
                rows.append(
                    Row(
                        flow, step, "driver of the keeper", f"{call} = {status}", f"{call}@1=fail:{status}",
                        _safe(flow),  # type: ignore[arg-type]
                        fast=status == 999 and call in ("cuMemMap", "cuMemExportToShareableHandle"),
                    )
                )  # fmt: skip
    for step, call, failing in (
        ("import", "cuMemMap@1", True), ("sift", "cuMemcpyDtoHAsync@1+", True), ("sift", "cuLaunchKernel@1", False),
    ):  # fmt: skip
        # A GPU that cannot hash is no failure: the host does it.
        rows.append(
            Row(
                "store stays", step, "driver of the keeper", f"{call} = 719", f"{call}=fail:719", ("runs on",),
                failing=failing, fast=call == "cuMemcpyDtoHAsync@1+",
            )
        )  # fmt: skip
    for flow in ("leave running", "suspend hbm"):
        for step in ("lock", "checkpoint"):
            for status in STATUSES:
                rows.append(
                    Row(
                        flow, f"driver {step}", "driver of the job", f"{step} = {status}",
                        f"target:{step}@1=fail:{status}", ("runs on",), named=f"driver {step}",
                    )
                )  # fmt: skip
    for flow in ("leave running", "suspend dram"):
        rows.append(
            Row(
                flow, "driver checkpoint", "driver of the job", "the GPU falls off",
                "target:checkpoint@1+=fail:719;target:restore@1+=fail:719;target:unlock@1+=fail:719",
                ("restores",), fast=True,
            )
        )  # fmt: skip
        rows.append(
            Row(flow, "driver lock", "driver of the job", "the GPU falls off", "target:lock@1+=fail:719", ("runs on",))
        )
        rows.append(Row(flow, "driver checkpoint", "driver of the job", "SIGKILL", "target:checkpoint@1=kill",
                        ("restores",)))  # fmt: skip
    return rows


def criu_rows() -> list[Row]:
    """CRIU ends with a bad status, or is killed: at once, after some milliseconds, or when all is written."""
    rows = []
    for flow in ("leave running", "checkpoint disk", "from dram stays"):
        for mode in ("exit 1", *(f"kill {ms}" for ms in (0, 5, 10, 15, 20, 25, 30, 40, 60)), "kill written"):
            sure = mode in ("exit 1", "kill 0", "kill written")
            rows.append(
                Row(
                    flow, "criu dump", "criu", mode, mode,
                    _safe(flow) if sure else (*_safe(flow), "restores", "asleep"),
                    failing=sure,
                    fast=flow == "leave running" and mode in ("exit 1", "kill 20", "kill written"),
                )
            )  # fmt: skip
    for mode in ("exit 1", "kill 0", "kill 10", "kill 30", "kill 60"):
        rows.append(
            Row(
                "restore disk", "criu restore", "criu", mode, mode, ("restores", "runs on"),
                failing=mode in ("exit 1", "kill 0"), fast=mode == "kill 10",
            )
        )  # fmt: skip
    return rows


def disk_rows() -> list[Row]:
    """Storage that fills up, is limited, or becomes read-only while the flow stands at a step."""
    rows = [
        Row("leave running", "copy", "file system", "no inodes", "size=600m,nr_inodes=14", ("runs on",), fast=True),
        Row("leave running", "preflight", "file system", "no bytes", "size=8m", ("runs on",)),
        Row("leave running", "copy", "file system", "RLIMIT_FSIZE", "fsize=1048576", ("runs on",), fast=True),
    ]
    rows.append(Row("store stays", "store", "file system", "no bytes", "size=2m", ("runs on",)))
    rows.append(Row("store stays", "store", "file system", "read-only", "store@1=hang:GATE", ("runs on",)))
    for step in ("image", "driver lock", "criu dump", "commit"):
        rows.append(
            Row(
                "leave running", step, "file system", "read-only", f"{step}@1=hang:GATE", ("runs on",),
                fast=step == "commit",
            )
        )  # fmt: skip
    return rows


SECOND: tuple[tuple[Flow, str, str, tuple[Outcome, ...]], ...] = (
    ("leave running", "freeze", "cuCtxSynchronize@1", ("runs on",)),
    ("leave running", "export", "cuMemExportToShareableHandle@2", ("runs on",)),
    ("leave running", "release", "cuMemUnmap@2", ("runs on",)),
    ("leave running", "driver lock", "target:lock@1", ("runs on",)),
    ("leave running", "driver checkpoint", "target:checkpoint@1", ("runs on",)),
    ("leave running", "driver restore", "target:restore@1", ("runs on", "suspended", "restores")),
    ("leave running", "driver unlock", "target:unlock@1", ("runs on", "suspended")),
    ("leave running", "return", "cuMemImportFromShareableHandle@1", ("runs on", "suspended")),
    ("suspend dram", "driver checkpoint", "target:checkpoint@1", ("runs on",)),
    ("resume hbm", "driver restore", "target:restore@1", ("runs on", "suspended", "restores")),
    ("resume dram", "return", "cuMemImportFromShareableHandle@1", ("runs on", "suspended")),
)  # fmt: skip
"""Flow, step, where the second of two CUDA processes fails, and where the job may stand when its driver did."""


def second_rows() -> list[Row]:
    """A driver call of the second of two CUDA processes fails, or it dies in it, or does not come back from it."""
    rows = []
    for flow, step, call, outcomes in SECOND:
        target = call.startswith("target:")
        rows.append(
            Row(
                flow, step, "second process", f"{call.partition('@')[0]} = 999", f"{call}=fail:999", outcomes,
                named=step, fast=step == "driver checkpoint" and flow == "leave running",
            )
        )  # fmt: skip
        # The first counts on alone. One that dies while its memory is handed in is not missed by the verb.
        rows.append(
            Row(
                flow, step, "second process", f"SIGKILL in {call.partition('@')[0]}", f"{call}=kill",
                ("runs on", *_safe(flow)), failing=step != "return", fast=step == "release",
            )
        )  # fmt: skip
        if target:
            rows.append(
                Row(
                    flow, step, "second process", f"hangs in {call.partition('@')[0]}", f"{call}=hang:GATE",
                    ("runs on", "suspended"), failing=False,
                )
            )  # fmt: skip
    for flow in ("resume hbm", "resume dram"):
        rows.append(
            Row(
                flow, "find processes", "second process", "SIGKILL while it is suspended", KILLED, ("runs on",),
                failing=False, fast=flow == "resume dram",
            )
        )  # fmt: skip
    return rows


KILLED = ""
"""The text of a fault that is no driver's: the second process is killed from outside."""
