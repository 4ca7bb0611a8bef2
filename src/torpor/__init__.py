"""Torpor puts a running GPU job to sleep and wakes it again. This module gives the verbs as typed Python.

>>> import torpor
>>> job = torpor.run(["python", "train.py"])
>>> image = job.checkpoint()
>>> job = torpor.restore(image)
"""

from __future__ import annotations

__version__ = "0.1.0"
