"""The machine a figure was measured on, as every result names it."""

from __future__ import annotations

from torpor.bench.machine import describe, touch_memory

__all__ = ["describe", "touch_memory"]
