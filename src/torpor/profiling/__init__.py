"""Counting a job's driver calls (docs/design/profile.md): looking at it, what was seen, and what follows from that."""

from torpor.profiling.recording import Recording
from torpor.profiling.sampler import Sampler
from torpor.profiling.summary import Profile, summarise

__all__ = ["Profile", "Recording", "Sampler", "summarise"]
