"""What every checkpoint does once the job's GPU part is away: CRIU's files, what CRIU leaves out, the commit.

A flow that runs, and one of a suspended job, come here with the same things in hand; only what they did before, and do
afterwards, differs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from torpor import writeback
from torpor.errors import NoRights, StepFailed
from torpor.image.manifest import DriverFacts, FileEntry, Manifest, encode
from torpor.image.writer import ImageWriter
from torpor.keeper import depositing, describe, discard, newcomers, preflight
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.keeper.moves import Bytes, CopyOut, TakenOut
from torpor.keeper.pinned_out import PinnedOut
from torpor.keeper.report import Report
from torpor.keeper.rollback import Rollback, step
from torpor.keeper.taken import Taken
from torpor.process import other_users, own_terminal, pinned, sessions, shm, timers, traits
from torpor.process.client import Info
from torpor.process.criu import Criu, Dump, find_criu
from torpor.process.page_workers import PageWorkers
from torpor.process.zero_pages import ZeroPages
from torpor.records import Unfinished
from torpor.writeback import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import Deposit, PutResult

DUMP_SECONDS = 600.0
"""Longest wait for CRIU to write the process images."""


@dataclass
class Saving:
    """A job on its way into the image at `path`; with a `deposit`, into one of that `name` in a store, and `path` is
    where the files wait that are not the GPU's. `put` is what came of that. With a `target` the image is in memory, and
    has that way ahead of it from the commit on.
    """

    host: Host
    job: OpenJob
    path: Path
    criu: Criu
    driver: DriverFacts
    in_memory: bool
    leave_running: bool
    name: str
    deposit: Deposit | None = None
    target: Target | None = None
    put: PutResult | None = None

    @property
    def place(self) -> str:
        """The image as its user knows it."""
        return str(self.path) if self.deposit is None else f"{self.name}@{self.deposit.repository.url}"

    def copy_of(self, taken: Taken, image: ImageWriter) -> TakenOut:
        """The way of the job's blocks out."""
        if self.deposit is None:
            return CopyOut(self.host, taken, image.partial, in_memory=self.in_memory)
        from torpor.keeper.sift_out import SiftOut  # brings numpy

        return SiftOut(self.host, taken, self.deposit)

    def clear(self) -> None:
        """After the commit: remove what only waited for it."""
        if self.deposit is not None:
            depositing.clear(self.host, self.path)

    def make_image(self, undo: Rollback, report: Report) -> ImageWriter:
        """The partial image, and its removal on the stack."""
        with report.phase("image"), step("image"):
            image = ImageWriter(self.path, "dram" if self.in_memory and self.deposit is None else "disk")
        undo.push(
            "remove the image",
            lambda: discard.empty(self.host.pool, image.partial),
            leaves=f"the job stays as it was; {image.partial} stays until a keeper that starts can remove it",
        )
        return image

    def write(
        self, image: ImageWriter, data: Bytes, dump: Dump, workers: PageWorkers, undo: Rollback, report: Report
    ) -> Manifest:
        """Everything up to and with the commit. CRIU holds the job still when this returns, and waits for a verdict."""
        hashed, in_place = image.tier != "dram", self.deposit is not None
        out = PinnedOut(image.partial, hashed=hashed, in_place=in_place)
        try:
            return self._write(image, data, dump, out, workers, undo, report)
        finally:
            out.stop()

    def _write(
        self,
        image: ImageWriter,
        data: Bytes,
        dump: Dump,
        out: PinnedOut,
        workers: PageWorkers,
        undo: Rollback,
        report: Report,
    ) -> Manifest:
        job = self.job
        host_pids = {process.pid: process.host_pid for process in job.processes}
        with ZeroPages(image.cpu, workers, host_pids) as zero_pages:
            with report.phase("criu dump"), step("criu dump"):
                known = {file.key for file in pinned.find(process.host_pid for process in job.processes)}
                own_terminal.name(job.tree, {key for key in job.info.stdio.values() if key})
                lost = _name_again(job, undo)
                dump.start(
                    image.cpu,
                    leave_running=self.leave_running,
                    stdio=job.info.stdio,
                    foreign_session=job.record.adopted is not None,
                    external=known,
                    before=other_users.words_before_criu(job.tree, job.record.supervisor_pid or 0),
                )
                undo.push("criu", lambda: _roll_back(dump))
                zero_pages.begin()
                image.add_native(job.folder / "native")
                dump.wait_written(DUMP_SECONDS)
                now = newcomers.refuse(self.host, job)
                _complete(job, image, lost)
                files = pinned.find(process.pid for process in now.processes)
                out.start([file for file in files if file.key in known])
                image.note_written([job.root, *(process.pid for process in job.cuda)])
            with report.phase("drop zero pages"), step("drop zero pages"):
                zero_pages.finish()
                workers.dismiss()
        with report.phase("wait for copy"):
            data.finish()
        if out.size:
            with report.phase("wait for pinned memory"), step("copy pinned memory"):
                out.finish()

        # Everything of the job is written, and it stands still in CRIU's hands until the verdict.
        if self.deposit is None:
            entries = {**data.entries, **out.entries}
            manifest = self._into_folder(image, entries, data, undo, report)
        else:
            manifest = self._into_store(self.deposit, image, data, report)
        undo.done()
        return manifest

    def _into_folder(
        self, image: ImageWriter, entries: dict[str, FileEntry], data: Bytes, undo: Rollback, report: Report
    ) -> Manifest:
        job = self.job
        with report.phase("commit"), step("commit"):
            job.info = _settled(job)
            image.add_log(job.folder / "log")
            files = image.list_files(entries)
            image.sync()
            manifest = describe.manifest(job, image, data.describe(), files, self.driver, report.phases, self.criu)
            report.no_return()
            if self.target is not None:
                writeback.give(self.path, self.target, self.host.backend)
                undo.push("forget where it was to go", lambda: writeback.forget(self.path))
            image.commit(manifest)
        return manifest

    def _into_store(self, deposit: Deposit, image: ImageWriter, data: Bytes, report: Report) -> Manifest:
        from torpor.store.scan import Scan

        job = self.job
        with report.phase("store") as phase, step("store"):
            job.info = _settled(job)
            image.add_log(job.folder / "log")
            processes = data.describe()
            files = depositing.files_of(image, processes)
            manifest = describe.manifest(job, image, processes, files, self.driver, report.phases, self.criu)
            manifest.name = self.name
            scan = Scan(image.partial, manifest, deposit.repository.chunk, data.names)
            phase.total = scan.to_read()
            scan.run(deposit.threads, deposit.take, phase.move, batch=deposit.batch(scan.to_read()))
            deposit.flush()
        with report.phase("commit"), step("commit"):
            job.info = _settled(job)  # somebody may have sent it input meanwhile
            manifest.phases = dict(report.phases)
            sealed = deposit.seal(self.name, manifest, encode(manifest), scan, hashed=False)
            url, proof = deposit.repository.url, f"images/{sealed.image.id}"
            if Path(url).is_dir():
                proof = str(Path(url) / proof)
            unfinished = Unfinished(verb="checkpoint", image=str(self.path), stored=self.place, proof=proof)
            job.set_state(job.record.state, unfinished=unfinished)
            report.no_return()
            report.store_only(True)
            try:
                self.put = deposit.commit(sealed)
            finally:
                report.store_only(False)
        return manifest


