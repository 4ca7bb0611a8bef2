"""Images on their way out of memory: who asks for another try, and when."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conftest import eventually
from torpor import paths, writeback
from torpor.keeper.report import Report
from torpor.keeper.writeback import Writeback
from torpor.writeback import Course, Target


def test_a_flush_while_a_failed_writer_ends_is_another_try(home: Path) -> None:
    del home
    nobody: Any = None
    back = Writeback(nobody)
    image = paths.dram_dir() / "job-1"
    writeback.give(image, Target(name="job-1", store="/store"), "sim")
    place = "job-1@/store"
    writeback.save_course(image, Course(phase="failed", place=place, tries=1, error={"message": "no answer"}))
    back._image = image  # whose writer has said so, and has not ended

    def phase() -> str:
        course = writeback.course_of(image)
        assert course is not None
        return course.phase

    with ThreadPoolExecutor(1) as threads:
        flushing = threads.submit(back.flush, image, None, Report())
        eventually(lambda: back._changed._waiters)  # type: ignore[attr-defined]
        with back._changed:
            back._image = None
            back._changed.notify_all()
        eventually(lambda: phase() == "waiting")
        back._is_durable(image, Course(place=place))
        assert flushing.result()["place"] == place


def test_what_was_half_written_long_ago_goes(home: Path) -> None:
    """Its writer, or its keeper, was killed."""
    del home
    nobody: Any = None
    writeback.give(paths.dram_dir() / "job-1", Target(name="job-1", store="/store"), "sim")
    old, new = (writeback.folder() / f".job-1.json.{one}" for one in ("old", "new"))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    Writeback(nobody)._forget_old(time.time())
    assert not old.exists() and new.exists()
    assert writeback.order_file(paths.dram_dir() / "job-1").exists()
