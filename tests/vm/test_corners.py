"""Programs in which deferring is dangerous do as they do natively: see `corners.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api.effects import settles
from tests.conftest import REPOSITORY
from tests.native.arena.harness import environment
from torpor import paths


def run(name: str, env: dict[str, str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.vm.corners", name],
        env=env,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def slow(folder: Path, action: str, level: str, **env: str) -> dict[str, str]:
    held = folder / "held"
    if action == "hang":
        action = f"hang:{held}"
    env |= {"TORPOR_TEST_HELD": str(held), "TORPOR_SIM_FAULT": f"cuMemsetD16Async@1={action}"}
    made = environment(folder, TORPOR_VM=level, **env)
    del made["TORPOR_JOB_DIR"]  # some have children
    return made


def compare(name: str, folder: Path, action: str = "hang", level: str = "always", **env: str) -> None:
    """The same at this level, with a driver that is slow (or refuses) where the program says, as natively."""
    library = paths.software_gpu()
    assert library is not None
    native = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "TORPOR_SIM_DIR": str(folder), **env}
    assert run(name, slow(folder, action, level, **env)) == run(name, native)


ALIKE = (
    "event_node_of_a_queued_graph",
    "event_of_a_capture",
    "graph_that_allocates",
    "fork_handlers",
    "fork_sets_the_driver_going",
    "calls_in_callbacks",
    "event_between_processes",
    "kernel_by_two_names",
    "contexts_by_turns",
    "parameters_in_a_buffer",
)


@pytest.mark.parametrize("name", ALIKE)
def test_as_natively(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path)


def test_a_fork_waits_for_the_queue(tmp_path: Path) -> None:
    assert run("fork_waits_for_the_queue", slow(tmp_path, "hang", "always")) == ["7", "SUCCESS"]


def test_a_failure_is_told_in_its_own_context(tmp_path: Path) -> None:
    compare("failure_elsewhere", tmp_path, "fail:1")


@pytest.mark.parametrize("name", ["other_device", "kernel_on_two_devices"])
def test_several_devices(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path, TORPOR_SIM_DEVICES="2")


@pytest.mark.parametrize(
    "symbol",
    [
        "cuGraphExecEventRecordNodeSetEvent",
        "cuGraphExecEventWaitNodeSetEvent",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuSurfRefSetArray",  # a launch takes what is bound when the driver gets it
        "cuTexRefSetAddress_v2",
        "cuFuncSetBlockShape",  # and overwrites what these have set
        "cuFuncSetSharedSize",
        "cuParamSetSize",
        "cuParamSetv",
        "cuDeviceSetGraphMemAttribute",  # marks that launches of graphs raise
    ],
)
def test_what_changes_the_meaning_of_work_comes_after_it(symbol: str) -> None:
    assert settles(symbol)
