"""What a checkpoint writes about the job: everything in the manifest that is not bytes."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Literal

from torpor import __version__
from torpor.image.manifest import DriverFacts, FileEntry, HostFacts, JobFacts, Manifest, ProcessEntry
from torpor.image.writer import ImageWriter
from torpor.keeper import elf
from torpor.keeper.host import Host
from torpor.keeper.jobs import OpenJob
from torpor.paths import JOB_DIR_IN_JOB
from torpor.process.criu import Criu

_OF_INTEREST = ("TORPOR_", "CUDA_")


def manifest(
    job: OpenJob,
    image: ImageWriter,
    processes: list[ProcessEntry],
    files: list[FileEntry],
    driver: DriverFacts,
    phases: dict[str, float],
    criu: Criu,
) -> Manifest:
    """The whole manifest; `driver` was found by `driver_facts` while the job still had the library mapped."""
    system = os.uname()
    return Manifest(
        name=image.path.name,
        created=now(),
        torpor=__version__,
        job=JobFacts(
            name=job.record.name,
            command=job.record.command,
            cwd=job.record.cwd,
            env=_environment(job),
            arena=job.record.arena,
            interposed=job.record.interposed,
        ),
        host=HostFacts(kernel=system.release, machine=system.machine, criu=criu.version),
        driver=driver,
        root=job.root,
        stdio=job.info.stdio,
        processes=processes,
        files=files,
        tier="dram" if image.tier == "dram" else "disk",
        gpu_bytes=sum(block.size for process in processes for block in process.blocks),
        cpu_bytes=sum(entry.size for entry in files if entry.path.startswith(("cpu/", "pinned/"))),
        phases=dict(phases),
    )


def now() -> str:
    """UTC as RFC 3339, so fine that images of one host are in the order of these."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def driver_facts(host: Host, job: OpenJob) -> DriverFacts:
    """Which driver library the job has mapped. Path and build id are None for a job that has not loaded one."""
    kind: Literal["nvidia", "sim"] = "sim" if host.backend == "sim" else "nvidia"
    own = str(_interposer(job))
    for process in job.cuda:
        for path in elf.mapped_files(process.host_pid, "libcuda.so"):
            if path == own:
                continue
            inside = Path(f"/proc/{process.host_pid}/root") / path.lstrip("/")
            return DriverFacts(
                kind=kind, version=process.hello.driver_version, path=path, build_id=elf.build_id(inside)
            )
    return DriverFacts(kind=kind, version=host.driver.version)


def _interposer(job: OpenJob) -> Path:
    return (JOB_DIR_IN_JOB if job.record.namespaces else job.folder) / "native" / "libcuda.so.1"


def _environment(job: OpenJob) -> dict[str, str]:
    return {name: value for name, value in job.record.env.items() if name.startswith(_OF_INTEREST)}
