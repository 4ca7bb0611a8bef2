"""Stores whose key a command prints: who runs it, how long it may take, and where the key is seen."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Cli, eventually, start_keeper
from tests.store.s3_server import S3Server
from tests.store.test_cycle import COUNTER, counts, images_here, passes
from torpor import api, errors, paths
from torpor.errors import NoRights, StepFailed, UsageError
from torpor.keeper import depositing, messages
from torpor.keeper.client import KeeperClient
from torpor.store import keys, location

KEY = secrets.token_bytes(32)


class TestCommand:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(keys, "COMMAND_SECONDS", 0.5)

    @pytest.mark.parametrize("command", ["sleep 600 | cat; echo", "exec >&-; sleep 600", "while :; do :; done"])
    def test_one_that_takes_too_long_is_ended_with_all_that_it_started(self, tmp_path: Path, command: str) -> None:
        begun = time.monotonic()
        with pytest.raises(StepFailed, match="took longer than"):
            keys.from_command(command, str(tmp_path))
        assert time.monotonic() - begun < 60
        eventually(lambda: not of_command(tmp_path))

    def test_one_that_prints_without_end_is_ended(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is no key"):
            keys.from_command("yes", str(tmp_path))
        eventually(lambda: not of_command(tmp_path))

    def test_what_it_leaves_in_the_background_is_not_waited_for(self, tmp_path: Path) -> None:
        try:
            assert keys.from_command(f"sleep 600 & echo {KEY.hex()}", str(tmp_path)) == KEY
        finally:
            for pid in of_command(tmp_path):
                os.kill(pid, 9)

    @pytest.mark.parametrize("ending", ["exit 3", "echo nonsense", "kill $$", "sleep 600"])
    def test_no_error_tells_a_key_that_is_in_the_command(self, ending: str) -> None:
        with pytest.raises(errors.TorporError) as caught:
            keys.from_command(f": {KEY.hex()}; {ending}", "s")
        assert KEY.hex() not in json.dumps(caught.value.to_dict())


def of_command(store: Path) -> list[int]:
    """Processes that a command for this store's key is, or has started."""
    return [pid for pid in everybody() if f"TORPOR_KEY_STORE={store}".encode() in environment(pid)]


def everybody() -> list[int]:
    return [int(one) for one in os.listdir("/proc") if one.isdigit()]


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


class TestStoreKey:
    @pytest.fixture
    def key(self, tmp_path: Path) -> bytes:
        found = location.create_store(str(tmp_path / "store"), key=KEY).store_key
        assert found is not None
        assert found != KEY
        return found

    def test_it_opens_the_store_and_no_other(self, tmp_path: Path, key: bytes) -> None:
        place = str(tmp_path / "store")
        assert location.open_store_as(place, {"TORPOR_KEY_COMMAND": "false"}, key).images() == []
        with pytest.raises(NoRights, match="another key"):
            location.open_store_as(place, {}, secrets.token_bytes(32))

    def test_no_store_that_says_nothing_of_encryption_is_taken_for_it(self, tmp_path: Path, key: bytes) -> None:
        location.create_store(str(tmp_path / "plain"))
        with pytest.raises(NoRights, match="not encrypted"):
            location.open_store_as(str(tmp_path / "plain"), {}, key)

    def test_a_command_is_not_run_for_somebody_else(self, tmp_path: Path, key: bytes) -> None:
        del key
        with pytest.raises(NoRights, match="only who asks may run"):
            location.open_store_as(str(tmp_path / "store"), {"TORPOR_KEY_COMMAND": f"touch {tmp_path}/run"})
        assert not (tmp_path / "run").exists()


def test_a_keeper_of_another_user_is_not_told_the_key(home: Path) -> None:
    del home
    paths.make_private(paths.keeper_dir())
    assert heard_by(os.geteuid())["key"] == KEY
    assert "key" not in heard_by(65534)


def heard_by(user: int) -> dict[str, object]:
    """What a keeper of that user hears of a call."""
    file = paths.keeper_socket("sim")
    file.unlink(missing_ok=True)
    heard: list[messages.Message | None] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(file))
        before = os.geteuid()
        os.seteuid(user)
        listener.listen()  # by whom, is what the other side sees
        os.seteuid(before)

        def answer() -> None:
            channel, _ = listener.accept()
            with channel:
                heard.append(messages.receive(channel))
                messages.send(channel, messages.Done())

        thread = threading.Thread(target=answer)
        thread.start()
        KeeperClient("sim").call("checkpoint", {"job": "train", "key": KEY})
        thread.join()
    (request,) = heard
    assert isinstance(request, messages.Request)
    return request.params


