"""The control thread as the keeper meets it: states, replies, and whole cycles."""

from __future__ import annotations

import os
import re
import struct

import pytest

from tests.native.arena.harness import (
    EXPORT,
    FREEZE,
    HELLO,
    MIB,
    RECORD,
    RELEASE,
    RETURN,
    THAW,
    Program,
    close_all,
    filled,
    out,
    program_fixture,
    state,
    unchanged,
)

BAD_REQUEST, WRONG_STATE = -1, -2

program = program_fixture()


def test_hello_says_what_the_process_is(program: Program) -> None:
    live = filled(program)
    with program.control() as control:
        hello = control.json(HELLO)
    assert list(hello) == [
        *("protocol", "pid", "state", "arena", "driver_version", "devices", "blocks", "pinned"),
        *("residual", "capturing", "vm", "unknown_symbols"),
    ]
    assert hello["protocol"] == 1
    assert hello["pid"] == program.process.pid
    assert (hello["state"], hello["arena"], hello["driver_version"]) == ("running", True, 13000)
    assert [device["ordinal"] for device in hello["devices"]] == [0]
    pattern = "GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert re.fullmatch(pattern, hello["devices"][0]["uuid"])
    assert hello["devices"][0]["uuid"].replace("-", "")[3:] == program.ok("cuDeviceGetUuid_v2", out(16), 0)[0].hex()
    assert hello["blocks"]["bytes"] >= sum(size for size, _byte in live.values())
    assert hello["blocks"]["largest"] == 40 * MIB
    assert hello["residual"] == dict.fromkeys(
        [
            *("managed", "managed_variables", "ipc_exported", "ipc_imported", "vmm_imported", "multicast"),
            *("external", "sharing_lost"),
        ],
        0,
    )
    assert (hello["capturing"], hello["unknown_symbols"]) == (0, [])


def test_a_whole_cycle_twice(program: Program) -> None:
    live = filled(program)
    for _ in range(3):
        with program.control() as control:
            control.freeze()
            records, fds = control.export()
            addresses = [RECORD.unpack(record)[0] for record in records]
            assert addresses == sorted(addresses)
            moved = {"blocks": len(records), "bytes": sum(RECORD.unpack(record)[1] for record in records)}
            assert control.json(RELEASE) == moved
            assert state(control) == "away"
        with program.control() as control:
            assert state(control) == "away"
            assert control.json(HELLO)["blocks"]["count"] == len(records)
            control.give_back(records, fds)
            close_all(fds)
            assert state(control) == "frozen"
            assert control.json(HELLO)["blocks"]["imported"] == len(records)
            control.json(THAW)
            assert state(control) == "running"
        assert unchanged(program, live)
        for address, (size, byte) in live.items():
            live[address] = (size, byte + 1)
            program.fill(address, size, byte + 1)
    assert unchanged(program, live)
    for address in live:
        program.ok("cuMemFree_v2", address)


@pytest.mark.parametrize("question", [("cuStreamQuery", 0), ("cuStreamSynchronize", 0), ("cuCtxSynchronize",)])
def test_questions_and_waits_wait_while_frozen(program: Program, question: tuple[object, ...]) -> None:
    """What such a call reads is no longer mapped while the driver has the process checkpointed."""
    program.start_up()
    context = program.number("cuCtxGetCurrent", out(8))
    with program.control() as control:
        control.freeze()
        thread = program.begin(*question, first=[("cuCtxSetCurrent", context)])
        assert not program.finish(thread, 0.2)["done"]
        control.export_and_close()
        control.json(RELEASE)
        assert not program.finish(thread, 0.2)["done"]
        control.json(THAW)
        finished = program.finish(thread)
    assert finished["done"]
    assert finished["result"] == 0


def test_calls_wait_while_frozen(program: Program) -> None:
    program.start_up()
    context = program.number("cuCtxGetCurrent", out(8))
    with program.control() as control:
        control.freeze()
        thread = program.begin("cuMemAlloc_v2", out(8), 4 * MIB, first=[("cuCtxSetCurrent", context)])
        assert not program.finish(thread, 0.2)["done"]
        assert control.json(HELLO)["blocks"]["count"] == 0
        control.json(THAW)
        finished = program.finish(thread)
    assert finished["done"]
    assert finished["result"] == 0


