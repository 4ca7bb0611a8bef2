"""Remove an image; what the keeper still has mapped of it goes back to the pinned pool."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from torpor.errors import NotFound
from torpor.image import is_image
from torpor.image.manifest import MANIFEST
from torpor.keeper.host import Host
from torpor.keeper.messages import DiscardParams
from torpor.keeper.pool import Pool
from torpor.keeper.report import Report


def run(host: Host, params: DiscardParams, report: Report) -> dict[str, Any]:
    """Returns how many segments went back to the pool."""
    image = Path(params.image)
    with host.flow("removal", params.image):
        if not is_image(image):
            raise NotFound(f"no image at {image}", hint="`torpor images` lists the images")
        report.no_return()
        # Without its manifest it is no image any more, whatever happens to the rest.
        (image / MANIFEST).unlink()
        with report.phase("remove"):
            return {"reclaimed": empty(host.pool, image)}


def empty(pool: Pool, folder: Path) -> int:
    """Remove a folder with segments in `gpu/`, keeping what the pool can use; returns how many that were."""
    files = sorted((folder / "gpu").glob("*.seg"))
    reclaimed = sum(pool.reclaim(file) for file in files)
    shutil.rmtree(folder)
    pool.sweep()
    return reclaimed
