"""What a manifest says of its image."""

from __future__ import annotations

import time

from torpor.keeper import describe


def test_images_of_one_second_are_in_order() -> None:
    first = describe.now()
    time.sleep(0.002)
    assert first < describe.now()
