"""Encryption at rest: nothing readable lies in the place, nothing changed there is used, one key opens it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.store.images import contents, make_image, noise
from tests.store.memory import MemoryBackend
from torpor.errors import ImageDamaged, ImageMismatch, MissingPart, NoRights, NotFound, StepFailed, UsageError
from torpor.store import cipher, keys, location, sealed
from torpor.store.encrypt import EncryptBackend, begin, unlock
from torpor.store.get import get
from torpor.store.pack import read_directory
from torpor.store.prune import prune
from torpor.store.put import put
from torpor.store.repository import Repository, create, open_repository
from torpor.store.verify import repair_index, verify_store

NAME = "packs/" + "1b" * 32
KEY = bytes(range(32))
F = cipher.FRAME
SIZES = [0, 1, F - 1, F, F + 1, 2 * F, 3 * F - 1, 3 * F, 5 * F + 17]


@pytest.fixture
def place() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def backend(place: MemoryBackend) -> EncryptBackend:
    return EncryptBackend(place, KEY)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_and_ranges_at_the_edges_of_frames(place: MemoryBackend, backend: EncryptBackend, size: int) -> None:
    data = os.urandom(size)
    backend.write(NAME, [data[: size // 3], data[size // 3 :]])
    assert len(place.objects[NAME]) == cipher.sealed_size(size)
    assert backend.size(NAME) == size
    assert [one.size for one in backend.list("packs")] == [size]
    marks = sorted({0, 1, F - 1, F, F + 1, 2 * F, 3 * F, max(size - 1, 0), size, size + 1, size + F})
    for fresh in (backend, EncryptBackend(place, KEY)):
        for offset in marks:
            assert fresh.read(NAME, offset) == data[offset:]
            for length in (0, 1, F - 1, F, F + 1, 2 * F, 7 * F):
                assert fresh.read(NAME, offset, length) == data[offset : offset + length]


def test_nothing_readable_lies_in_the_place(place: MemoryBackend, backend: EncryptBackend) -> None:
    backend.write(NAME, [b"very secret " * 10_000])
    first = place.objects[NAME]
    assert b"secret" not in first
    backend.write(NAME, [b"very secret " * 10_000])
    same = sum(a == b for a, b in zip(first[cipher.HEAD :], place.objects[NAME][cipher.HEAD :], strict=True))
    assert same < len(first) / 64  # as in random bytes: no key and no nonce is used twice


CHANGES = {
    "magic": lambda data: b"X" + data[1:],
    "format": lambda data: data[:8] + b"\2" + data[9:],
    "salt": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "first frame": lambda data: _flip(data, cipher.HEAD),
    "a tag": lambda data: _flip(data, cipher.HEAD + F + 3),
    "last byte": lambda data: _flip(data, len(data) - 1),
    "cut in the head": lambda data: data[:30],
    "cut after the head": lambda data: data[: cipher.HEAD],
    "cut in a tag": lambda data: data[: cipher.HEAD + F + 10],
    "cut between frames": lambda data: data[: cipher.HEAD + F + cipher.TAG],
    "cut behind the next frame's first byte": lambda data: data[: cipher.HEAD + F + cipher.TAG + 1],
    "cut in the last frame": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "frames in another order": lambda data: (
        data[: cipher.HEAD] + _frame(data, 1) + _frame(data, 0) + data[cipher.HEAD + 2 * (F + cipher.TAG) :]
    ),
    "a frame twice": lambda data: data[: cipher.HEAD] + _frame(data, 0) + data[cipher.HEAD :],
    "empty": lambda data: data[:0],
}


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]


def _frame(data: bytes, number: int) -> bytes:
    return data[cipher.HEAD + number * (F + cipher.TAG) : cipher.HEAD + (number + 1) * (F + cipher.TAG)]


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_what_was_changed_is_named_and_not_given(place: MemoryBackend, backend: EncryptBackend, change: str) -> None:
    data = os.urandom(2 * F + 100)
    backend.write(NAME, [data])
    place.objects[NAME] = CHANGES[change](place.objects[NAME])
    for reader in (backend, EncryptBackend(place, KEY)):
        with pytest.raises(ImageDamaged, match=NAME):
            reader.read(NAME)
        for offset, length in ((0, 10), (F, 10), (2 * F, 100), (0, F), (0, 2 * F + 100), (F - 1, 2), (2 * F + 50, 500)):
            try:
                found = reader.read(NAME, offset, length)
            except ImageDamaged:
                continue
            # A range whose frames are all as they were; or nothing at all, behind what is left of the object.
            assert found == data[offset : offset + length] or (found == b"" and "cut" in change)


def test_an_object_under_another_name_is_noticed(place: MemoryBackend, backend: EncryptBackend) -> None:
    backend.write("tags/good", [b"1"])
    place.objects["tags/bad"] = place.objects["tags/good"]
    with pytest.raises(ImageDamaged, match="tags/bad"):
        backend.read("tags/bad")


def test_an_object_that_others_wrote_anew_is_read_as_it_is(place: MemoryBackend, backend: EncryptBackend) -> None:
    backend.write(NAME, [b"a" * (3 * F)])
    assert backend.read(NAME, 2 * F, 5) == b"aaaaa"
    EncryptBackend(place, KEY).write(NAME, [b"b" * (3 * F)])
    assert backend.read(NAME, 2 * F, 5) == b"bbbbb"


def test_a_range_costs_one_request_once_the_head_is_known(place: MemoryBackend, backend: EncryptBackend) -> None:
    backend.write(NAME, [bytes(9 * F)])
    backend.read(NAME, 0, 100)
    place.asked.clear()
    backend.read(NAME, 5 * F, 2 * F)
    assert place.asked == {"read": 1}


def test_only_the_right_key_unlocks() -> None:
    entry = begin(KEY, bytes(32))
    other = bytes(32)
    assert unlock(entry, [other, KEY], "s") == unlock(entry, [KEY], "s") != KEY
    with pytest.raises(NoRights, match="is not its key"):
        unlock(entry, [other], "s")
    with pytest.raises(NoRights, match="no key is named"):
        unlock(entry, [], "s")
    entry.frame = 17
    with pytest.raises(ImageMismatch, match="17 bytes"):
        unlock(entry, [KEY], "s")


def test_two_stores_with_one_key_share_nothing() -> None:
    assert unlock(begin(KEY, b"a" * 32), [KEY], "s") != unlock(begin(KEY, b"b" * 32), [KEY], "s")


def encrypted(place: MemoryBackend) -> Repository:
    return create(place, chunk=64 << 10, key=KEY)


def test_a_store_works_encrypted(place: MemoryBackend, tmp_path: Path) -> None:
    repository = encrypted(place)
    secret = b"the weights of the model".ljust(64, b".") * 20_000
    first = make_image(tmp_path / "first", blocks={1 << 40: secret, 2 << 40: noise(1, 300_000)})
    second = make_image(tmp_path / "second", blocks={1 << 40: secret, 2 << 40: noise(2, 300_000)})
    put(repository, first, compression="none", pack_size=256 << 10)
    assert put(repository, second, compression="none", pack_size=256 << 10).new < 400_000
    repository.tag(repository.find("first"), "best")
    assert not any(b"weights" in data or b"first" in data for data in place.objects.values())
    again = open_repository(place, keys=lambda: [KEY])
    assert contents(get(again, again.find("best"), tmp_path / "back")) == contents(first)
    assert verify_store(again).problems == []
    again.remove(again.find("first"))
    assert prune(again, pack_size=256 << 10).freed > 250_000
    assert repair_index(again).problems == []
    assert contents(get(again, again.find("second"), tmp_path / "other")) == contents(second)


def test_damage_is_told_chunk_by_chunk(place: MemoryBackend, tmp_path: Path) -> None:
    """A whole group of chunks is read at once; of those that are as they were, none is called damaged."""
    repository = encrypted(place)
    image = make_image(tmp_path / "image", blocks={1 << 40: noise("image", 2_000_000)})
    put(repository, image)
    pack = max((name for name in place.objects if name.startswith("packs/")), key=lambda name: len(place.objects[name]))
    entries = read_directory(repository.backend, pack.removeprefix("packs/"))
    frame = (1_000_000 - cipher.HEAD) // (F + cipher.TAG)
    begins = entries["offset"].astype(int)
    in_frame = (begins < (frame + 1) * F) & (begins + entries["stored"] > frame * F)
    place.objects[pack] = _flip(place.objects[pack], 1_000_000)
    findings = verify_store(repository)
    assert 1 <= len(findings.problems) == in_frame.sum() < len(entries)
    assert all("is damaged" in one["message"] for one in findings.problems)
    assert findings.damaged == ["image"]
    with pytest.raises(ImageDamaged, match="chunk"):
        get(repository, repository.find("image"), tmp_path / "back")
    assert not (tmp_path / "back").exists()
    repair_index(repository)
    put(repository, image, name="again")
    assert contents(get(repository, repository.find("again"), tmp_path / "back"))["log"] == contents(image)["log"]


def test_an_encrypted_store_is_opened_with_its_key_only(place: MemoryBackend) -> None:
    encrypted(place)
    with pytest.raises(NoRights, match="no key is named"):
        open_repository(place)
    with pytest.raises(NoRights, match="not its key"):
        open_repository(place, keys=lambda: [bytes(32)])


def test_without_its_library_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(MissingPart, match="cryptography") as caught:
        location.create_store(str(tmp_path / "store"), key=KEY)
    assert "torpor[encryption]" in str(caught.value.hint)
    assert not (tmp_path / "store").exists()


def test_an_older_reader_stays_away(place: MemoryBackend) -> None:
    """What such a reader looks at: a format above its own."""
    encrypted(place)
    with pytest.raises(ImageMismatch, match="format 2"):
        sealed.check_format(place, "config", sealed.unpack_json(place, "config")["format"])


class TestKeys:
    def test_a_file_holds_bytes_or_digits(self, tmp_path: Path) -> None:
        for data in (KEY, KEY.hex().encode(), f"  {KEY.hex().upper()}\n".encode()):
            (tmp_path / "key").write_bytes(data)
            assert keys.from_file(tmp_path / "key") == KEY

    @pytest.mark.parametrize("data", [b"", b"secret", KEY[:31], KEY.hex().encode()[:-1], b"x" * 64, b"\xff" * 33])
    def test_anything_else_is_no_key(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "key").write_bytes(data)
        with pytest.raises(UsageError, match="is no key"):
            keys.from_file(tmp_path / "key")

    def test_a_new_file_is_for_its_user_and_never_replaced(self, tmp_path: Path) -> None:
        key = keys.for_new_store("s", tmp_path / "key")
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
        assert keys.for_new_store("s", tmp_path / "key") == keys.from_file(tmp_path / "key") == key
        with pytest.raises(NoRights):
            keys.make_file(tmp_path / "key")
        assert keys.make_file(tmp_path / "other") != key

    def test_a_command_prints_one_and_is_told_for_which_store(self) -> None:
        assert keys.from_command(f'test "$TORPOR_KEY_STORE" = s3://b/x && echo {KEY.hex()}', "s3://b/x") == KEY
        with pytest.raises(StepFailed, match="ended with 3"):
            keys.from_command("exit 3", "s")
        with pytest.raises(UsageError, match="is no key"):
            keys.from_command("echo wrong", "s")

    def test_the_environment_may_name_several(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = [keys.make_file(tmp_path / name) for name in ("a", "b")]
        monkeypatch.setenv("TORPOR_KEY_FILE", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
        monkeypatch.setenv("TORPOR_KEY_COMMAND", f"echo {KEY.hex()}")
        assert keys.from_environment("s") == [*made, KEY]
        with pytest.raises(UsageError, match="several"):
            keys.for_new_store("s")
        monkeypatch.setenv("TORPOR_KEY_FILE", str(tmp_path / "none"))
        with pytest.raises(NotFound, match="no key file"):
            keys.from_environment("s")

    def test_a_store_without_encryption_asks_for_no_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        location.create_store(str(tmp_path / "plain"))
        monkeypatch.setenv("TORPOR_KEY_COMMAND", "exit 3")
        assert location.open_store(str(tmp_path / "plain")).config.encryption is None
