"""`torpor checkpoint`: save a job into an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import limit, timeout
from torpor.errors import UsageError
from torpor.records import JobState

if TYPE_CHECKING:
    from torpor.store.deposit import PutResult


@click.command("checkpoint")
@click.argument("job", required=False)
@click.option("--pid", type=click.IntRange(min=1), help="Take this process, which Torpor did not start.")
@click.option("--name", help="With --pid: the name of the job as which it wakes.")
@click.option("--leave-running", is_flag=True, help="Let the job go on afterwards, or stay suspended.")
@click.option("--to", metavar="PATH", help="Folder that the image becomes.")
@click.option(
    "--tier",
    type=click.Choice(["disk", "dram"]),
    default="disk",
    show_default=True,
    help="dram is the memory of this host.",
)
@click.option("--store", metavar="STORE", help="Bring the image into this store (@ for TORPOR_STORE) instead.")
@timeout
@limit
@output.json_flag
def command(
    job: str | None,
    pid: int | None,
    name: str | None,
    leave_running: bool,
    to: str | None,
    tier: str,
    store: str | None,
    timeout: float,
) -> None:
    """Save a job into an image; the job ends unless --leave-running."""
    if (job is None) == (pid is None):
        raise UsageError("name a job, or a process with --pid")
    if name is not None and pid is None:
        raise UsageError("--name goes with --pid")
    if store is not None and to is not None:
        raise UsageError("--to and --store are two places; name one")
    if pid is not None:
        output.note("not started by Torpor: all its GPU memory goes through the driver, which is slower")
    with progress.shown(f"checkpoint {job or f'process {pid}'}") as report:

        def take(path: str | Path | None) -> api.Image:
            options: dict[str, Any] = {"to": path, "tier": tier, "deadline": timeout, "progress": report}
            if pid is not None:
                return api.checkpoint_process(pid, name=name, leave_running=leave_running, **options)
            return api.job(str(job)).checkpoint(leave_running=leave_running, **options)

        if store is not None:
            with api.open_store(store) as target:
                if job is not None:
                    result = target.checkpoint(
                        api.job(job), leave_running=leave_running, tier=tier, deadline=timeout, progress=report
                    )
                else:
                    from torpor.store_folders import checkpoint as by_way_of_a_folder

                    result = by_way_of_a_folder(take, name or f"process-{pid}", target, tier=tier, progress=report)
                facts = _in_store(target, result, report)
        else:
            image = take(to)
            facts = {**image.summary(), "image": image.name, "handle": image.name if image.is_listed else image.path}
            facts["phases"] = image.manifest.phases
    figures = progress.figures(report.elapsed, facts["gpu_bytes"], facts["cpu_bytes"], facts["phases"])
    job = job or str(facts["job"])
    ending = f"wake it with `torpor restore {facts['handle']}`"
    if leave_running:
        suspended = pid is None and api.job(job).state is JobState.SUSPENDED
        ending = f"the job stays suspended; `torpor resume {job}` wakes it" if suspended else "the job runs on"
    place = {key: facts[key] for key in ("path", "store", "id", "new", "stored", "sifted") if key in facts}
    told = f"\n  {facts['told']}" if "told" in facts else ""
    output.result(
        {"job": job, "image": facts["image"], **place, "leave_running": leave_running, **figures.data},
        f"{job} → {facts.get('path') or facts['handle']}\n  {figures.text}{told}\n  {ending}",
    )


def _in_store(store: api.Store, result: PutResult, report: progress.Report) -> dict[str, Any]:
    """What the image and the store say of a checkpoint."""
    from torpor.cli.copy import told
    from torpor.store_handle import describe_put

    summary = store.image(result.image.id).summary()
    return {
        **summary,
        **describe_put(result),
        "handle": f"{summary['name']}@{store.url}",
        "phases": report.phases,
        "told": f"{told(result)}\n  {_sifted(result)}",
    }


def _sifted(result: PutResult) -> str:
    """How the GPU's bytes got into the store, for people."""
    if result.sifted is None:
        return "by way of a folder"
    moved = f"{output.size(result.sifted['moved'])} left GPU memory"
    if result.sifted["by"] == "gpu":
        return f"hashed on the GPU; {moved}"
    because = result.sifted["because"]
    return f"hashed on the host{f', because {because}' if because else ''}; {moved}"
