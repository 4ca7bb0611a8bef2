"""`torpor checkpoint`: save a job into an image."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from torpor import api, paths
from torpor.cli import interrupt, output, progress
from torpor.cli.options import Whole, limit, timeout
from torpor.errors import NoSpace, UsageError
from torpor.job_handle import Job, adopted
from torpor.records import JobState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import PutResult

Opened = Callable[[], AbstractContextManager[Job]]
"""Gives the job for as long as it is at a checkpoint."""


@click.command("checkpoint")
@click.argument("job", required=False)
@click.option("--pid", type=Whole(min=1), help="Take this process, which Torpor did not start.")
@click.option("--name", help="With --pid: the name of the job as which it wakes.")
@click.option("--leave-running", is_flag=True, help="Let the job go on afterwards, or stay suspended.")
@click.option("--to", metavar="PATH", help="Folder that the image becomes.")
@click.option(
    "--tier",
    type=click.Choice(["disk", "dram"]),
    default="disk",
    show_default=True,
    help="Where the image is first. disk: where it is durable. dram: in the memory of this host, from where the keeper "
    "writes it to the --store or PATH afterwards.",
)
@click.option("--store", metavar="STORE", help="Bring the image into this store (@ for TORPOR_STORE) instead.")
@click.option("--durable", is_flag=True, help="With --tier dram: wait until the keeper has written it.")
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
    durable: bool,
    timeout: float,
) -> None:
    """Save a job into an image; the job ends unless --leave-running.

    The image is durable when this returns, in the folder or the store. With --tier dram it is whole in memory then, can
    be restored, and would end with this host; with a --store or PATH it becomes durable afterwards: --durable waits.
    """
    if (job is None) == (pid is None):
        raise UsageError("name a job, or a process with --pid")
    if name is not None and pid is None:
        raise UsageError("--name goes with --pid")
    if store is not None and to is not None:
        raise UsageError("--to and --store are two places; name one")
    through_memory = tier == "dram" and (store is not None or (to is not None and not _in_dram(to)))
    if durable and not through_memory and (tier == "dram" or (to is not None and _in_dram(to))) and store is None:
        raise UsageError("an image in memory alone is not durable", hint="say where it is to go, with --store or --to")
    if pid is not None:
        output.note("not started by Torpor: all its GPU memory goes through the driver, which is slower")
    with progress.shown(f"checkpoint {job or f'process {pid}'}") as report:

        def opened() -> AbstractContextManager[Job]:
            if pid is not None:
                return adopted(pid, name, leave_running=leave_running)
            return nullcontext(api.job(str(job)))

        options: dict[str, Any] = {"leave_running": leave_running, "deadline": timeout, "progress": report}
        if store is not None:
            with api.open_store(store) as place:
                facts = _into_store(place, opened, options, through_memory, durable, report)
        else:
            facts = _into_folder(opened, options, to, tier, durable and through_memory, report)
    figures = progress.figures(report.elapsed, facts["gpu_bytes"], facts["cpu_bytes"], facts["phases"])
    job = job or str(facts["job"])
    ending = f"wake it with `torpor restore {facts['handle']}`"
    if leave_running:
        suspended = pid is None and api.job(job).state is JobState.SUSPENDED
        ending = f"the job stays suspended; `torpor resume {job}` wakes it" if suspended else "the job runs on"
    places = ("path", "store", "id", "new", "stored", "sifted", "durable", "writing")
    where = {key: facts[key] for key in places if key in facts}
    told = f"\n  {facts['told']}" if "told" in facts else ""
    output.result(
        {"job": job, "image": facts["image"], **where, "leave_running": leave_running, **figures.data},
        f"{job} → {facts.get('path') or facts['handle']}\n  {figures.text}{told}\n  {ending}",
    )


def _in_dram(path: str) -> bool:
    return paths.in_dram(Path(path).absolute())


def _into_folder(
    opened: Opened, options: dict[str, Any], to: str | None, tier: str, wait: bool, report: progress.Report
) -> dict[str, Any]:
    try:
        with opened() as job:
            image = job.checkpoint(to=to, tier=tier, **options)
    except NoSpace as error:
        if tier != "dram" or to is None or _in_dram(to):
            raise
        _note_no_room(error, to)
        with opened() as job:
            image = job.checkpoint(to=to, tier="disk", **options)
    if wait:
        image = api.open_image(_waited_for(image, report).place)
    return _of_image(image)


def _into_store(
    store: api.Store,
    opened: Opened,
    options: dict[str, Any],
    through_memory: bool,
    durable: bool,
    report: progress.Report,
) -> dict[str, Any]:
    if through_memory:
        try:
            with opened() as job:
                image = store.begin_checkpoint(job, **options)
        except NoSpace as error:
            _note_no_room(error, store.url)
        else:
            if not durable:
                return _of_image(image)
            _waited_for(image, report)
            return _in_store(store, store.flush(image), report)
    with opened() as job:
        result = store.checkpoint(job, **options)
    return _in_store(store, result, report)


def _note_no_room(error: NoSpace, place: str) -> None:
    interrupt.heed()
    output.note(f"{error.message}; so it goes straight to {place}, and the job stands still until it is there")


def _waited_for(image: api.Image, report: progress.Report) -> api.Flushed:
    try:
        interrupt.heed()
        return image.flush(report)
    except KeyboardInterrupt:
        output.note(f"the image is whole in memory, as {image.name}; the keeper goes on writing it")
        raise


def _of_image(image: api.Image) -> dict[str, Any]:
    """What an image in a folder says of itself, and by which name to wake it."""
    facts = {**image.summary(), "image": image.name, "handle": image.handle, "phases": image.manifest.phases}
    writing = facts["writing"]
    if writing is not None:
        facts["told"] = f"not durable yet: on its way to {writing['place']}; `torpor flush {image.name}` waits for it"
    elif not facts["durable"]:
        facts["told"] = "in the memory of this host alone"
    return facts


def _in_store(store: api.Store, result: PutResult, report: progress.Report) -> dict[str, Any]:
    """What the image and the store say of a checkpoint."""
    from torpor.cli.copy import told

    summary = store.image(result.image.id).summary()
    return {
        **summary,
        **result.describe(),
        "handle": f"{summary['name']}@{store.url}",
        "phases": report.phases,
        "told": f"{told(result)}\n  {'by way of memory' if result.sifted is None else _sifted(result.sifted)}",
    }


def _sifted(sifted: dict[str, Any]) -> str:
    """How the GPU's bytes got into the store, for people."""
    moved = f"{output.size(sifted['moved'])} left GPU memory"
    if sifted["by"] == "gpu":
        return f"hashed on the GPU; {moved}"
    because = sifted["because"]
    return f"hashed on the host{f', because {because}' if because else ''}; {moved}"