def preflight_of(host: Host, job: OpenJob, path: Path, target: Target | None) -> tuple[Criu, Path]:
    """What every checkpoint asks before it touches anything: CRIU, and the nearest folder of the image that exists.

    NoRights, Refused, MissingPart, CriuMissing, UsageError; the space is the caller's to compare.
    """
    criu = find_criu()
    if not job.record.namespaces and job.record.adopted is None:
        raise NoRights(
            f"{job.record.name} runs without namespaces of its own, so it could not be restored",
            hint="start it as root, or with CAP_SYS_ADMIN",
        )
    if job.cuda:
        _ = host.checkpointing  # raises when this driver lacks the calls
    preflight.refuse_unsavable(job)
    preflight.refuse_host_kinds(job)
    preflight.refuse_unsent(job.info)
    if target is not None:
        preflight.check_target(path, target)
    return criu, preflight.check_place(path)


def outcome(saving: Saving, manifest: Manifest, data: Bytes, report: Report) -> dict[str, Any]:
    """What the verb answers."""
    facts: dict[str, Any] = {
        "image": saving.place,
        "job": saving.job.record.name,
        "tier": manifest.tier,
        "gpu_bytes": manifest.gpu_bytes,
        "cpu_bytes": manifest.cpu_bytes,
        "seconds": report.total(),
        "phases": report.phases,
    }
    if saving.put is not None:
        from torpor.keeper.sift_out import Sifting, SiftOut

        sifting = data.sifting if isinstance(data, SiftOut) else Sifting("host", "they were in host memory already")
        if saving.job.record.adopted is not None:
            sifting = Sifting("host", "all of the GPU's memory is the driver's to save")
        facts["put"] = {**saving.put._asdict(), "image": saving.put.image.id, "sifted": sifting.facts()}
    return facts


def _name_again(job: OpenJob, undo: Rollback) -> dict[str, str]:
    """Names in /dev/shm that are gone, made for the dump: CRIU finds the files by them."""
    lost = shm.lost_names(process.host_pid for process in job.processes)
    names = shm.made_for(lost)
    if names and job.record.unfinished is not None:
        job.set_state(job.record.state, unfinished=msgspec.structs.replace(job.record.unfinished, names=names))
    undo.push("remove names of shared memory", lambda: shm.take_away(shm.made_for_dump(lost)))
    shm.name_again(lost)
    return lost


def _complete(job: OpenJob, image: ImageWriter, lost: Collection[str]) -> None:
    """What CRIU leaves out, while all that it wrote is there and the job stands still."""
    if job.record.adopted is not None:
        sessions.lead(image.cpu, job.root)
    timers.keep_ticking(image.cpu)
    traits.save(job.tree, image.partial)
    shm.save(image.cpu, image.partial, lost)


def _roll_back(dump: Dump) -> None:
    dump.roll_back("an earlier step failed")
    dump.finish()


def _settled(job: OpenJob) -> Info:
    """How the job's streams stand, once the supervisor has brought all that the job wrote into its log."""
    with job.supervisor() as supervisor:
        info = supervisor.info()
    if info.criu is None:
        raise StepFailed(step="criu dump", reason="CRIU ended before it was told to, and no longer holds the job still")
    if job.record.adopted is not None:
        info = replace(info, stdio=job.info.stdio)  # the supervisor knows nothing of them
    preflight.refuse_unsent(info)
    return info
