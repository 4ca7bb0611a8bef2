"""The CUDA driver API as the keeper uses it: typed, with errors of our own, every long call without the GIL."""

from torpor.driver.checkpoint import Checkpointing, ProcessState
from torpor.driver.devices import Device, Driver

__all__ = ["Checkpointing", "Device", "Driver", "ProcessState"]
