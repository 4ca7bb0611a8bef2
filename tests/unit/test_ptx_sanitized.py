"""The PTX reader and the executor under the address and undefined-behaviour sanitizers, and the reader's fuzzer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.native import sanitized
from tests.native.ptx.bridge import Module, Rejected

CORPUS = sorted((sanitized.PTX / "corpus").iterdir())
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_fuzzers_texts_are_read_or_rejected(path: Path) -> None:
    """Those named `crash-…` ended the reader once; the others are whole modules."""
    text = path.read_bytes().decode(errors="replace")
    if path.suffix == ".ptx":
        Module(text)
        return
    said = "line"
    try:
        Module(text)
    except Rejected as rejected:
        said = str(rejected)
    assert "line" in said


def runtime(name: str) -> str:
    """A sanitizer's library, to be loaded before a program that was built without it."""
    found = subprocess.run([sanitized.COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_ptx_tests_pass_under_sanitizers() -> None:
    bridge = sanitized.bridge("address")
    tests = [str(path) for path in sorted((REPOSITORY / "tests/unit").glob("test_ptx_*.py")) if path != Path(__file__)]
    env = {**os.environ, **NO_LEAKS, "TORPOR_PTX_BUILD": str(bridge.parent),
           "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}"}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=600", *tests]
    done = subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_reader_takes_damaged_texts(tmp_path: Path) -> None:
    command = [str(sanitized.fuzzer()), "60", str(sanitized.PTX / "corpus"), str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, **NO_LEAKS}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    executions = re.search(r"^(\d+) executions", done.stdout.splitlines()[-1])
    assert executions and int(executions[1]) > 1000
