"""Every symbol of the driver is accounted for, and the built library exports what the data says."""

from __future__ import annotations

import re
import subprocess

import pytest

from api.doors import door_of
from api.effects import EFFECTS, MEANING, effect_of
from api.families import FAMILIES, family_of
from api.hooks import HOOKS
from api.load import answers, exported_symbols, functions
from api.seed.enums import ENUMS
from tests.conftest import REPOSITORY
from torpor import paths

DOORS = ("forward", "answer", "note", "gate", "wait", "hook", "override", "refuse", "absent")
# Ours beside the driver's: the loader's entry points that we interpose, and the mark that tells us from a driver.
BESIDE = {"dlopen", "dlmopen", "torpor_interposer_version"}


def test_the_data_covers_the_real_driver() -> None:
    assert sorted(function.name for function in functions()) == sorted(exported_symbols())


def test_each_symbol_has_one_door_with_a_reason() -> None:
    for function in functions():
        door = door_of(function.name)
        assert door.kind in DOORS
        assert len(door.reason) > 20, function.name
        assert (door.kind == "refuse") == bool(door.status), function.name
        if function.params is None:
            assert door.kind in ("forward", "absent"), f"{function.name} has no signature to wrap"


def test_hand_written_doors_name_real_symbols() -> None:
    assert set(HOOKS) <= {function.name for function in functions()}


def test_what_changes_device_state_is_gated() -> None:
    """Reads back what was decided: for calls that must not run while a job is frozen, those that wait for the GPU, and
    those whose answer lies in the process."""
    for symbol in ("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuGraphLaunch", "cuMemcpyHtoDAsync_v2",
                   "cuMemsetD8Async_ptsz", "cuMemAllocAsync", "cuModuleLoadData",
                   "cuMemcpyBatchAsync_v2_ptsz", "cuLaunchHostFunc",
                   "cuStreamWaitValue32_v2", "cuMemHostRegister_v2", "cuCtxSetLimit", "cuEventRecord",
                   "cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery", "cuEventElapsedTime_v2",
                   "cuPointerGetAttribute", "cuMemGetInfo_v2"):  # fmt: skip
        door = door_of(symbol)
        assert door.kind == "gate" or door.gated, symbol
    for symbol in ("cuStreamSynchronize", "cuStreamSynchronize_ptsz", "cuCtxSynchronize", "cuCtxSynchronize_v2"):
        assert door_of(symbol).kind == "wait", symbol
    assert not door_of("cuEventSynchronize").gated  # its body waits for two things
    for symbol in ("cuCtxGetDevice", "cuGetErrorString", "cuKernelGetAttribute", "cuStreamIsCapturing"):
        assert door_of(symbol).kind == "answer", symbol
    for symbol in ("cuCtxSetCurrent", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxSetFlags_v2"):
        assert door_of(symbol).kind == "note", symbol
    for symbol in ("cuStreamGetId", "cuLibraryGetKernelCount"):
        assert door_of(symbol).kind == "forward", symbol


def test_variants_share_family_and_effect() -> None:
    for function in functions():
        base = re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", function.name)
        assert family_of(function.name) == family_of(base)
        assert effect_of(function.name) == effect_of(base), function.name


def test_no_idle_rule() -> None:
    """A pattern that decides nothing is a misspelling or a leftover."""
    names = [function.name for function in functions()]
    for family, _, _ in FAMILIES:
        assert any(family_of(name) == family for name in names), family
    for effect, pattern in EFFECTS:
        assert effect in MEANING
        assert any(re.match(pattern, name) and effect_of(name) == effect for name in names), pattern


def test_answers_name_exported_symbols() -> None:
    exported = set(exported_symbols())
    for base, rows in answers().items():
        named = {symbol for row in rows for symbol in (row.symbol, row.per_thread) if symbol}
        assert named <= exported, base
        assert [row.since for row in rows] == sorted({row.since for row in rows}), base


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_answers_agree_with_the_real_driver(flags: int) -> None:
    """At each version at which a real driver was asked."""
    lines = (REPOSITORY / "api" / "getproc_580.txt").read_text().splitlines()
    asked = [line.split() for line in lines if not line.startswith("#")]
    checked = 0
    for base, version, given_flags, _, _, symbol in asked:
        if int(given_flags) != flags:
            continue
        picked = ""
        for row in answers().get(base, ()):
            if row.since <= int(version):
                picked = row.per_thread if flags == 2 else row.symbol
        assert picked == symbol.replace("-", ""), (base, version)
        checked += 1
    assert checked > 500


def test_the_abi_has_the_status_codes_that_we_answer_with() -> None:
    values = {name: int(value, 0) for enum in ENUMS if enum.name == "CUresult" for name, value in enum.values}
    assert (values["CUDA_ERROR_NO_DEVICE"], values["CUDA_ERROR_NOT_SUPPORTED"]) == (100, 801)
    answered = (REPOSITORY / "native/interposer/prim/resolve.S").read_text()
    assert "torpor_answer_no_device 100" in answered
    assert "torpor_answer_not_supported 801" in answered


def test_the_built_library_exports_exactly_these() -> None:
    library = paths.interposer()
    assert library is not None, "the interposer is not built: run scripts/setup"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in listed.splitlines()}
    assert exported == {f.name for f in functions() if door_of(f.name).kind != "absent"} | BESIDE
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    assert "[libcuda.so.1]" in dynamic
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libdl.so.2", "libpthread.so.0"}
