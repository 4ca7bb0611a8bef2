"""Large memory of a program's own lies in a file while it is registered; the program cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import (
    INVALID_VALUE,
    MIB,
    RELEASE,
    SUCCESS,
    THAW,
    Program,
    environment,
    out,
    program_fixture,
)
from tests.native.compiled import compiled
from tests.native.registered.memory import (
    PAGE,
    PLACE,
    SIZE,
    area,
    count,
    in_a_file,
    is_private,
    prepared,
    register,
)

pytestmark = pytest.mark.criu  # for the right to make threads wait

PORTABLE, DEVICEMAP, READ_ONLY = 1, 2, 8
ALREADY, UNKNOWN = 712, 713
COMPARED = [2, 8, 9, 10, 12, 13, 14, 17]
"""Pointer attributes whose value is no address and no number of this process's."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("other")


program = program_fixture(TORPOR_PINNED=PLACE)


@pytest.fixture
def native(folder: Path) -> Iterator[Program]:
    running = Program(folder, environment, TORPOR_PINNED="driver")
    yield prepared(running)
    running.end()


@pytest.fixture(autouse=True)
def _prepared(program: Program) -> None:
    prepared(program)


def test_content_stays_and_untouched_pages_are_zeros(program: Program) -> None:
    program.start_up()
    address = area(program)
    touched = [(0, PAGE, 1), (33 * MIB + 5, 10 * PAGE, 2), (SIZE - 5 * PAGE, 5 * PAGE, 3)]
    for at, size, byte in touched:
        program.execute(f"fill({address + at}, {size}, {byte})")
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    assert in_a_file(program, address + SIZE - 1)
    assert count(program) == {"count": 1, "bytes": SIZE}

    def right() -> bool:
        rest = SIZE - sum(size for _at, size, _byte in touched)
        return bool(program.value(f"bytes_of({address}, {SIZE}).count(0) == {rest}")) and all(
            program.value(f"is_full_of({address + at}, {size}, {byte})") for at, size, byte in touched
        )

    assert right()
    assert program.read(address + 33 * MIB, 8) == bytes(5) + b"\2\2\2"
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)
    assert is_private(program, address + SIZE - 1)
    assert count(program) == {"count": 0, "bytes": 0}
    assert right()


@pytest.mark.parametrize("call", ["cuMemHostRegister", "cuMemHostRegister_v2"])
@pytest.mark.parametrize("flags", [0, PORTABLE | DEVICEMAP, READ_ONLY])
def test_both_sides_see_the_same_bytes(program: Program, call: str, flags: int) -> None:
    program.start_up()
    address = area(program)
    program.ok(call, address, SIZE, flags)
    assert in_a_file(program, address)
    program.fill(address, SIZE, 7)
    assert program.value(f"is_full_of({address}, {SIZE}, 7)")
    program.execute(f"fill({address}, {SIZE}, 8)")
    assert program.read(address + SIZE - 100, 100) == b"\10" * 100


def test_parts_of_pages_stay_where_they_are(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 5)")
    first, size = address + 100, SIZE - 100 - 200
    assert register(program, first, size) == SUCCESS
    assert is_private(program, address)
    assert in_a_file(program, address + PAGE)
    assert in_a_file(program, address + SIZE - PAGE - 1)
    assert is_private(program, address + SIZE - PAGE)
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")
    assert program.read(first, 5 * PAGE) == b"\5" * 5 * PAGE
    assert program.call("cuMemHostUnregister", address)[0] == UNKNOWN
    program.ok("cuMemHostUnregister", first)
    assert is_private(program, address + PAGE)
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


