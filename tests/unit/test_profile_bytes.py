"""Bytes moved are read off the arguments of calls that succeed, by direction; what is generated for it is whole."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.copies import COPIES, DIRECTIONS, copy_of, element_bytes
from api.effects import effect_of
from api.families import family_of
from api.load import functions
from tests.conftest import eventually
from tests.native.arena.harness import Program, out
from torpor.profiling import calls

PROFILE = 7
HOST, DEVICE, UNIFIED = 1, 2, 4


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path, TORPOR_PROFILE="counts")
    yield running
    assert running.end() == ""


def counted(program: Program) -> dict[str, Any]:
    control = program.control()
    try:
        answer = control.json(PROFILE, struct.pack("<IIQ", 3, 0, 0))
    finally:
        control.socket.close()
    return answer


def moved(program: Program) -> dict[str, int]:
    return {name: count for name, count in counted(program)["bytes"].items() if count}


def flat(source: tuple[int, int], target: tuple[int, int], width: int, height: int) -> dict[str, str]:
    """CUDA_MEMCPY2D; each side is a memory type and an address."""

    def side(kind: int, address: int) -> bytes:
        host, device = (address, 0) if kind == HOST else (0, address)
        return struct.pack("<QQI4xQQQQ", 0, 0, kind, host, device, 0, 64)

    return {"bytes": (side(*source) + side(*target) + struct.pack("<QQ", width, height)).hex()}


def test_each_direction(program: Program) -> None:
    program.start_up()
    one, two = program.allocate(4096), program.allocate(4096)
    program.execute("host = (ctypes.c_char * 4096)()")
    host = program.value("ctypes.addressof(host)")
    program.ok("cuMemcpyHtoD_v2", one, host, 100)
    assert moved(program) == {"host_to_device": 100}
    program.ok("cuMemcpyHtoDAsync_v2", one, host, 1000, 0)
    program.ok("cuMemcpyDtoH_v2", host, one, 60)
    program.ok("cuMemcpyDtoHAsync_v2", host, one, 600, 0)
    program.ok("cuMemcpyDtoD_v2", two, one, 40)
    program.ok("cuMemcpyDtoDAsync_v2", two, one, 400, 0)
    program.ok("cuMemcpy", two, one, 10)
    program.ok("cuMemcpyAsync", two, one, 100, 0)
    program.ok("cuMemsetD8_v2", one, 1, 3)
    program.ok("cuMemsetD16_v2", one, 1, 7)
    program.ok("cuMemsetD32Async", one, 1, 11, 0)
    program.ok("cuMemsetD2D32_v2", one, 64, 1, 3, 2)
    expected = {
        "host_to_device": 1100,
        "device_to_host": 660,
        "device_to_device": 440,
        "unified": 110,
        "fill": 3 + 14 + 44 + 24,
    }
    assert moved(program) == expected
    for source, target, direction in (
        ((HOST, host), (DEVICE, one), "host_to_device"),
        ((DEVICE, one), (HOST, host), "device_to_host"),
        ((DEVICE, one), (DEVICE, two), "device_to_device"),
        ((UNIFIED, one), (DEVICE, two), "unified"),
        ((HOST, host), (HOST, host + 2048), "host_to_host"),
    ):
        program.ok("cuMemcpy2D_v2", flat(source, target, 5, 3))
        expected[direction] = expected.get(direction, 0) + 15
        assert moved(program) == expected


def test_what_fails_moves_nothing(program: Program) -> None:
    program.start_up()
    result, _ = program.call("cuMemcpyHtoD_v2", 0x1234, 0x5678, 100)
    assert result != 0
    assert program.call("cuMemcpy2D_v2", None)[0] != 0
    found = counted(program)
    assert (found["calls"]["cuMemcpyHtoD_v2"], found["calls"]["cuMemcpy2D_v2"]) == (1, 1)
    assert sum(found["bytes"].values()) == 0


def test_time_in_calls_is_what_they_take(tmp_path: Path) -> None:
    """A wait for a host function that we let go: at least as long as it was held, at most as long as we waited."""
    program = Program(tmp_path, TORPOR_PROFILE="times")
    context = program.start_up()
    stream = program.number("cuStreamCreate", out(8), 0)
    read, write = program.value("os.pipe()")
    program.ok("cuLaunchHostFunc", stream, {"wait": read}, None)
    thread = program.begin("cuStreamSynchronize", stream, first=[("cuCtxSetCurrent", context)])
    eventually(lambda: counted(program)["calls"].get("cuStreamSynchronize"))
    begun = counted(program)["clock_ns"]
    while (now := counted(program)["clock_ns"]) - begun < 100e6:
        pass
    program.execute(f"os.write({write}, b'x')")
    assert program.finish(thread)["result"] == 0
    found = counted(program)
    spent = found["nanoseconds"]["cuStreamSynchronize"]
    assert (now - begun) / 4 < spent < found["clock_ns"]
    assert found["nanoseconds"]["cuLaunchHostFunc"] < spent
    assert "cuCtxSetCurrent" not in found["nanoseconds"]  # not worth a look at the clock
    assert program.end() == ""


def test_a_lease_does_not_run_while_frozen(program: Program) -> None:
    program.start_up()
    assert 0 < counted(program)["lease_ms"] <= 60_000
    control = program.control()
    try:
        control.freeze()
        ask = struct.pack("<IIQ", 3, 0, 0)
        frozen = control.json(PROFILE, ask)
        assert (frozen["state"], frozen["level"], frozen["lease_ms"]) == ("frozen", "counts", -1)
        assert "devices" not in frozen
        control.json(6)
        woken = control.json(PROFILE, ask)
        assert (woken["state"], woken["level"]) == ("running", "counts")
        assert 0 <= woken["lease_ms"] <= 10_000
        control.freeze()
    finally:
        control.socket.close()  # which thaws
    assert counted(program)["lease_ms"] >= 0


def test_the_software_gpu_says_how_long_it_was_busy(program: Program) -> None:
    program.start_up()
    memory = program.allocate(64 << 20)
    assert counted(program)["busy_ns"][0] >= 0
    before = counted(program)
    program.ok("cuMemsetD8Async", memory, 1, 64 << 20, 0)
    program.ok("cuCtxSynchronize")
    after = counted(program)
    busy = after["busy_ns"][0] - before["busy_ns"][0]
    assert 0 < busy <= after["clock_ns"] - before["clock_ns"]
    assert after["devices"][0]["uuid"].startswith("GPU-")


def test_copies_are_described_completely() -> None:
    names = [function.name for function in functions()]
    found = {name: copy_of(name) for name in names if copy_of(name)}
    silent = {name for name in names if family_of(name) == "copy" and name not in found}
    assert all("Prefetch" in name or "Discard" in name or "3DBatch" in name or "Decompress" in name for name in silent)
    assert {direction for direction, _size in filter(None, found.values())} <= {*DIRECTIONS, ""}
    assert all(effect_of(name) == "submits" for name in found)
    assert {element_bytes(name) for name in found if name.startswith("cuMemset")} == {1, 2, 4}
    with pytest.raises(ValueError, match="fills nothing"):
        element_bytes("cuMemcpy")
    assert len({pattern for _, _, pattern in COPIES}) == len(COPIES)


def test_facts_cover_every_symbol() -> None:
    known = calls.known()
    exported = {f.name for f in functions() if family_of(f.name) != "debugger"}
    assert exported <= set(known)
    assert known["cuCtxGetDevice"].question
    assert known["cuLaunchKernel"].effect == "submits"
    assert not known["cuStreamQuery"].question
    assert calls.of("cuFromTheFuture").family == "unknown"
    launches = {name for name in known if calls.is_kernel_launch(name)}
    assert {"cuLaunchKernel", "cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel", "cuLaunchGrid"} <= launches
    assert not launches & {"cuLaunchHostFunc", "cuGraphLaunch"}