@pytest.fixture
def asked(torpor: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that has a line for each time that the command was run, which prints the key in this environment only.

    The keeper has another one; a job counts.
    """
    torpor("run", "-d", "--name", "count", "--", *COUNTER)
    passes(torpor, "count", 5)
    (home / "key").write_text(KEY.hex())
    monkeypatch.setenv("WORD", "mine")
    monkeypatch.setenv("TORPOR_KEY_COMMAND", f"echo $PPID >> {home}/asked; test $WORD = mine && cat {home}/key")
    return home / "asked"


def places_with(home: Path, secret: bytes) -> list[str]:
    """Files of Torpor, and variables and command lines of processes, that have a secret in them."""
    forms = {secret, secret.hex().encode()}
    files = [one for folder in (home, paths.dram_dir()) for one in folder.rglob("*") if one.is_file()]
    shown = [Path(f"/proc/{pid}/{what}") for pid in everybody() for what in ("environ", "cmdline")]
    found = []
    for file in [*files, *shown]:
        try:
            data = file.read_bytes()
        except OSError:
            continue
        if any(form in data for form in forms):
            found.append(str(file))
    return found


@pytest.mark.criu
@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_the_key_goes_to_the_keeper_and_nowhere_else(
    torpor: Cli, home: Path, asked: Path, s3: S3Server, s3_url: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    del s3
    place = str(home / "store") if where == "folder" else s3_url
    with monkeypatch.context() as patch:
        for name in ("WORD", "TORPOR_KEY_COMMAND"):
            patch.delenv(name)
        start_keeper(paths.home(), {"TORPOR_FAULT": f"commit@1=hang:{home}/go"})
    store = api.create_store(place, encrypt=True)
    key = store.repository.store_key
    assert key is not None
    asked.unlink()
    with torpor.start("checkpoint", "count", "--leave-running", "--store", place, "--json") as asking:
        eventually((home / "go.reached").exists)
        found = places_with(home, KEY) + places_with(home, key)
        opening = [msgspec.json.decode(one.read_bytes()) for one in paths.dram_dir().glob(".staged/*.opening")]
        (home / "go").touch()
        out, err = asking.communicate()
    assert asking.returncode == 0, err
    assert found == [str(home / "key")]
    assert len(opening) == (where == "bucket")
    assert not any(name.startswith("TORPOR_KEY") for one in opening for name in one)
    assert json.loads(out)["sifted"]["moved"] > 0
    # By the one that asked, once.
    assert asked.read_text().split() == [str(asking.pid)]
    last = counts(torpor, "count")[-1]
    torpor("checkpoint", "count", "--store", place)
    woken = torpor.json("restore", f"count-2@{place}")["job"]
    assert len(asked.read_text().split()) == 3
    passes(torpor, woken, last + 3)
    assert images_here(torpor, home) == []
    assert not [*paths.dram_dir().glob(".fetched/*"), *paths.dram_dir().glob(".staged/*")]
    assert places_with(home, KEY) + places_with(home, key) == [str(home / "key")]


@pytest.mark.criu
def test_a_command_that_fails_is_told_before_the_job_is_touched(
    torpor: Cli, home: Path, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = api.create_store(str(home / "store"), encrypt=True)
    monkeypatch.setenv("WORD", "another's")
    error = torpor.json("checkpoint", "count", "--store", store.url, check=11)["error"]
    assert "the command for the key ended with 1" in error["message"]
    assert "TORPOR_KEY_COMMAND" in error["hint"]
    monkeypatch.setenv("TORPOR_KEY_COMMAND", f"echo {secrets.token_hex(32)}")
    error = torpor.json("checkpoint", "count", "--store", store.url, check=8)["error"]
    assert "is not its key" in error["message"]
    assert asked.exists()
    passes(torpor, "count", counts(torpor, "count")[-1] + 1)
    assert store.images() == []
    # A keeper that is asked without the key does not run it either.
    with pytest.raises(NoRights, match="only who asks"):
        api.job("count").checkpoint_into(store.url, env=store.opening())


def test_whether_an_image_has_arrived_is_seen_without_the_key(home: Path, s3: S3Server, s3_url: str) -> None:
    del s3, home
    repository = location.create_store(s3_url, key=KEY)
    repository.backend.write(f"images/{'1' * 64}", [b"an image"])
    assert depositing.is_there("job", f"job-1@{s3_url}", f"images/{'1' * 64}")
    assert not depositing.is_there("job", f"job-1@{s3_url}", f"images/{'2' * 64}")