def test_no_write_is_lost(program: Program) -> None:
    """Threads write all the time while memory becomes a file and private again."""
    library = compiled("tests/native/registered/writers.cpp", "-shared", "-fPIC")
    program.start_up()
    address = area(program)
    program.execute(f"writers = ctypes.CDLL({str(library)!r}); writers.end.restype = ctypes.c_uint64")
    program.execute(f"writers.begin(at({address}), ctypes.c_uint64({SIZE // PAGE}), 3)")
    for _time in range(12):
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address + SIZE // 2)
        program.ok("cuMemHostUnregister", address)
        assert is_private(program, address + SIZE // 2)
    program.execute("rounds = ctypes.c_uint64(); lost = writers.end(ctypes.byref(rounds))")
    assert program.value("lost") == 0


def test_system_calls_may_write_to_it_meanwhile(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(
        f"""
def pump():
    global sent
    view = memoryview((ctypes.c_char * {SIZE}).from_address({address})).cast('B')
    with open('/dev/zero', 'rb', buffering=0) as source:
        while not done:
            assert source.readinto(view[{MIB}:{SIZE - MIB}]) == {SIZE - 2 * MIB}
            sent += 1
done, sent = False, 0
pumping = threading.Thread(target=pump)
pumping.start()
"""
    )
    for _time in range(5):
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address)
        program.ok("cuMemHostUnregister", address)
    eventually(lambda: program.value("sent") > 0)
    program.execute("done = True; pumping.join()")


def test_a_child_has_its_own_copy(program: Program) -> None:
    """What it writes is its own, and what the parent writes after the fork it does not see."""
    program.start_up()
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 5)")
    assert register(program, address + 1, SIZE - 1) == SUCCESS
    assert in_a_file(program, address + PAGE)
    program.execute(f"libc.mprotect(at({address + 8 * MIB}), ctypes.c_size_t({MIB}), 1)")
    program.execute(f"libc.mprotect(at({address + 10 * MIB}), ctypes.c_size_t({MIB}), 0)")
    program.execute(
        f"""
back, told = os.pipe()
child = os.fork()
if child == 0:
    os.read(back, 1)
    own = ' rw-p ' in mapped({address + PAGE}) and ' r--p ' in mapped({address + 8 * MIB})
    own = own and ' ---p ' in mapped({address + 10 * MIB})
    libc.mprotect(at({address + 8 * MIB}), ctypes.c_size_t({3 * MIB}), 3)
    seen = is_full_of({address}, {SIZE}, 5)
    fill({address}, {SIZE}, 9)
    os._exit(10 * own + seen)
libc.mprotect(at({address + 8 * MIB}), ctypes.c_size_t({3 * MIB}), 3)
fill({address}, {SIZE}, 6)
os.write(told, b'x')
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    )
    assert program.value("status") == 11
    assert program.value(f"is_full_of({address}, {SIZE}, 6)")
    assert in_a_file(program, address + PAGE)
    assert program.read(address + SIZE - 8, 8) == b"\6" * 8
    program.ok("cuMemHostUnregister", address + 1)
    assert is_private(program, address + PAGE)
    assert program.value(f"is_full_of({address}, {SIZE}, 6)")


def test_forks_while_other_threads_register(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(
        f"""
fill({address}, {SIZE}, 5)
wrong, done = 0, False
def forks():
    global wrong
    while not done:
        child = os.fork()
        if child == 0:
            fill({address + MIB}, {4 * MIB}, 9)
            os._exit(' rw-p ' not in mapped({address + MIB}))
        wrong += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
forking = threading.Thread(target=forks)
forking.start()
"""
    )
    for _time in range(10):
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address)
        program.ok("cuMemHostUnregister", address)
    program.execute("done = True; forking.join()")
    assert program.value("wrong") == 0
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


def test_freed_without_being_unregistered(program: Program) -> None:
    """The file goes with the mapping, and what is mapped at its addresses later is left alone."""
    program.start_up()
    address = area(program)
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    program.execute(f"libc.munmap(at({address}), ctypes.c_size_t({SIZE}))")
    assert not program.value("any('/dev/shm/#' in line for line in open('/proc/self/maps'))")
    assert count(program) == {"count": 0, "bytes": 0}
    program.execute(f"area({SIZE // 2}, 0x100022, {address}); fill({address}, {SIZE // 2}, 3)")
    before = str(program.value("open('/proc/self/maps').read()"))
    program.ok("cuMemHostUnregister", address)
    assert program.value(f"is_full_of({address}, {SIZE // 2}, 3)")
    assert program.value(f"mapped({address})") in before
    assert count(program) == {"count": 0, "bytes": 0}


def test_a_freed_part_stays_free(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 5)")
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    program.execute(f"libc.munmap(at({address + 16 * MIB}), ctypes.c_size_t({16 * MIB}))")
    assert count(program) == {"count": 1, "bytes": SIZE - 16 * MIB}
    program.ok("cuMemHostUnregister", address)
    for there in (0, 32 * MIB):
        assert is_private(program, address + there)
        assert program.value(f"is_full_of({address + there}, {16 * MIB}, 5)")
    assert program.value(f"mapped({address + 16 * MIB})") == ""


def test_purged_memory_reads_zeros_afterwards(program: Program) -> None:
    program.start_up()
    address = area(program)
    for time in range(3):
        program.execute(f"fill({address}, {SIZE}, 5)")
        assert register(program, address) == SUCCESS
        assert in_a_file(program, address)
        program.ok("cuMemHostUnregister", address)
        purged = 4 * PAGE * (time + 1)
        program.execute(f"assert libc.madvise(at({address + PAGE}), ctypes.c_size_t({purged}), 4) == 0")
        assert program.value(f"is_full_of({address + PAGE}, {purged}, 0)")
        assert program.value(f"is_full_of({address + PAGE + purged}, {MIB}, 5)")


def test_it_becomes_one_mapping_again(program: Program) -> None:
    """A program that registers again and again does not run out of mappings."""
    program.start_up()
    address = area(program, 3 * SIZE)
    program.execute(f"fill({address}, {3 * SIZE}, 5)")
    for _time in range(4):
        assert register(program, address + 3 * MIB, 2 * SIZE) == SUCCESS
        assert in_a_file(program, address + 3 * MIB)
        program.ok("cuMemHostUnregister", address + 3 * MIB)
    inside = range(address, address + 3 * SIZE)
    starts = program.value("[int(line.split('-')[0], 16) for line in open('/proc/self/maps')]")
    assert len([start for start in starts if start in inside]) <= 3


def test_threads_may_use_it_while_the_job_is_away(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 7)")
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    with program.control() as control:
        control.freeze()
        control.json(RELEASE)
        program.execute(f"fill({address}, 100, 8)")
        control.json(THAW)
    assert program.read(address + 98, 4) == b"\10\10\7\7"


def test_answers_are_the_drivers(program: Program, native: Program) -> None:
    seen = []
    for running in (program, native):
        running.start_up()
        address = area(running)
        small, far = area(running, MIB), area(running)
        first = [register(running, address, SIZE, PORTABLE), register(running, small, MIB)]
        assert in_a_file(running, address) == (running is program)
        assert not in_a_file(running, small)
        inside = address + 5 * PAGE
        assert running.number("cuMemHostGetDevicePointer_v2", out(8), inside, 0) == inside
        calls: list[tuple[object, ...]] = [
            ("cuMemHostRegister_v2", address, SIZE, 0),  # twice
            ("cuMemHostRegister_v2", inside, PAGE, 0),
            ("cuMemHostRegister_v2", address - PAGE, SIZE, 0),
            ("cuMemHostRegister_v2", address + SIZE // 2, SIZE, 0),
            ("cuMemHostRegister_v2", small - 8 * MIB, 16 * MIB, 0),
            ("cuMemHostRegister_v2", far, SIZE, 0x100),
            ("cuMemHostRegister_v2", far, 0, 0),
            ("cuMemHostRegister_v2", None, SIZE, 0),
            ("cuMemHostUnregister", inside),
            ("cuMemHostUnregister", far),
            ("cuMemHostUnregister", None),
            ("cuMemFreeHost", address),
            ("cuMemFree_v2", address),
            ("cuMemHostGetFlags", out(4), inside),
            ("cuMemHostGetFlags", out(4), far),
            *(("cuPointerGetAttribute", out(8), which, inside) for which in COMPARED),
        ]
        facts = [running.call(str(name), *arguments) for name, *arguments in calls]
        last = [running.call("cuMemHostUnregister", each)[0] for each in (address, address, small)]
        seen.append((first, facts, last))
        assert is_private(running, far)
    assert seen[0] == seen[1]
    assert seen[0][0] == [SUCCESS, SUCCESS]
    assert seen[0][2] == [SUCCESS, UNKNOWN, SUCCESS]
    assert {ALREADY, INVALID_VALUE} <= {result for result, _outputs in seen[0][1]}


def test_registered_again_after_its_context_ended(program: Program) -> None:
    first = program.start_up()
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 5)")
    context = program.number("cuCtxCreate_v2", out(8), 0, 0)
    assert register(program, address) == SUCCESS
    program.ok("cuCtxDestroy_v2", context)
    program.ok("cuCtxSetCurrent", first)
    assert in_a_file(program, address)
    assert register(program, address) == SUCCESS
    assert count(program)["count"] == 1
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


@pytest.mark.parametrize(("fault", "status"), [("cuMemHostRegister@1=fail:2", 0), ("cuMemHostRegister@1+=fail:2", 2)])
def test_what_the_driver_refuses_is_left_as_it_was(folder: Path, fault: str, status: int) -> None:
    """A file, it may take as private memory."""
    running = Program(folder, environment, TORPOR_PINNED=PLACE, TORPOR_SIM_FAULT=fault)
    try:
        prepared(running).start_up()
        address = area(running)
        running.execute(f"fill({address}, {SIZE}, 5)")
        assert register(running, address) == status
        assert is_private(running, address)
        assert running.value(f"is_full_of({address}, {SIZE}, 5)")
        if status == SUCCESS:
            running.ok("cuMemHostUnregister", address)
            assert register(running, address) == SUCCESS
            assert in_a_file(running, address)
    finally:
        running.end()


def test_errno_is_left_alone(program: Program) -> None:
    program.start_up()
    address = area(program)
    program.execute(
        f"""
library = ctypes.CDLL("libcuda.so.1", use_errno=True)
ctypes.set_errno(77)
assert library.cuMemHostRegister_v2(at({address}), ctypes.c_size_t({SIZE}), 0) == 0
file = ' rw-s ' in mapped({address})
assert library.cuMemHostUnregister(at({address})) == 0
left = ctypes.get_errno()
"""
    )
    assert program.value("(left, file)") == [77, True]
