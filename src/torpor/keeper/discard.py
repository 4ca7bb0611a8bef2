"""Remove an image; what the keeper still has mapped of it goes back to the pinned pool."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torpor.errors import NotFound
from torpor.image import is_image
from torpor.image.manifest import MANIFEST
from torpor.keeper.messages import DiscardParams
from torpor.keeper.pool import Pool
from torpor.keeper.report import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.keeper.host import Host


def run(host: Host, params: DiscardParams, report: Report) -> dict[str, Any]:
    """Returns how many segments went back to the pool. An image that is being written elsewhere is so no more."""
    image = Path(params.image)
    with host.flows.begin("removal", params.image) as flow:
        if not is_image(image):
            raise NotFound(f"no image at {image}", hint="`torpor images` lists the images")
        report.no_return()
        proof = host.writeback.cancel(image)
        flow.ends()
        with report.phase("remove"):
            return {"reclaimed": remove(host.pool, image), "proof": proof}


def remove(pool: Pool, image: Path) -> int:
    """Remove an image; returns how many segments went back to the pool."""
    # Without its manifest it is no image any more, whatever happens to the rest.
    (image / MANIFEST).unlink()
    return empty(pool, image)


@contextmanager
def alone(image: Path) -> Iterator[bool]:
    """Whether nobody reads the image (`Image.reading`), nor begins to while the block runs."""
    descriptor = os.open(image, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def empty(pool: Pool, folder: Path) -> int:
    """Remove a folder with segments in `gpu/`, keeping what the pool can use; returns how many that were."""
    files = sorted((folder / "gpu").glob("*.seg"))
    reclaimed = sum(pool.reclaim(file) for file in files)
    shutil.rmtree(folder)
    pool.sweep()
    return reclaimed
