"""The machine that the environment describes, and what the software GPU says about its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.simgpu.program import (
    GIB,
    INVALID_DEVICE,
    INVALID_VALUE,
    MIB,
    NO_DEVICE,
    NOT_INITIALIZED,
    SUCCESS,
    Mapping,
    Program,
    Start,
    out,
    programs_fixture,
)

start = programs_fixture()

UUIDS = [f"54525052-5349-4d00-8000-0000000000{ordinal:02x}" for ordinal in range(4)]
MAJOR, MINOR, BUS = 75, 76, 33


def count(program: Program) -> int:
    return program.number("cuDeviceGetCount", out(4))


def uuid(program: Program, device: int) -> str:
    text = program.ok("cuDeviceGetUuid_v2", out(16), device)[0].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def name(program: Program, device: int) -> str:
    return program.ok("cuDeviceGetName", out(100), 100, device)[0].rstrip(b"\0").decode()


def attribute(program: Program, number: int, device: int = 0) -> int:
    return program.number("cuDeviceGetAttribute", out(4), number, device)


def test_defaults(start: Start) -> None:
    program = start()
    assert program.number("cuDriverGetVersion", out(4)) == 13000  # works before cuInit
    program.ok("cuInit", 0)
    assert count(program) == 1
    assert name(program, 0) == "Torpor software GPU"
    assert uuid(program, 0) == UUIDS[0]
    assert program.number("cuDeviceTotalMem_v2", out(8), 0) == 16 * GIB
    assert (attribute(program, MAJOR), attribute(program, MINOR)) == (9, 0)
    assert program.python("cuda().torporSimVersion()") == 1


def test_machine_by_environment(start: Start) -> None:
    other = "0" * 31 + "7"
    program = start(
        TORPOR_SIM_DEVICES="3",
        TORPOR_SIM_MEMORY="512M,2G",
        TORPOR_SIM_ARCH="8.0,9.0",
        TORPOR_SIM_NAME="First,Other",
        TORPOR_SIM_UUID=f"GPU-{other}",
        TORPOR_SIM_DRIVER_VERSION="12080",
    )
    program.ok("cuInit", 0)
    assert count(program) == 3
    assert [name(program, i) for i in range(3)] == ["First", "Other", "Other"]
    assert [program.number("cuDeviceTotalMem_v2", out(8), i) for i in range(3)] == [512 * MIB, 2 * GIB, 2 * GIB]
    assert [attribute(program, MAJOR, i) for i in range(3)] == [8, 9, 9]
    assert uuid(program, 0).replace("-", "") == other
    assert [uuid(program, i) for i in (1, 2)] == UUIDS[1:3]
    assert program.number("cuDriverGetVersion", out(4)) == 12080
    assert len({attribute(program, BUS, i) for i in range(3)}) == 3


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("2,0", [2, 0]),
        (f"GPU-{UUIDS[1]}", [1]),
        (f"3,GPU-{UUIDS[0]},1", [3, 0, 1]),
        ("1,9,2", [1]),  # the first that names nothing ends the list
        ("", []),
        ("-1", []),
        ("0,0", []),
    ],
)
def test_visible_devices(start: Start, visible: str, seen: list[int]) -> None:
    program = start(TORPOR_SIM_DEVICES="4", CUDA_VISIBLE_DEVICES=visible)
    assert program.status("cuInit", 0) == (SUCCESS if seen else NO_DEVICE)
    if seen:
        assert [uuid(program, i) for i in range(count(program))] == [UUIDS[i] for i in seen]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TORPOR_SIM_DEVICES", "many"),
        ("TORPOR_SIM_DEVICES", "17"),
        ("TORPOR_SIM_MEMORY", "4GB"),
        ("TORPOR_SIM_MEMORY", "0"),
        ("TORPOR_SIM_ARCH", "9"),
        ("TORPOR_SIM_UUID", "GPU-1"),
        ("TORPOR_SIM_LINK", "fast"),
        ("TORPOR_SIM_LINK", "-1"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(start: Start, variable: str, value: str) -> None:
    program = start(**{variable: value})
    assert program.status("cuInit", 0) == INVALID_VALUE
    assert variable in program.end()


def test_errors(start: Start) -> None:
    program = start()
    assert program.status("cuDeviceGetCount", out(4)) == NOT_INITIALIZED
    assert program.status("cuInit", 1) == INVALID_VALUE
    program.ok("cuInit", 0)
    program.ok("cuInit", 0)
    assert program.status("cuDeviceGet", out(4), 1) == INVALID_DEVICE
    assert program.status("cuDeviceGet", out(4), -1) == INVALID_DEVICE
    assert program.status("cuDeviceGet", None, 0) == INVALID_VALUE
    assert program.status("cuDeviceGetAttribute", out(4), 100000, 0) == INVALID_VALUE
    assert program.status("cuDeviceGetAttribute", out(4), MAJOR, 7) == INVALID_DEVICE


def test_every_attribute_has_an_answer(start: Start) -> None:
    program = start()
    program.ok("cuInit", 0)
    for number in range(1, 148):
        assert program.status("cuDeviceGetAttribute", out(4), number, 0) == SUCCESS


def test_bus_ids_lead_back(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.ok("cuInit", 0)
    for device in range(2):
        text = program.ok("cuDeviceGetPCIBusId", out(32), 32, device)[0]
        assert program.number("cuDeviceGetByPCIBusId", out(4), {"bytes": text.hex()}) == device


def test_peers(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.ok("cuInit", 0)
    assert program.number("cuDeviceCanAccessPeer", out(4), 0, 1) == 1
    assert program.number("cuDeviceCanAccessPeer", out(4), 0, 0) == 0
    first, second = (program.number("cuDevicePrimaryCtxRetain", out(8), device) for device in range(2))
    program.ok("cuCtxSetCurrent", first)
    assert program.status("cuCtxDisablePeerAccess", second) == 705
    program.ok("cuCtxEnablePeerAccess", second, 0)
    assert program.status("cuCtxEnablePeerAccess", second, 0) == 704
    assert program.status("cuCtxEnablePeerAccess", first, 0) == 217
    program.ok("cuCtxDisablePeerAccess", second)


def test_a_forked_child_has_no_driver(start: Start) -> None:
    program = start()
    program.start_up()
    assert program.forked("cuInit", 0) == NOT_INITIALIZED
    assert program.forked("cuMemGetInfo_v2", out(8), out(8)) == NOT_INITIALIZED
    assert program.forked("cuDriverGetVersion", out(4)) == SUCCESS
    program.allocate(MIB)


def test_a_forked_child_holds_nothing(start: Start) -> None:
    program = start()
    program.start_up()
    Mapping(program, 8 * MIB)
    assert [target for target in program.python("descriptors()").values() if "simgpu" in target] != []
    program.send(fork={"python": "descriptors()"})
    assert [target for target in program.receive().values() if "simgpu" in target] == []
    program.allocate(MIB)


def test_nothing_is_started_before_cuinit(start: Start, tmp_path: Path) -> None:
    program = start()
    before = program.python("sorted(descriptors().values())")
    program.number("cuDriverGetVersion", out(4))
    assert program.python("sorted(descriptors().values())") == before
    assert program.python("len(os.listdir('/proc/self/task'))") == 1
    assert list(tmp_path.iterdir()) == []
