"""Torpor puts a running GPU job to sleep and wakes it again. This module gives the verbs as typed Python.

>>> import torpor
>>> job = torpor.run(["python", "train.py"])
>>> image = job.checkpoint()
>>> job = torpor.restore(image)

Names are loaded when they are first used, so that the light parts of the package (a job's supervisor) stay light.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.api import (
        Image,
        Job,
        Outcome,
        Progress,
        create_store,
        flush,
        images,
        job,
        jobs,
        open_image,
        open_store,
        restore,
        run,
    )
    from torpor.errors import TorporError
    from torpor.records import JobState

_HOME = {
    **dict.fromkeys(
        (
            *(
                "Image",
                "Job",
                "Outcome",
                "Progress",
                "create_store",
                "flush",
                "images",
                "job",
                "jobs",
                "open_image",
                "open_store",
            ),
            *("restore", "run"),
        ),
        "torpor.api",
    ),
    "TorporError": "torpor.errors",
    "JobState": "torpor.records",
}

__all__ = [
    "Image",
    "Job",
    "JobState",
    "Outcome",
    "Progress",
    "TorporError",
    "__version__",
    "create_store",
    "flush",
    "images",
    "job",
    "jobs",
    "open_image",
    "open_store",
    "restore",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'torpor' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
