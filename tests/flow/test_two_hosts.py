"""Two keepers, as two hosts have them, with jobs of one name and one store: every image gets a name of its own."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, end_everything, eventually
from torpor import api
from torpor.store_handle import Store

COUNTER = (sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "2", "--delay", "0.02")

pytestmark = pytest.mark.criu

Host = Mapping[str, str]
"""What is different there: variables."""


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TORPOR_STORE", str(home / "store"))
    return api.create_store()


@pytest.fixture
def here(home: Path) -> Host:
    return {"TORPOR_HOME": str(home)}


@pytest.fixture
def there(home: Path) -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    dram = Path(tempfile.mkdtemp(prefix="tp-", dir="/dev/shm"))
    variables = {"TORPOR_HOME": str(folder), "TORPOR_DRAM": str(dram)}
    yield variables
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        end_everything(folder)
    shutil.rmtree(folder)
    shutil.rmtree(dram)
    del home


def counts(torpor: Cli, host: Host) -> int:
    found = re.findall(rb"^count (\d+)\n", torpor("logs", "count", env=host).stdout, re.MULTILINE)
    assert [int(one) for one in found] == list(range(int(found[0]), int(found[-1]) + 1)) if found else True
    return int(found[-1]) if found else 0


def starts(torpor: Cli, host: Host, fault: str) -> None:
    """A keeper with this fault, and a job that counts."""
    torpor("keeper", "start", env={**host, "TORPOR_FAULT": fault})
    torpor("run", "-d", "--name", "count", "--", *COUNTER, env=host)
    eventually(lambda: counts(torpor, host) > 3)


def image_of(torpor: Cli, *args: str, host: Host) -> str:
    return str(said_by(torpor, "checkpoint", "count", "--store", "@", *args, host=host)["image"])


def said_by(torpor: Cli, *args: str, host: Host) -> dict[str, object]:
    found: dict[str, object] = json.loads(torpor(*args, "--json", env=host).stdout)
    return found


@pytest.mark.parametrize("way", ["straight", "memory"])
def test_the_second_to_come_gets_the_next_name(
    torpor: Cli, home: Path, store: Store, here: Host, there: Host, way: str
) -> None:
    gate = home / "gate"
    # Both want the first name: one has chosen it and stands, the other comes.
    starts(torpor, here, f"{'store' if way == 'straight' else 'write back'}=hang:{gate}")
    starts(torpor, there, "")
    tier = ("--tier", "dram", "--durable") if way == "memory" else ("--tier", "disk")
    asking = torpor.start("checkpoint", "count", "--store", "@", *tier, "--leave-running", "--json")
    with asking:
        eventually(lambda: Path(f"{gate}.reached").exists() or asking.poll() is not None)
        second = image_of(torpor, "--leave-running", host=there)
        gate.touch()
        out, err = asking.communicate(timeout=100)
    assert asking.returncode == 0, err
    first = re.search(rb'"image": "(count-\d)"', out)
    assert first is not None, out
    # The name goes to whoever brings the image; who only means to has the next one then, and says so.
    names = {"straight": ("count-1", "count-2"), "memory": ("count-2", "count-1")}[way]
    assert (first[1].decode(), second) == names
    assert sorted(one.name for one in store.images()) == ["count-1", "count-2"]
    if way == "memory":
        assert torpor.json("flush", "count-1")["flushed"][0]["place"] == f"count-2@{store.url}"
    assert image_of(torpor, host=here) == "count-3"
    assert image_of(torpor, host=there) == "count-4"
    assert store.verify().problems == []
    # Each job sleeps in the image that is its own.
    for host, name in ((here, "count-3"), (there, "count-4")):
        reached = counts(torpor, host)
        assert said_by(torpor, "restore", f"{name}@", host=host)["job"] == "count"
        eventually(lambda host=host, reached=reached: counts(torpor, host) > reached)
