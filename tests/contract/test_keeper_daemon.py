"""What every client may count on of a keeper: one per home and driver, its own user only, an answer to anything."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import eventually, keeper_of, keepers
from torpor import errors, paths
from torpor.image.manifest import SEGMENT
from torpor.keeper import client, messages, sockets
from torpor.keeper.client import KeeperClient, ensure_started


@pytest.fixture
def keeper(home: Path) -> KeeperClient:
    del home
    ensure_started("sim")
    return KeeperClient("sim")


def ready(keeper: KeeperClient) -> None:
    eventually(lambda: keeper.call("ping")["ready"])


def test_it_is_started_by_need_and_there_is_one(home: Path) -> None:
    assert not client.listens("sim")
    with pytest.raises(errors.KeeperUnavailable):
        KeeperClient("sim").call("ping")
    for _time in range(3):
        ensure_started("sim", wait=False)
    ensure_started("sim")
    pid = KeeperClient("sim").call("ping")["pid"]
    assert keeper_of(home) == pid


def test_a_second_one_gives_way(keeper: KeeperClient, home: Path) -> None:
    pid = keeper.call("ping")["pid"]
    done = subprocess.run([sys.executable, "-m", "torpor.keeper", "--backend", "sim"], check=False, timeout=100)
    assert done.returncode == 0
    assert keeper_of(home) == pid
    assert keeper.call("ping")["pid"] == pid


@pytest.mark.usefixtures("home")
def test_one_that_is_wanted_while_another_ends_is_started() -> None:
    paths.keeper_dir().mkdir(parents=True)
    with (paths.keeper_dir() / "sim.lock").open("w") as ending:  # it no longer listens, and has not let go yet
        fcntl.flock(ending, fcntl.LOCK_EX)
        wanting = threading.Thread(target=ensure_started, args=("sim",))
        wanting.start()
        first = eventually(lambda: list(client._started))
        eventually(lambda: client._started != first)
    wanting.join(100)
    assert client.listens("sim")


def test_it_survives_who_started_it(home: Path) -> None:
    subprocess.run([sys.executable, "-m", "torpor", "keeper", "start"], check=True, stdout=subprocess.DEVNULL)
    pid = keeper_of(home)
    assert os.getsid(pid) == pid
    assert KeeperClient("sim").call("ping")["backend"] == "sim"


def test_it_answers_its_own_user_only(keeper: KeeperClient, home: Path) -> None:
    # Open the way to the socket, so that only the keeper itself stands in it.
    for place in (home, paths.keeper_dir()):
        place.chmod(0o777)
    paths.keeper_socket("sim").chmod(0o777)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with sockets.connect(paths.keeper_socket("sim"), socket.SOCK_STREAM, timeout=100) as channel:
                try:
                    messages.send(channel, messages.Request(verb="ping"))
                    os._exit(0 if messages.receive(channel) is None else 1)
                except (BrokenPipeError, ConnectionResetError):
                    os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert keeper.call("ping")["pid"]


def test_status_tells_the_machine(keeper: KeeperClient) -> None:
    ready(keeper)
    status = keeper.call("status")
    assert status["backend"] == "sim"
    assert status["devices"][0]["name"] == "Torpor software GPU"
    assert status["busy"] == {}


@pytest.mark.parametrize(
    ("verb", "params", "kind"),
    [
        ("dance", {}, errors.UsageError),
        ("checkpoint", {"job": "a"}, errors.UsageError),
        ("suspend", {"job": "a", "tier": "tape"}, errors.UsageError),
        ("resume", {"job": "a", "more": 1}, errors.UsageError),
        ("resume", {"job": "nobody"}, errors.NotFound),
        ("restore", {"image": "/nowhere"}, errors.NotFound),
        ("discard", {"image": "/nowhere"}, errors.NotFound),
        ("warm", {"bytes": 1 << 50}, errors.NoSpace),
    ],
)
def test_what_it_cannot_do_is_an_error_of_ours(
    keeper: KeeperClient, verb: str, params: dict[str, object], kind: type[errors.TorporError]
) -> None:
    with pytest.raises(kind) as caught:
        keeper.call(verb, params)
    assert type(caught.value) is kind
    assert keeper.call("ping")["pid"]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff\xff\xff\xff", b"\x02\x00\x00\x00\xc1\xc1"])
def test_what_is_no_message_does_not_disturb_it(keeper: KeeperClient, data: bytes) -> None:
    with sockets.connect(paths.keeper_socket("sim"), socket.SOCK_STREAM, timeout=100) as channel:
        channel.sendall(data)
        channel.shutdown(socket.SHUT_WR)
        assert channel.recv(1) == b""
    assert keeper.call("ping")["pid"]


def test_warming_pins_and_stopping_gives_it_back(keeper: KeeperClient, home: Path) -> None:
    assert keeper.call("warm", {"bytes": 2 * SEGMENT})["pool"]["free"] == 2 * SEGMENT
    assert len(list(paths.dram_dir().rglob("*.seg"))) == 2
    keeper.call("stop")
    eventually(lambda: not keepers(home))
    assert list(paths.dram_dir().rglob("*.seg")) == []
    assert not paths.keeper_socket("sim").exists()


def test_a_driver_that_cannot_be_used_is_told_by_each_verb(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_SIM_FAULT", "cuInit@1+=fail:100")
    ensure_started("sim")
    with pytest.raises(errors.DriverMissing, match="CUDA_ERROR_NO_DEVICE"):
        KeeperClient("sim").call("warm", {"bytes": 1})
    assert KeeperClient("sim").call("ping")["ready"] is False
    assert keeper_of(home)


def test_a_native_part_that_is_not_built_is_told_by_the_client(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORPOR_NATIVE", str(tmp_path))
    with pytest.raises(errors.DriverMissing, match="not built"):
        ensure_started("sim")
    assert keepers(home) == []
