"""Descriptors of returned blocks that a process keeps: blocks go out again without a copy, at no risk to the job."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import (
    EXPORT,
    MIB,
    OUT_OF_MEMORY,
    RELEASE,
    THAW,
    Program,
    close_all,
    filled,
    out,
    program_fixture,
    unchanged,
)

program = program_fixture()
LIMIT = 2048
LOWEST = LIMIT // 2


def kept(running: Program) -> list[int]:
    """Numbers of the descriptors that are kept: nothing else is that high."""
    return sorted(int(number) for number in running.value("open_files()") if int(number) >= LOWEST)


def large(running: Program, share: int, of: int) -> int:
    """An allocation of this share of the free memory, with a mark at both ends."""
    size = running.number("cuMemGetInfo_v2", out(8), out(8)) // (2 * MIB) // of * share * 2 * MIB
    address = running.allocate(size)
    for end in (address, address + size - 64):
        running.fill(end, 64, 6)
    running.execute(f"large = ({address}, {size})")
    return address


def still_marked(running: Program) -> bool:
    address, size = running.value("large")
    return all(running.read(end, 64) == b"\6" * 64 for end in (address, address + size - 64))


@pytest.fixture
def tight(tmp_path: Path) -> Any:
    """A program with a block of 3/5 of its small GPU that was away once."""
    running = Program(tmp_path, TORPOR_SIM_MEMORY="1G")
    running.start_up()
    running.limit_descriptors(LIMIT)
    large(running, 3, 5)
    with running.control() as control:
        control.cycle()
    yield running
    running.end()


def test_a_block_larger_than_what_is_free_goes_out_again_and_again(tight: Program) -> None:
    for _time in range(3):
        with tight.control() as control:
            control.cycle()
        assert still_marked(tight)
        assert len(kept(tight)) == 1


def test_none_is_open_while_the_blocks_are_away(program: Program) -> None:
    live = filled(program)
    program.limit_descriptors(LIMIT)
    with program.control() as control:
        records = control.cycle()
        assert len(kept(program)) == len(records)
        control.freeze()
        records, fds = control.export()
        control.json(RELEASE)
        assert kept(program) == []
        control.give_back(records, fds)
        close_all(fds)
        control.json(THAW)
        assert len(kept(program)) == len(records)
    assert unchanged(program, live)


def test_a_freed_block_takes_its_descriptor_and_its_memory_with_it(tight: Program) -> None:
    before = tight.number("cuMemGetInfo_v2", out(8), out(8))
    address, size = tight.value("large")
    tight.ok("cuMemFree_v2", address)
    assert kept(tight) == []
    assert tight.number("cuMemGetInfo_v2", out(8), out(8)) == before + size


def close_it(running: Program, number: int) -> None:
    running.execute(f"os.close({number})")


def replace_it(running: Program, number: int) -> None:
    running.execute(f"os.dup2(os.open('/dev/null', os.O_RDONLY), {number})")


def replace_it_by_memory(running: Program, number: int) -> None:
    running.execute(f"memory = os.memfd_create('mine'); os.dup2(memory, {number})")


@pytest.mark.parametrize("misfortune", [close_it, replace_it, replace_it_by_memory])
def test_one_that_the_program_closed_is_noticed(tight: Program, misfortune: Callable[[Program, int], None]) -> None:
    [number] = kept(tight)
    misfortune(tight, number)
    files = tight.value("open_files()")
    with tight.control() as control:
        control.freeze()
        control.json(EXPORT, (0).to_bytes(4, "little") + (64).to_bytes(4, "little"), status=OUT_OF_MEMORY)
        control.json(THAW)
    assert still_marked(tight)
    tight.ok("cuMemFree_v2", tight.value("large[0]"))
    left = {name for number, name in tight.value("open_files()").items() if int(number) >= LOWEST}
    assert left == {name for number, name in files.items() if int(number) >= LOWEST}  # what is the program's stays


def test_a_program_with_few_numbers_keeps_all_of_them(program: Program) -> None:
    live = filled(program)
    program.limit_descriptors(1000)
    before = program.value("open_files()")
    with program.control() as control:
        control.cycle()
        control.cycle()
    assert unchanged(program, live)
    eventually(lambda: set(program.value("open_files()")) == set(before))


def test_of_many_blocks_the_large_ones_are_kept(program: Program) -> None:
    program.start_up()
    program.limit_descriptors(LIMIT)
    room = LIMIT // 4
    for _number in range(room + 20):
        program.allocate(2 * MIB)
    big = [program.allocate(4 * MIB) for _number in range(10)]
    with program.control() as control:
        control.cycle()
        assert len(kept(program)) == room
        for address in big:
            program.ok("cuMemFree_v2", address)
        assert len(kept(program)) == room - len(big)
        control.cycle()


def test_a_descriptor_of_the_programs_leads_to_the_memory_again(program: Program) -> None:
    """One that it exported and keeps open: meanwhile it is closed, and it must not lead to what is left behind."""
    program.start_up()
    properties = struct.pack("<IIIi", 1, 1, 1, 0) + bytes(24)
    handle = program.number("cuMemCreate", out(8), 2 * MIB, {"bytes": properties.hex()}, 0)
    fd = program.number("cuMemExportToShareableHandle", out(4), handle, 1, 0)
    program.execute(f"second = os.dup({fd}); os.set_inheritable(second, True)")
    second = program.value("second")
    address = program.number("cuMemAddressReserve", out(8), 2 * MIB, 0, 0, 0)
    access = {"bytes": struct.pack("<IiI", 1, 0, 3).hex()}
    program.ok("cuMemMap", address, 2 * MIB, 0, handle, 0)
    program.ok("cuMemSetAccess", address, 2 * MIB, access, 1)
    program.fill(address, 2 * MIB, 5)
    with program.control() as control:
        for _time in range(2):
            control.freeze()
            records, fds = control.export()
            control.json(RELEASE)
            assert {program.value(f"open_files()[{number}]") for number in (fd, second)} == {"/dev/null"}
            control.give_back(records, fds)
            close_all(fds)
            control.json(THAW)
    assert program.value(f"[os.get_inheritable({fd}), os.get_inheritable({second})]") == [False, True]
    for number in (fd, second):
        again = program.number("cuMemImportFromShareableHandle", out(8), number, 1)
        there = program.number("cuMemAddressReserve", out(8), 2 * MIB, 0, 0, 0)
        program.ok("cuMemMap", there, 2 * MIB, 0, again, 0)
        program.ok("cuMemSetAccess", there, 2 * MIB, access, 1)
        assert program.read(there, 2 * MIB) == b"\5" * 2 * MIB
        program.fill(there, 64, number % 251)
        assert program.read(address, 64) == bytes([number % 251]) * 64
        program.fill(there, 64, 5)


@pytest.mark.parametrize("way", ["os.fork()", "ctypes.CDLL(None).fork()"])
def test_a_forked_child_does_not_keep_memory_alive(tight: Program, way: str) -> None:
    # The child lives until the pipe is closed, and says which descriptors it has.
    tight.execute(
        "import os\n"
        "told, telling = os.pipe()\n"
        "waiting, stop = os.pipe()\n"
        f"child = {way}\n"
        "if child == 0:\n"
        "    os.close(stop)\n"
        "    os.write(telling, repr(sorted(open_files())).encode())\n"
        "    os.read(waiting, 1)\n"
        "    os._exit(0)\n"
        "os.close(waiting)\n"
    )
    numbers = eval(tight.value("os.read(told, 65536).decode()"))
    assert [number for number in numbers if number >= LOWEST] == []
    assert len(kept(tight)) == 1
    before = tight.number("cuMemGetInfo_v2", out(8), out(8))
    tight.ok("cuMemFree_v2", tight.value("large[0]"))
    assert tight.number("cuMemGetInfo_v2", out(8), out(8)) > before
    tight.execute("os.close(stop); os.waitpid(child, 0)")
    assert os.path.exists(tight.socket)
