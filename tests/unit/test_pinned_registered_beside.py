"""What else a process maps while its memory becomes a file and private again, and what it no longer may map."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.arena.harness import MIB, SUCCESS, Program, program_fixture
from tests.native.registered.memory import (
    PAGE,
    PLACE,
    SIZE,
    area,
    in_a_file,
    is_private,
    prepared,
    register,
    with_library,
)

pytestmark = pytest.mark.criu  # for the right to make threads wait

program = program_fixture(TORPOR_PINNED=PLACE)

CROWD = f"""
most = int(open('/proc/sys/vm/max_map_count').read())
text = bytearray(1 << 16)
def number():
    "Of mappings; the last line is none. Takes no memory, of which there may be no more."
    with open('/proc/self/maps', 'rb', buffering=0) as lines:
        found = -1
        while got := lines.readinto(text):
            found += text.count(10, 0, got)
    return found
def crowd(left):
    "Makes so many mappings that no more than these may be added."
    there = area(2 * most * {PAGE})
    done = 1
    while (missing := most - left - number()) > 1:
        for page in range(done, done + missing // 2):
            assert libc.mprotect(at(there + 2 * page * {PAGE}), ctypes.c_size_t({PAGE}), 1) == 0
        done += missing // 2
    return there
def disperse(there):
    libc.munmap(at(there), ctypes.c_size_t(2 * most * {PAGE}))
"""


@pytest.fixture(autouse=True)
def _prepared(program: Program) -> None:
    prepared(program).start_up()


def test_what_other_threads_map_meanwhile_stays(program: Program) -> None:
    """Memory that moves to its place leaves holes that others may take."""
    address = area(program)
    program.execute(
        f"""
done, taken = False, []
def take():
    while not done:
        taken.append(area({8 * MIB}))
        fill(taken[-1], 8, 3)
        libc.usleep(200)
taking = threading.Thread(target=take)
"""
    )
    program.execute(f"fill({address}, {SIZE}, 5); taking.start()")
    for _time in range(5):
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address)
        program.ok("cuMemHostUnregister", address)
        assert is_private(program, address)
    program.execute("done = True; taking.join()")
    assert program.value("len(taken) > 100")
    assert program.value("all(mapped(one) for one in taken[::10] + taken[-20:])")
    assert program.value("all(is_full_of(one, 8, 3) for one in taken)")


def test_unregistered_with_nearly_as_many_mappings_as_may_be(program: Program) -> None:
    """It remains a file where it cannot be moved."""
    program.execute(CROWD)
    for left in range(4, 10):
        address = area(program)
        program.execute(f"fill({address}, {SIZE}, {left + 1})")
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address)
        program.execute(f"others = crowd({left})")
        program.ok("cuMemHostUnregister", address)
        program.execute("disperse(others)")
        assert program.value(f"is_full_of({address}, {SIZE}, {left + 1})")
        program.execute(f"libc.munmap(at({address}), ctypes.c_size_t({SIZE}))")


def test_registered_while_another_thread_takes_all_mappings(program: Program) -> None:
    program.execute(CROWD)
    address = area(program)
    program.execute(
        f"""
fill({address}, {SIZE}, 7)
others = crowd(40)
room = area({PAGE} * 200, 0x22)
done = False
def take():
    while not done:
        for page in range(1, 199, 2):
            libc.mprotect(at(room + page * {PAGE}), ctypes.c_size_t({PAGE}), 1)
        libc.mprotect(at(room), ctypes.c_size_t(200 * {PAGE}), 3)
taking = threading.Thread(target=take)
taking.start()
"""
    )
    for _time in range(4):
        assert register(program, address) == SUCCESS
        program.ok("cuMemHostUnregister", address)
    program.execute("done = True; taking.join(); disperse(others)")
    assert program.value(f"is_full_of({address}, {SIZE}, 7)")


def test_refused_its_place_when_nothing_is_there_any_more(tmp_path: Path) -> None:
    with with_library(tmp_path, "refusing.cpp") as (running, library):
        running.start_up()
        address = area(running)
        running.execute(f"fill({address}, {SIZE}, 5)")
        assert register(running, address) == SUCCESS
        assert in_a_file(running, address)
        running.execute(f"refuse = ctypes.CDLL({str(library)!r}).refuse; refuse(3)")
        running.ok("cuMemHostUnregister", address)
        for there in range(0, SIZE, 4 * MIB):
            assert is_private(running, address + there)
        assert running.value(f"is_full_of({address}, {SIZE}, 5)")


def test_thread_local_variables_that_leave_little_stack(tmp_path: Path) -> None:
    with with_library(tmp_path, "large_storage.cpp") as (running, _library):
        running.start_up()
        address = area(running)
        running.execute(f"fill({address}, {SIZE}, 5)")
        assert register(running, address) == SUCCESS
        assert in_a_file(running, address)
        running.ok("cuMemHostUnregister", address)
        assert running.value(f"is_full_of({address}, {SIZE}, 5)")
