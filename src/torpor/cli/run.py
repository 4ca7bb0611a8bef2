"""`torpor run`: start a program as a job."""

from __future__ import annotations

import os
from typing import Literal, get_args

import click

from torpor import api
from torpor.cli import entry, interrupt, output
from torpor.cli.options import pairs
from torpor.process import terminal
from torpor.process.namespace import CannotExec
from torpor.records import DEFAULT_VM, Vm


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("argv", metavar="CMD…", nargs=-1, required=True)
@click.option("--name", help="The job's name; one is made up otherwise.")
@click.option("--gpu", metavar="I,…|sim", help="GPUs to use, or sim for the software GPU.")
@click.option("-d", "--detach", is_flag=True, help="Return at once.")
@click.option("--no-arena", is_flag=True, help="Leave device memory to the driver; checkpoints take longer.")
@click.option(
    "--managed",
    type=click.Choice(["driver", "host"]),
    default="driver",
    help="Who backs managed memory: the driver (cannot be saved), or pinned host memory.",
)
@click.option(
    "--vm",
    type=click.Choice(get_args(Vm)),
    help="What is done with driver calls: known answers given; work handed in by another thread; what repeats merged. "
    f"By default what TORPOR_VM says, else {DEFAULT_VM}.",
)
@click.option("--env", multiple=True, metavar="K=V", help="Set a variable for the program.")
@output.json_flag
def command(
    argv: tuple[str, ...],
    name: str | None,
    gpu: str | None,
    detach: bool,
    no_arena: bool,
    managed: Literal["driver", "host"],
    vm: Vm | None,
    env: tuple[str, ...],
) -> int:
    """Start a program as a job. Without --detach this behaves like the program itself, exit code included."""
    from torpor.cli import foreground

    extra = pairs(env, "--env", "K=V")
    place = None if detach or output.as_json else terminal.ours()
    try:
        job = api.run(
            argv,
            name=name,
            gpu=gpu,
            detach=detach,
            arena=not no_arena,
            managed=managed,
            vm=vm,
            env=extra,
            terminal=place,
        )
    except CannotExec as error:
        output.failure(error)
        return error.exit_code

    def tell() -> None:
        if gpu is None and job.record.backend == "sim" and not os.environ.get("TORPOR_GPU"):
            output.note("no NVIDIA GPU here, the job gets the software GPU")
        if known := entry.warning(argv, job.record.namespaces):
            output.note(known)

    if detach:
        interrupt.hold()  # the job runs, and this is about to say so
        tell()
        output.result(job.to_dict(), job.name)
        return 0
    status = foreground.stay(job, at_begin=tell)
    if output.as_json:
        output.result(job.to_dict(), "")
    return status
