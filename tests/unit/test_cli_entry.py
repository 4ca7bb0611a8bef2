"""What is said of a command behind whose first word Torpor's library would be missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli
from torpor.cli import entry


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sudo -u nobody python train.py", "sudo takes LD_PRELOAD out"),
        ("/usr/bin/sudo python train.py", "sudo takes LD_PRELOAD out"),
        ("su - nobody -c train", "login shell"),
        ("runuser -l nobody -c train", "login shell"),
        ("sudo env LD_PRELOAD=x TORPOR_JOB_DIR=y python train.py", None),
        ("su nobody -c train", None),
        ("runuser -u nobody -- train", None),
        ("setpriv --reuid=1 train", None),
        ("gosu nobody train", None),
        ("python sudo -", None),
        ("no-such-program", None),
    ],
)
def test_the_first_word_tells(command: str, reason: str | None) -> None:
    said = entry.warning(command.split(), namespaces=True)
    assert said is None if reason is None else reason in str(said)


@pytest.mark.parametrize("command", ["setpriv --reuid=1 train", "gosu nobody train", "su nobody -c train"])
def test_without_namespaces_no_user_can_be_changed(command: str) -> None:
    assert "CAP_SYS_ADMIN" in str(entry.warning(command.split(), namespaces=False))


def test_a_program_with_more_rights(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    program.chmod(0o4755)
    assert entry.warning([str(program)], namespaces=True) is None  # its owner's own
    subprocess.run(["chown", "65534", program], check=True)
    program.chmod(0o4755)
    assert "more rights" in str(entry.warning([str(program)], namespaces=True))


def test_it_is_said_once_by_the_run(torpor: Cli, tmp_path: Path) -> None:
    program = tmp_path / "sudo"
    shutil.copy("/bin/true", program)
    said = torpor("run", "--", str(program)).stderr.decode()
    assert said.count("sudo takes LD_PRELOAD out of the environment") == 1
    assert "LD_PRELOAD" not in torpor("run", "--", "true").stderr.decode()