def test_a_keeper_that_dies_in_frozen_leaves_a_running_job(program: Program) -> None:
    live = filled(program)
    control = program.control()
    control.freeze()
    _records, fds = control.export()
    close_all(fds)
    control.close()
    assert unchanged(program, live)  # would wait at the gate
    with program.control() as control:
        assert state(control) == "running"
        control.cycle()
    assert unchanged(program, live)


def test_operations_in_the_wrong_state_are_refused(program: Program) -> None:
    filled(program)
    with program.control() as control:
        everything = struct.pack("<II", 0, 64)
        for op, payload in ((EXPORT, everything), (RELEASE, b""), (RETURN, struct.pack("<I", 0)), (THAW, b"")):
            assert "message" in control.json(op, payload, status=WRONG_STATE)
        control.freeze()
        assert "message" in control.freeze(status=WRONG_STATE)
        assert "not been exported" in control.json(RELEASE, status=WRONG_STATE)["message"]
        records, fds = control.export()
        control.json(RELEASE)
        assert "message" in control.json(EXPORT, struct.pack("<II", 0, 64), status=WRONG_STATE)
        assert "away" in control.json(THAW, status=WRONG_STATE)["message"]
        control.give_back(records[:2], fds[:2])
        assert state(control) == "away"
        assert "1 blocks are away" not in control.json(THAW, status=WRONG_STATE)["message"]
        control.give_back(records[2:], fds[2:])
        close_all(fds)
        control.json(THAW)


def test_bad_requests_change_nothing(program: Program) -> None:
    live = filled(program)
    with program.control() as control:
        for raw in (b"", b"short", b"\0" * 16, struct.pack("<IHHiI", 0x52505254, 2, 1, 0, 0)):
            if raw:
                control.send_raw(raw)
                assert control.receive_raw()[0] == BAD_REQUEST
        control.send_raw(struct.pack("<IHHiI", 0x52505254, 1, HELLO, 0, 5))
        assert control.receive_raw()[0] == BAD_REQUEST
        assert control.request(99)[0] == BAD_REQUEST
        assert control.request(FREEZE, b"abc")[0] == BAD_REQUEST
        control.freeze()
        assert control.request(EXPORT, struct.pack("<II", 0, 65))[0] == BAD_REQUEST
        assert control.request(EXPORT, b"")[0] == BAD_REQUEST
        records, fds = control.export()
        control.json(RELEASE)
        address, size, device, flags, reserved = RECORD.unpack(records[0])
        for record in (
            RECORD.pack(address + 512, size, device, flags, reserved),
            RECORD.pack(address, size * 2, device, flags, reserved),
            RECORD.pack(address, size, device + 1, flags, reserved),
        ):
            control.give_back([record], fds[:1], status=BAD_REQUEST)
        assert control.request(RETURN, struct.pack("<I", 1) + records[0])[0] == BAD_REQUEST
        null = os.open("/dev/null", os.O_RDONLY)
        status, _body, _fds = control.request(RETURN, struct.pack("<I", 1) + records[0], [null])
        os.close(null)
        assert status > 0
        control.give_back(records[:1], fds[:1])
        control.give_back(records[:1], fds[:1], status=BAD_REQUEST)  # no longer away
        control.give_back(records[1:], fds[1:])
        close_all(fds)
        control.json(THAW)
    assert unchanged(program, live)


def test_more_blocks_than_one_message_takes(program: Program) -> None:
    program.start_up()
    addresses = [program.allocate(2 * MIB) for _ in range(150)]
    for number, address in enumerate(addresses):
        program.fill(address, 64, number)
    with program.control() as control:
        assert len(control.cycle()) == 150
        assert len(control.cycle()) == 150
    assert [program.read(address, 1)[0] for address in addresses] == list(range(150))


def test_connections_are_served_one_after_the_other(program: Program) -> None:
    program.start_up()
    first = program.control()
    second = program.control()
    second.socket.settimeout(0.2)
    second.send_raw(struct.pack("<IHHiI", 0x52505254, 1, HELLO, 0, 0))
    first.json(HELLO)
    with pytest.raises(TimeoutError):
        second.receive_raw()
    second.socket.settimeout(100)
    first.close()
    assert second.receive_raw()[0] == 0
    second.close()
