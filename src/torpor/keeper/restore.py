"""Restore, in order (DESIGN.md): an image into a running job. The image is only read."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from torpor import __version__, paths, records
from torpor.errors import Cancelled, ImageMismatch, TorporError, UsageError
from torpor.image import Manifest
from torpor.keeper import counting, elf, gpu_map, jobs, preflight, residual, sources
from torpor.keeper.host import Host
from torpor.keeper.messages import RestoreParams
from torpor.keeper.moves import CopyIn
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.taken import to_return
from torpor.process import criu, shm, traits, tree
from torpor.process.client import SupervisorClient
from torpor.records import JobRecord, JobState, Unfinished

log = logging.getLogger(__name__)

ASIDE = ".asleep-"
"""In the name of a sleeping job's folder that has made room for its restore."""

_EXIT_SECONDS = 5.0
"""How long a supervisor may take to write down how its job ended, and what is left of the job to end too."""


def run(host: Host, params: RestoreParams, report: Report) -> dict[str, Any]:
    """Any failure leaves no process, no job folder, and the image as it was."""
    place = params.image if params.store is None else f"{params.image}@{params.store}"
    with host.flows.begin("restore", reads=place) as reading, ExitStack() as stack:
        report.store_only(params.store is not None)
        with report.phase("preflight"):
            source = stack.enter_context(sources.opened(params))
            manifest, image = source.manifest, source.path
            chosen_criu = criu.find_criu()
            preflight.check_rights()
            gpu_map.check_driver(host.driver, host.backend, manifest.driver)
            _check_library(manifest)
            moved = gpu_map.choose(host.driver, manifest, params.gpu_map)
            copy = CopyIn(host, source.filler(host), manifest.processes, moved)
            gpu_map.check_memory(host.driver, host.backend, copy.bytes_by_gpu())
            source.check()
        with closing(copy), Rollback() as undo:
            copy.start(report)
            source.prepare(report)
            with step("verify"):
                preflight.check_addresses(image)
                preflight.check_descriptors(image)
                preflight.check_capabilities(image)
            if source.checked_before:
                # Nothing of the job may start before every hash is known to be right.
                with report.phase("wait for hashes"):
                    copy.finish()

            report.store_only(False)
            record, aside = _claim(manifest, params, image, undo)
            with host.flows.begin("restore", record.name):
                with report.phase("criu restore"), step("criu restore"):
                    _furnish(image, record)
                    made = shm.put_back(image)
                    undo.push("remove the job's shared memory", lambda: shm.take_away(made))
                    restored = criu.restore(
                        image / "cpu", paths.job_dir(record.name), manifest.root, manifest.stdio, criu=chosen_criu
                    )
                    record.supervisor_pid = restored.supervisor
                    record.supervisor_start = records.process_start(restored.supervisor)
                    undo.push("end the new job", lambda: _end(record))
                    records.save(record)
                    shm.tidy(image)
                ended = None
                try:
                    with report.phase("find processes"), step("find processes"):
                        job = jobs.open_away(record, manifest.processes)
                        traits.put_back(job.tree, image)
                    residual.bring_back(host, job.cuda, _changed(moved), report)
                    with report.phase("wait for copy"):
                        copy.finish()
                    report.no_return()
                    with report.phase("hand in"), step("hand in"):
                        taken = to_return(job, manifest.processes, copy.export())
                    with closing(taken):
                        taken.give_back(report)
                except TorporError as error:
                    ended = _ended_well(record, error)
                reading.ends()
                host.flows.settle(record, JobState.RUNNING)
                undo.done()
                counting.wakes(host, manifest.job.name, record.name)
            if aside is not None:
                shutil.rmtree(aside, ignore_errors=True)
        return {
            "job": record.name,
            "image": params.source or str(image),
            "gpu_bytes": manifest.gpu_bytes,
            "cpu_bytes": manifest.cpu_bytes,
            "seconds": report.total(),
            "phases": report.phases,
            "ended": ended is not None,
        }


def _ended_well(record: JobRecord, error: TorporError) -> records.ExitRecord:
    """How the job ended that came back and, before all its memory had, came to its own end without an error.

    It is as if that had been a moment later. What ended otherwise, or has not ended, is `error`; so is one of which a
    process lives on: it may be among those that lack their memory.
    """
    ended = None if isinstance(error, Cancelled) else _ended_by_itself(record)
    if ended is None:
        raise error
    left = _left_behind(record) if ended.exit_code == 0 else None
    if ended.exit_code != 0 or left is not None:
        how = f"ended by itself with exit code {ended.exit_code}"
        if left is not None:
            how += f", but not its process {left.inner} ({left.comm})"
        if ended.signal is not None:
            how = f"was killed by {signal.Signals(ended.signal).name}"
        error.message += f"; the job came back and {how}"
        error.hint = "the image is as it was: restore it again"
        error.args = (error.message,)
        error.details["exit_code"], error.details["signal"] = ended.exit_code, ended.signal
        raise error
    log.info("%s ended with exit code 0 while it was woken: %s", record.name, error.message)
    return ended


