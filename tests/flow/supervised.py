"""Jobs under a supervisor of their own, with no keeper: their folders, their start, their end."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from torpor import records
from torpor.errors import WrongState
from torpor.process import criu, tree, wire
from torpor.process.client import Attachment, SupervisorClient
from torpor.process.namespace import Spec, job_view, start_supervisor

ALL_KINDS = [sys.executable, str(Path(__file__).with_name("all_kinds.py"))]


class Supervised:
    """One job's folder, and who is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.supervisor = 0
        self._streams: list[Attachment] = []
        (folder / "ctl").mkdir(parents=True)

    def start(self, *argv: str, **spec: Any) -> Supervised:
        env = {"TORPOR_JOB_DIR": str(job_view(self.folder, spec.get("namespaces", True))), "PATH": os.environ["PATH"]}
        given = {"env": env, **spec}
        self.supervisor = start_supervisor(Spec("run", str(self.folder), argv=list(argv), **given))
        return self

    def python(self, program: str, **spec: Any) -> Supervised:
        return self.start(sys.executable, "-c", program, **spec)

    def client(self) -> SupervisorClient:
        return SupervisorClient(self.folder)

    def attach(self) -> Attachment:
        """Streams that are closed when the test ends, if not before."""
        self._streams.append(self.client().attach())
        return self._streams[-1]

    def close(self) -> None:
        for streams in self._streams:
            streams.close()

    def info(self) -> Any:
        with self.client() as client:
            return client.info()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> dict[str, Any]:
        """What the supervisor recorded, once it has."""
        eventually((self.folder / "exit.json").exists)
        said: dict[str, Any] = json.loads((self.folder / "exit.json").read_text())
        return said

    def gone(self) -> bool:
        """The supervisor, its socket, and with it everything of the job."""
        return records.process_start(self.supervisor) is None and not (self.folder / wire.SOCKET_NAME).exists()

    def ask(self, pid: int = 300) -> dict[str, Any]:
        """What the program `all_kinds` answers."""
        eventually((self.folder / "ctl" / str(pid)).exists)

        def answer() -> Any:
            try:
                with wire.connect(self.folder / "ctl", str(pid), timeout=100) as sock:
                    return json.loads(sock.recv(65536))
            except ConnectionRefusedError:
                return None  # bound, but it does not listen yet

        found: dict[str, Any] = eventually(answer)
        return found

    def walks_on(self) -> None:
        """Both its processes take steps."""
        before = self.ask()
        eventually(lambda: self.ask()["of_child"] > before["steps"])

    def tree(self) -> tree.Tree:
        return tree.read(self.supervisor, 300)

    def dump(self, images: Path, *, leave_running: bool = False) -> Any:
        """Dump and commit; returns how its streams stood."""
        info = self.info()
        images.mkdir()
        with criu.Dump(self.folder) as dump:
            dump.start(images, leave_running)
            dump.wait_written(60)
            dump.commit()
            dump.finish()
        return info

    def restore(self, images: Path, stdio: dict[str, str | None], **options: Any) -> criu.Restored:
        restored = criu.restore(images, self.folder, 300, stdio, **options)
        self.supervisor = restored.supervisor
        return restored


class World:
    """Makes jobs in folders below one of its own, and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs: list[Supervised] = []

    def __call__(self, name: str = "job", *, like: Supervised | None = None) -> Supervised:
        """A job's folder; `like` another job's, with the file that the program appends to."""
        job = Supervised(self.folder / name)
        self._jobs.append(job)
        if like is not None:
            shutil.copyfile(like.folder / "record", job.folder / "record")
        return job

    def end(self) -> None:
        for job in self._jobs:
            job.close()
            try:
                with job.client() as client:
                    client.shutdown()
            except WrongState:
                pass  # it has ended
            if job.supervisor:
                eventually(job.gone)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.end()
