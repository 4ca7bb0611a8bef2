"""Which CRIU is taken, and what the host offers it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from torpor import paths
from torpor.errors import CriuMissing, TorporError
from torpor.process import credentials, criu, probe
from torpor.process.criu_images import pipe_contents


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No CRIU of this machine is found, save by name."""
    monkeypatch.delenv("TORPOR_CRIU", raising=False)
    monkeypatch.setattr(paths, "criu_prefixes", lambda: [tmp_path / "prefix"])
    monkeypatch.setattr(shutil, "which", lambda *_args, **_options: None)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> criu.Criu:
    """The CRIU that the tests run with."""
    monkeypatch.undo()
    return criu.find_criu()


def pretend(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Version: {version}\n")
    path.chmod(0o755)
    return path


def test_none() -> None:
    with pytest.raises(CriuMissing, match=r"no CRIU 4\.1 or newer") as caught:
        criu.find_criu()
    assert caught.value.hint is not None
    assert "scripts/criu" in caught.value.hint


@pytest.mark.parametrize(("version", "good"), [("3.17.1", False), ("4.0", False), ("4.1", True), ("4.10.2", True)])
def test_versions(tmp_path: Path, version: str, good: bool) -> None:
    program = pretend(tmp_path / "prefix" / "criu", version)
    if good:
        assert criu.find_criu() == criu.Criu((str(program),), version, tmp_path / "prefix")
    else:
        with pytest.raises(CriuMissing, match=f"is {version}"):
            criu.find_criu()


def test_one_that_does_not_run(tmp_path: Path) -> None:
    pretend(tmp_path / "prefix" / "criu", "4.1").write_text("#!/no/such/interpreter\n")
    with pytest.raises(CriuMissing, match="not one that runs here"):
        criu.find_criu()


def test_the_named_one_is_the_only_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(tmp_path / "prefix" / "criu", "4.1")
    named = pretend(tmp_path / "mine", "4.2")
    monkeypatch.setenv("TORPOR_CRIU", str(named))
    assert criu.find_criu().argv == (str(named),)
    named.unlink()
    with pytest.raises(CriuMissing):
        criu.find_criu()


def test_a_prefix_may_be_moved(real: criu.Criu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `scripts/criu` makes runs wherever it is, by the keeper and by hand."""
    made = Path(
        subprocess.run([REPOSITORY / "scripts" / "criu"], capture_output=True, text=True, check=True).stdout.strip()
    )
    if (made.parent / "lib" / "ld.so").exists():
        moved = tmp_path / "moved"
        shutil.copytree(made.parent, moved)
        monkeypatch.setenv("TORPOR_CRIU", str(moved))
        found = criu.find_criu()
        assert found.argv[0] == str(moved / "lib" / "ld.so")
        made = moved / "criu"
    else:
        found = real
    said = subprocess.run([made, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"Version: {found.version}" in said


def test_the_kernel_has_what_criu_needs(real: criu.Criu) -> None:
    assert probe.check(real) == []
    found = {feature.name: feature.available for feature in probe.features(real, ["clone3_set_tid", "no_such_feature"])}
    assert found == {"clone3_set_tid": True, "no_such_feature": False}


def test_what_criu_complains_about(tmp_path: Path) -> None:
    broken = tmp_path / "criu"
    broken.write_text("#!/bin/sh\necho 'Error (criu/cr-check.c:1): No such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    assert probe.check(criu.Criu((str(broken),), "4.1", broken)) == ["Error (criu/cr-check.c:1): No such thing"]
    broken.write_text("#!/bin/sh\nexit 3\n")
    assert probe.check(criu.Criu((str(broken),), "4.1", broken)) == ["criu check ended with status 3"]


def test_capabilities_by_name() -> None:
    every = sum(1 << bit for bit, _ in probe.CAPABILITIES.values())
    assert probe.missing_capabilities(every) == []
    assert probe.missing_capabilities(every & ~(1 << 21)) == ["CAP_SYS_ADMIN"]
    assert probe.missing_capabilities(0) == list(probe.CAPABILITIES)


def test_the_supervisor_loads_nothing_heavy() -> None:
    """Each job pays for its imports: not the package, no typing, no ctypes before it is needed."""
    boot = (
        "import sys, types; package = types.ModuleType('torpor'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['torpor'] = package; import torpor.process.supervisor; print(*sys.modules)"
    )
    package = str(Path(criu.__file__).parents[1])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", boot, package], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "torpor.process.streams" in loaded
    assert not loaded & {"torpor.errors", "torpor.paths", "typing", "dataclasses", "subprocess", "pathlib", "asyncio"}


def entry(pipe: int, content: bytes) -> bytes:
    message = bytes([0x08, pipe, 0x10, len(content)])
    return len(message).to_bytes(4, "little") + message + content


def test_what_a_pipe_held(tmp_path: Path) -> None:
    begin = (0x54564319).to_bytes(4, "little") + (0x56453709).to_bytes(4, "little")
    image = tmp_path / "pipes-data.img"
    image.write_bytes(begin + entry(7, b"seven") + entry(9, b"") + entry(5, b"five\n"))
    assert pipe_contents(tmp_path, "pipe:[5]") == b"five\n"
    assert pipe_contents(tmp_path, "pipe:[9]") == b""
    assert pipe_contents(tmp_path, "pipe:[11]") == b""
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(TorporError, match="short"):
        pipe_contents(tmp_path, "pipe:[5]")
    image.write_bytes(b"nonsense")
    with pytest.raises(TorporError, match="not the CRIU image"):
        pipe_contents(tmp_path, "pipe:[5]")


def test_capabilities_have_the_kernels_numbers() -> None:
    for name, (bit, _meaning) in probe.CAPABILITIES.items():
        assert credentials.names(1 << bit) == [name]
    assert credentials.names(1 << 63 | 1) == ["CAP_CHOWN", "capability 63"]
