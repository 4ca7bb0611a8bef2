"""Images in memory become durable in the background: one after the other, each by a process of its own (`writer`).

A process, so that it has the variables of whoever asked for the image, and takes nothing from the flows: neither this
interpreter's lock, nor their priority. It ends with this keeper. What it is told, and what it tells, is in files beside
the images (`torpor.writeback`), so the next keeper goes on from there.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from torpor import records, writeback
from torpor.errors import NotFound, TorporError, WrongState
from torpor.image import is_image
from torpor.keeper import discard, fault
from torpor.keeper.report import Report
from torpor.keeper.rollback import step
from torpor.writeback import Course, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.keeper.host import Host

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""After a failure the next try is so much later, twice as much each time."""
AGAIN_MOST = 3600.0

KEPT_SECONDS = 3600.0
"""How long it is remembered where an image went."""

_LOOK_SECONDS = 0.1
_IDLE_SECONDS = 5.0


class Writeback:
    """All of a keeper's. Works from `start` to `stop`, in a thread of its own."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._changed = threading.Condition()
        self._stopping = False
        self._image: Path | None = None
        self._writer: subprocess.Popen[bytes] | None = None
        self._given_up: set[Path] = set()
        self._thread = threading.Thread(target=self._run, name="write back", daemon=True)

    def start(self) -> None:
        """Take up what is to be written, whoever left it; what had failed before this keeper is tried at once.

        What was written before it may have been so long ago: a writer looks whether it is still there.
        """
        try:
            self._take_up()
        except OSError:  # it is no reason not to serve
            log.exception("write back")
        self._thread.start()

    def stop(self) -> None:
        """End the writer, if one is at work: its image is whole in memory, and the next keeper begins again."""
        with self._changed:
            self._stopping = True
            self._end_writer()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """There is a new order, or one may be tried again."""
        with self._changed:
            self._changed.notify_all()

    def writing(self) -> str | None:
        """The image that is being written now."""
        with self._changed:
            return str(self._image) if self._image is not None else None

    def describe(self) -> dict[str, dict[str, Any]]:
        """JSON-safe: the images of this keeper that are not durable yet, and how far they are."""
        found = {}
        for order in self._mine():
            course = writeback.course_of(Path(order.image))
            if course is not None:
                found[Path(order.image).name] = {**course.facts(), "told": course.describe()}
        return found

    def flush(self, image: Path, env: dict[str, str] | None, report: Report) -> dict[str, Any]:
        """Wait until the image is durable; one that failed is tried again now, and with the variables `env`.

        Raises what the next failure is, and NotFound when nothing is to be done with such an image.
        """
        course = writeback.course_of(image)
        if course is None:
            raise NotFound(f"{image} is on its way to no place", hint="`torpor copy` brings an image into a store")
        with self._changed:
            if course.phase == "failed":
                # The writer says that it has failed some time before it has ended.
                self._changed.wait_for(lambda: self._image != image or self._stopping)
                course = writeback.course_of(image) or course
            tries = course.tries
            order = writeback.order_of(image)
            if order is not None and course.phase == "failed":
                if env is not None and env != order.target.env:
                    order.target.env = env
                    writeback.save(order)
                course = Course(place=course.place, tries=tries, proof=course.proof, put=course.put, asked=course.asked)
                writeback.save_course(image, course)
                self._changed.notify_all()
        with report.phase("write", course.total) as phase:
            while course.phase != "durable" or writeback.order_file(image).exists():
                if course.phase == "failed" and (course.tries > tries or order is None):
                    raise _failure(course, image)
                if self._stopping:
                    raise WrongState("the keeper stops", hint=f"`torpor flush {image.name}` goes on")
                phase.total = course.total
                phase.move(max(course.bytes - phase.moved, 0))
                with self._changed:
                    self._changed.wait(_LOOK_SECONDS)
                found = writeback.course_of(image)
                if found is None:
                    raise NotFound(f"{image} has been removed before it was durable")
                course = found
        return {"place": course.place, "put": course.put}

    def cancel(self, image: Path) -> str | None:
        """The image is about to be removed: it goes nowhere any more, and no writer is at it when this returns.

        Returns the proof by which to know it where it was to go, if it may have arrived there.
        """
        with self._changed:
            self._given_up.add(image)
            if self._image == image:
                self._end_writer()
            self._changed.wait_for(lambda: self._image != image)
        try:
            course = writeback.course_of(image)
            writeback.forget(image)
            return course.proof if course is not None else None
        finally:
            with self._changed:
                self._given_up.discard(image)

    def _take_up(self) -> None:
        for order in self._mine():
            image = Path(order.image)
            course = writeback.course_of(image)
            if course is None:
                continue
            if course.phase == "failed":
                course.again = 0.0
                writeback.save_course(image, course)
            elif course.phase == "written" and is_image(image):
                course.phase = "waiting"
                writeback.save_course(image, course)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception:  # the next turn may fare better, and the others must be written
                log.exception("write back")
                self._wait(_IDLE_SECONDS)

    def _turn(self) -> None:
        """One image, or a wait."""
        now = time.time()
        soonest = now + _IDLE_SECONDS
        for order in self._mine():
            image = Path(order.image)
            course = writeback.course_of(image)
            if course is None or not self._is_there(image, course):
                continue
            if course.phase == "failed" and course.again > now:
                soonest = min(soonest, course.again)
            elif course.phase == "written":
                if self._settle(order, course):
                    return
                soonest = now + _LOOK_SECONDS  # somebody reads it
            else:
                self._write(order, course)
                return
        self._forget_old(now)
        self._wait(soonest - now)

    def _is_there(self, image: Path, course: Course) -> bool:
        """Whether the image is complete, and its flow at its end. The order of one that never will be, or is no more,
        goes."""
        if self._host.flows.busy().get(str(image)) in ("checkpoint", "removal"):
            return False
        if is_image(image):
            return image not in self._given_up
        if course.phase not in ("written", "durable"):
            writeback.forget(image)
            return False
        if image.is_dir():  # a keeper died while it was removing it
            discard.empty(self._host.pool, image)
        self._is_durable(image, course)
        return False

    def _write(self, order: Order, course: Course) -> None:
        image = Path(order.image)
        after: Course | None = None
        with self._changed:
            if self._stopping or image in self._given_up:
                return
            self._image = image
        try:
            with step("write"):
                fault.point("write back")
                self._run_writer(order)
            after = writeback.course_of(image)
            if after is not None and after.phase in ("waiting", "writing"):
                if order.target.path is not None:  # what it had no time to remove
                    shutil.rmtree(f"{order.target.path}.partial", ignore_errors=True)
                raise TorporError("the process that wrote it was killed", hint="was there too little memory?")
        except TorporError as error:
            after = writeback.course_of(image) or course
            after.phase, after.error, after.tries = "failed", error.to_dict(), course.tries + 1
        finally:
            with self._changed:
                try:
                    writeback.sweep(image)
                    if after is not None and not self._stopping and image not in self._given_up:
                        self._note(image, after)
                finally:
                    self._image = self._writer = None
                    self._changed.notify_all()

    def _note(self, image: Path, course: Course) -> None:
        """What became of a try."""
        if course.phase == "failed":
            course.again = time.time() + min(AGAIN_SECONDS * 2.0 ** min(course.tries - 1, 60), AGAIN_MOST)
            log.warning("%s is not written to %s: %s", image, course.place, (course.error or {}).get("message"))
        else:
            log.info("%s is written to %s", image, course.place)
        writeback.save_course(image, course)

    def _run_writer(self, order: Order) -> None:
        environment = writeback.environment(order.target.env)
        if faults := fault.text():
            environment["TORPOR_FAULT"] = faults
        command = [sys.executable, "-m", "torpor.keeper.writer", Path(order.image).name]
        with self._changed:
            if self._stopping or Path(order.image) in self._given_up:
                return
            # The pipe's other end closes with this process, and then the writer ends too.
            self._writer = subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", env=environment)
        with self._writer:
            self._writer.wait()

    def _settle(self, order: Order, course: Course) -> bool:
        """The image is durable elsewhere, so it leaves the memory. False while somebody reads it."""
        image = Path(order.image)
        flow = self._host.flows.begin("write back", order.image)
        with suppress(WrongState), flow as leaving, discard.alone(image) as alone:
            if alone:
                fault.point("leave memory")
                records.image_moved(order.image, course.place)
                discard.remove(self._host.pool, image)
                fault.point("leave memory:end")
                leaving.ends()
                self._is_durable(image, course)
                return True
        return False

    def _is_durable(self, image: Path, course: Course) -> None:
        """Only elsewhere from now on; where, is remembered for a while."""
        course.phase = "durable"
        writeback.save_course(image, course)
        writeback.lock_file(image).unlink(missing_ok=True)
        writeback.order_file(image).unlink(missing_ok=True)
        self.wake()

    def _mine(self) -> list[Order]:
        return [order for order in writeback.orders() if order.backend == self._host.backend]

    def _end_writer(self) -> None:
        if self._writer is not None:
            self._writer.kill()

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if not self._stopping:
                self._changed.wait(max(seconds, _LOOK_SECONDS))

    def _forget_old(self, now: float) -> None:
        folder = writeback.folder()
        for file in [*folder.glob("*.course"), *folder.glob(".*")] if folder.is_dir() else []:
            with suppress(OSError):
                if now - file.stat().st_mtime > KEPT_SECONDS and not file.with_suffix(".json").exists():
                    file.unlink()


def _failure(course: Course, image: Path) -> TorporError:
    """Why the image could not be made durable; it is not lost."""
    error = TorporError.from_dict(course.error or {})
    error.message = (
        f"{course.place} could not be written: {error.message}; the image is whole in memory, as {image.name}"
    )
    error.args = (error.message,)
    hint = f"the keeper tries again by itself, `torpor flush {image.name}` does at once"
    error.hint = f"{error.hint}; {hint}" if error.hint else hint
    return error
