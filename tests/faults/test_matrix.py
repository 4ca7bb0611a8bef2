"""Every row of the fault matrix (docs/results/faults.md): the fast ones always, the rest with `scripts/test --full`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aftermath import last_lines
from tests.faults.matrix import all_rows
from tests.faults.play import play
from tests.faults.rows import Row
from tests.faults.scene import Scene

pytestmark = pytest.mark.criu


@pytest.fixture(scope="module")
def scenes() -> Iterator[list[Scene]]:
    """The scene of the row before, while it is as a row leaves it when all is well."""
    kept: list[Scene] = []
    yield kept
    for scene in kept:
        scene.close()


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name, marks=[] if row.fast else [pytest.mark.full]) for row in all_rows()],
)
def test_row(scenes: list[Scene], row: Row) -> None:
    if not scenes:
        scenes.append(Scene())
    scene = scenes[0]
    try:
        play(scene, row)
    except BaseException:
        print(last_lines([scene.home]))
        scenes.clear()
        scene.close()
        raise