def _ended_by_itself(record: JobRecord) -> records.ExitRecord | None:
    """How the job's root process has ended; None while it lives."""
    assert record.supervisor_pid is not None
    assert record.root is not None
    limit = time.monotonic() + _EXIT_SECONDS
    while (ended := records.load_exit(record.name)) is None and time.monotonic() < limit:
        with suppress(TorporError), SupervisorClient(paths.job_dir(record.name)) as supervisor:
            # It may not have heard of the root's end yet.
            if supervisor.info().state == "running" and tree.read(record.supervisor_pid, record.root).root is not None:
                return None
        time.sleep(0.02)
    return ended


def _left_behind(record: JobRecord) -> tree.Process | None:
    """A process of the job that stays though the root has ended."""
    assert record.supervisor_pid is not None
    assert record.root is not None
    limit = time.monotonic() + _EXIT_SECONDS
    while True:
        found = tree.read(record.supervisor_pid, record.root)
        living = [*found.processes, *found.strays]
        if not living:
            return None
        if time.monotonic() > limit:
            return living[0]
        time.sleep(0.02)


def _end(record: JobRecord) -> None:
    """End the job, and wait until its supervisor, which may be at its own end, leaves the folder alone."""
    jobs.end(record)
    limit = time.monotonic() + _EXIT_SECONDS
    while records.supervisor_alive(record) and time.monotonic() < limit:
        time.sleep(0.02)


def _check_library(manifest: Manifest) -> None:
    """A job has the vendor's library mapped: the very same build must be at the same place."""
    facts = manifest.driver
    if facts.kind != "nvidia" or facts.path is None or facts.build_id is None:
        return
    found = elf.build_id(Path(facts.path))
    if found != facts.build_id:
        what = "is missing" if found is None else "is another build"
        raise ImageMismatch(
            f"the driver library {facts.path}, which the job has mapped, {what} on this host",
            hint="restore on a host with the same driver",
            details={"path": facts.path, "image": facts.build_id, "here": found},
        )


def _claim(manifest: Manifest, params: RestoreParams, image: Path, undo: Rollback) -> tuple[JobRecord, Path | None]:
    """A folder for the woken job: under its own name where that is free or still belongs to the sleeping job.

    Also returns where the sleeping job's folder went, if it had to make room.
    """
    wanted = params.name or manifest.job.name
    name: str | None = records.check_name(wanted)
    aside = None
    if paths.job_dir(wanted).exists():
        if _sleeps_in(wanted, params.source or str(image)):
            aside = _move_aside(wanted, undo)
        elif params.name is not None:
            raise UsageError(f"a job named {wanted!r} exists", hint=f"choose another --name, or `torpor rm {wanted}`")
        else:
            name = None
    try:
        claimed = records.claim(name, [manifest.job.name])
    except UsageError:
        if params.name is not None:
            raise
        claimed = records.claim(None, [manifest.job.name])  # another restore was faster
    undo.push("remove the new job's folder", lambda: shutil.rmtree(paths.job_dir(claimed)))
    record = JobRecord(
        name=claimed,
        command=manifest.job.command,
        cwd=manifest.job.cwd,
        backend="sim" if manifest.driver.kind == "sim" else "gpu",
        env=manifest.job.env,
        arena=manifest.job.arena,
        interposed=manifest.job.interposed,
        root=manifest.root,
        image=params.source or str(image),
        unfinished=Unfinished(verb="restore", image=str(image), aside=str(aside) if aside else None),
        version=__version__,
    )
    records.save(record)
    return record, aside


def _sleeps_in(name: str, image: str) -> bool:
    try:
        record = records.load(name)
    except TorporError:  # no job's folder, so the name is somebody else's
        return False
    return records.state(record) is JobState.ASLEEP and record.image == image


def _move_aside(name: str, undo: Rollback) -> Path:
    """The sleeping job's record gives way to the woken one, and comes back if that fails."""
    folder = paths.job_dir(name)
    aside = folder.with_name(f".{name}{ASIDE}{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    undo.push("bring the sleeping job's record back", lambda: aside.rename(folder))
    return aside


def _furnish(image: Path, record: JobRecord) -> None:
    folder = paths.job_dir(record.name)
    native = paths.job_native(record.name)
    if (image / "native").is_dir():
        shutil.copytree(image / "native", native)
    for library in native.rglob("*.so*"):
        library.chmod(0o755)  # as at the job's start; CRIU compares, and an image may have been copied about
    shutil.copyfile(image / "log", folder / "log")
    (folder / "log").chmod(0o600)
    native.mkdir(exist_ok=True)  # a job without our library has none
    paths.let_in(record.name)


def _changed(moved: dict[str, str]) -> dict[str, str] | None:
    """The driver wants every pair once any GPU changes, and none when all stay."""
    return moved if any(old != new for old, new in moved.items()) else None
