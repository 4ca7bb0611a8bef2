"""Looking at the counts of a running job, for `torpor profile`: a moment on each control socket, never in a flow's way.

Only the keeper may open control sockets: a connection that is open while CRIU dumps a process would spoil the image.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from torpor import paths
from torpor.errors import TorporError, WrongState
from torpor.keeper import jobs
from torpor.keeper.control import ControlClient, Level, sockets_in
from torpor.keeper.host import Host
from torpor.keeper.messages import ProfileParams
from torpor.process import tree
from torpor.records import LIVE_STATES, JobRecord, JobState

_PATIENCE_SECONDS = 5.0
"""How long a process may take to hear that its counting has ended."""


def look(host: Host, params: ProfileParams) -> dict[str, Any]:
    """What each process that uses the driver has counted, and who did not answer.

    With a flow under way, or a job that does not run, nobody is asked; what is to end then is ended by `end_missed`.
    WrongState for a job that cannot be counted.
    """
    with host.flows.glance(params.job) as verb:
        record, state = jobs.load(host, params.job)
        if not record.interposed:
            raise WrongState(
                f"{params.job} was not started by torpor: its calls cannot be counted",
                hint="start it with `torpor run` or `torpor profile`",
            )
        may_wake = state in LIVE_STATES or state is JobState.ASLEEP
        if params.level == 0 and may_wake and (verb is not None or state is not JobState.RUNNING):
            host.profiles_to_end[params.job] = params.owner
        if state not in LIVE_STATES:
            raise WrongState(f"{params.job} is {state}", hint="`torpor ps` says what became of it")
        processes: list[dict[str, Any]] = []
        silent: dict[str, str] = {}
        folder = paths.control_dir(params.job)
        asked = verb is None and state is JobState.RUNNING
        for pid in sockets_in(folder) if asked else ():
            try:
                with ControlClient(folder, pid, params.patience, is_it=partial(_is_of, record, pid)) as control:
                    counted = control.profile(Level(params.level), params.lease, params.owner)
                processes.append(msgspec.to_builtins(counted))
            except TorporError as error:
                if not isinstance(error.__cause__, ConnectionRefusedError | FileNotFoundError):  # it has just ended
                    silent[str(pid)] = error.message
    return {"state": str(state), "busy": verb, "processes": processes, "silent": silent}


def _is_of(record: JobRecord, pid: int, host_pid: int) -> bool:
    """Whether a process of the host is the one that the job knows as `pid`."""
    assert record.supervisor_pid is not None
    return tree.is_inside(record.supervisor_pid, pid, host_pid)


def wakes(host: Host, job: str, name: str) -> None:
    """A job has woken by this name, from an image of `job`: what is to end there is to end with it."""
    owner = host.profiles_to_end.get(job)
    if owner is not None:
        host.profiles_to_end[name] = owner


def end_missed(host: Host) -> None:
    """After a flow: end the counting whose end fell into one. Where that fails its lease ends it."""
    for job in list(host.profiles_to_end):
        owner = host.profiles_to_end.pop(job, None)
        if owner is None:
            continue  # another flow's end was faster
        params = ProfileParams(job=job, level=0, lease=0.0, owner=owner, patience=_PATIENCE_SECONDS)
        with suppress(TorporError):
            look(host, params)
