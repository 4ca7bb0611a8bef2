"""Images: one checkpoint as a folder. The format is docs/format/image.md."""

from torpor.image.describe import describe
from torpor.image.manifest import (
    Block,
    DeviceFacts,
    DriverFacts,
    FileEntry,
    HostFacts,
    JobFacts,
    Manifest,
    ProcessEntry,
)
from torpor.image.reader import is_image, read_manifest, verify

__all__ = [
    "Block",
    "DeviceFacts",
    "DriverFacts",
    "FileEntry",
    "HostFacts",
    "JobFacts",
    "Manifest",
    "ProcessEntry",
    "describe",
    "is_image",
    "read_manifest",
    "verify",
]
