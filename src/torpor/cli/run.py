"""`torpor run`: start a program as a job."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from torpor import api, launch
from torpor.cli import foreground, output
from torpor.cli.options import pairs
from torpor.errors import NoRights, NotFound

settings = {"context_settings": {"allow_interspersed_args": False}}


def command(
    argv: Annotated[list[str], typer.Argument(metavar="CMD…", help="The program and its arguments, after --.")],
    name: Annotated[str | None, typer.Option("--name", help="The job's name; one is made up otherwise.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="I,…|sim", help="GPUs to use, or sim for the software GPU.")
    ] = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return at once.")] = False,
    no_arena: Annotated[
        bool, typer.Option("--no-arena", help="Leave device memory to the driver (checkpoints are slower).")
    ] = False,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="K=V", help="Set a variable for it.")] = None,
    json: output.JsonFlag = False,
) -> None:
    """Start a program as a job. Without --detach this behaves like the program itself, exit code included."""
    extra = pairs(env or [], "--env", "K=V")
    try:
        launch.find_program(argv[0], {**os.environ, **extra}.get("PATH", ""))
    except NotFound as error:
        output.failure(error)
        raise typer.Exit(127) from None
    except NoRights as error:
        output.failure(error)
        raise typer.Exit(126) from None
    job = api.run(argv, name=name, gpu=gpu, detach=detach, arena=not no_arena, env=extra)
    if gpu is None and job.record.backend == "sim" and not os.environ.get("TORPOR_GPU"):
        output.note("no NVIDIA GPU here, the job gets the software GPU")
    if detach:
        output.result(job.to_dict(), job.name)
        return
    status = foreground.stay(job)
    if json:
        output.result(job.to_dict(), "")
    raise typer.Exit(status)
