"""A job that wakes where the host has another network address: a socket is kept, or named and nothing is left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import rounds
from tests.cases.addresses import ADDRESS, OTHER
from tests.conftest import Cli, eventually
from tests.flow import walking
from torpor import api, errors

pytestmark = pytest.mark.criu


class Host:
    """A network of its own with a loopback device and one further address; `torpor` runs in it."""

    def __init__(self, *addresses: str) -> None:
        set_up = "".join(f"ip address add {one}/32 dev lo && " for one in addresses)
        script = f"ip link set lo up && {set_up}echo up && exec sleep 1000"
        self._keeps = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
        assert self._keeps.stdout is not None
        assert self._keeps.stdout.readline() == b"up\n"
        self.torpor = Cli()
        self.torpor.command = ("nsenter", f"--net=/proc/{self._keeps.pid}/ns/net", *Cli.command)

    def close(self) -> None:
        with self._keeps:
            self._keeps.kill()


@pytest.fixture
def here(home: Path) -> Iterator[Host]:
    del home
    host = Host(ADDRESS)
    yield host
    host.close()


@pytest.fixture
def elsewhere() -> Iterator[Host]:
    host = Host(OTHER)
    yield host
    host.close()


def asleep(host: Host, folder: Path, *kinds: str) -> str:
    """A job of these kinds, put to sleep on that host; the name of its image. The host's keeper is gone."""
    folder.mkdir()
    env = {"PYTHONPATH": rounds.ENVIRONMENT["PYTHONPATH"]}
    host.torpor(
        "run", "-d", "--gpu", "sim", "--name", "holder", "--", *rounds.command("addresses", folder, 1, *kinds), env=env
    )
    eventually(lambda: rounds.output(api.job("holder")) == ["ready"])
    host.torpor("checkpoint", "holder")
    host.torpor("keeper", "stop")
    return "holder-1"


def found(host: Host, folder: Path, image: str) -> dict[str, object]:
    """What the kinds find when the job wakes on that host."""
    host.torpor("restore", image)
    (folder / "go-0").touch()
    job = api.job("holder")
    assert job.wait(100)
    lines = rounds.output(job)
    assert lines[-1] == "end", lines
    return {line.split()[1]: json.loads(line.split(" ", 2)[2]) for line in lines[1:-2]}


def test_sockets_that_do_not_care(here: Host, elsewhere: Host, tmp_path: Path) -> None:
    image = asleep(here, tmp_path / "job", "wildcard", "loopback_pair")
    assert found(elsewhere, tmp_path / "job", image) == {
        "wildcard": [["127.0.0.1", "hello"], [OTHER, "hello"]],
        "loopback_pair": ["under way", "yaw rednu"],
    }


@pytest.mark.parametrize("kind", [pytest.param("specific", marks=pytest.mark.full), "specific_pair"])
def test_an_address_that_is_missing_is_named(
    here: Host, elsewhere: Host, home: Path, tmp_path: Path, kind: str
) -> None:
    """Nothing half open is left; where the address is, the same image wakes."""
    image = asleep(here, tmp_path / "job", kind)
    before = walking.traces(home)
    told = json.loads(elsewhere.torpor("restore", "--json", image, check=errors.ImageMismatch.code).stdout)["error"]
    assert f"bound to {ADDRESS} (port " in told["message"]
    assert told["details"]["address"] == ADDRESS
    assert walking.traces(home) == before
    elsewhere.torpor("keeper", "stop")
    wanted = {"specific": "hello", "specific_pair": ["under way", "yaw rednu"]}
    assert found(here, tmp_path / "job", image) == {kind: wanted[kind]}
