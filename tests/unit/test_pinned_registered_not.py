"""Memory that stays as it is when a program registers it: what a file cannot stand for, and without a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.arena.harness import MIB, SUCCESS, Program, environment, program_fixture
from tests.native.registered.memory import (
    PAGE,
    PLACE,
    SIZE,
    area,
    count,
    in_a_file,
    prepared,
    register,
)

program = program_fixture(TORPOR_PINNED=PLACE)
driver_only = program_fixture(TORPOR_PINNED="driver")
no_arena = program_fixture(TORPOR_PINNED=PLACE, TORPOR_ARENA="off")

needs_the_right = pytest.mark.criu  # to make threads wait
ALREADY = 712
ADVICE = {"no copy in children": 10, "zeros in children": 18, "not in core files": 16}
NO_USERFAULTFD = """
import struct
# A filter that answers userfaultfd by ENOSYS and allows the rest.
code = b"".join(struct.pack("<HBBI", *step) for step in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 323), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)))
steps = ctypes.create_string_buffer(code, len(code))
wanted = struct.pack("<HxxxxxxQ", 4, ctypes.addressof(steps))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(wanted, len(wanted)), 0, 0) == 0
"""
NO_CAPABILITY = """
head, sets = ctypes.create_string_buffer(8), ctypes.create_string_buffer(24)
ctypes.memmove(head, (0x20080522).to_bytes(4, 'little'), 4)
assert libc.capget(head, sets) == 0
effective = int.from_bytes(sets[0:4], 'little') & ~(1 << 19)
ctypes.memmove(sets, effective.to_bytes(4, 'little'), 4)
assert libc.capset(head, sets) == 0
"""


def usable(running: Program, address: int, size: int = SIZE) -> bool:
    """Whether both sides see the same; what is registered is unregistered."""
    running.fill(address, size, 7)
    seen = bool(running.value(f"is_full_of({address}, {size}, 7)"))
    running.ok("cuMemHostUnregister", address)
    return seen and bool(running.value(f"is_full_of({address}, {size}, 7)"))


def stays(running: Program, address: int, size: int = SIZE, flags: int = 0) -> bool:
    before, files = running.value(f"mapped({address})"), count(running)
    assert register(running, address, size, flags) == SUCCESS
    same = running.value(f"mapped({address})") == before and count(running) == files
    return bool(same) and usable(running, address, size)


@pytest.mark.parametrize("kind", ["driver_only", "no_arena"])
def test_without_a_place(request: pytest.FixtureRequest, kind: str) -> None:
    running = prepared(request.getfixturevalue(kind))
    running.start_up()
    assert stays(running, area(running))


@needs_the_right
def test_where_threads_cannot_be_made_to_wait(program: Program) -> None:
    prepared(program).start_up()
    address = area(program)
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    program.execute(NO_USERFAULTFD)
    assert stays(program, area(program))
    program.execute(f"fill({address}, {SIZE}, 5)")  # which is a file's, and remains one
    program.ok("cuMemHostUnregister", address)
    assert in_a_file(program, address)
    assert count(program)["count"] == 1
    program.execute(
        f"""
child = os.fork()
if child == 0:
    fill({address}, {SIZE}, 9)
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")
    assert register(program, address) == SUCCESS
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


@needs_the_right
def test_by_the_device_that_administrators_give_away(program: Program) -> None:
    prepared(program).start_up()
    program.execute(NO_CAPABILITY)
    address = area(program)
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address) == Path("/dev/userfaultfd").exists()  # as older kernels have none
    assert usable(program, address)


@needs_the_right
def test_small_memory_and_other_flags(program: Program) -> None:
    prepared(program).start_up()
    assert stays(program, area(program, 32 * MIB - PAGE), 32 * MIB - PAGE)
    address = area(program, 32 * MIB + PAGE)
    assert stays(program, address + 1, 32 * MIB + PAGE - 2)
    assert stays(program, area(program), flags=4)
    assert register(program, address, 32 * MIB) == SUCCESS
    assert in_a_file(program, address)


@needs_the_right
@pytest.mark.parametrize("what", ADVICE)
def test_what_was_asked_for_memory_is_kept(program: Program, what: str) -> None:
    """Also when it was asked for a part of it."""
    prepared(program).start_up()
    address, part = area(program), 32 * MIB
    program.execute(f"asked = libc.madvise(at({address + part}), ctypes.c_size_t({PAGE}), {ADVICE[what]})")
    assert program.value("asked") == 0
    assert stays(program, address)
    program.execute(f"again = area({SIZE})")
    again = int(program.value("again"))
    assert register(program, again) == SUCCESS
    assert in_a_file(program, again)


@needs_the_right
@pytest.mark.parametrize(
    "made",
    [
        f"area({SIZE}, 0x21)",  # shared
        f"area({SIZE}, 0x2022)",  # locked
        f"area({SIZE}); libc.mprotect(at(made), ctypes.c_size_t({PAGE}), 7)",
        f"area({SIZE}); libc.mlock(at(made + {PAGE}), ctypes.c_size_t({PAGE}))",
        f"area({SIZE}); libc.syscall(237, at(made), at({SIZE}), 1, ctypes.byref(ctypes.c_ulong(1)), 64, 0)",
    ],
    ids=["shared", "locked", "executable", "locked page", "bound to a node"],
)
def test_other_kinds_of_memory(program: Program, made: str) -> None:
    prepared(program).start_up()
    program.execute("made = " + made)
    assert stays(program, int(program.value("made")))


@needs_the_right
def test_huge_pages_that_were_asked_for_are_asked_for_again(program: Program) -> None:
    prepared(program).start_up()
    address = area(program)
    program.execute(f"libc.madvise(at({address}), ctypes.c_size_t({SIZE}), 14)")
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    program.ok("cuMemHostUnregister", address)
    flags = f"next(part for part in open('/proc/self/smaps').read().split('{address:x}-')[1].split('VmFlags: ')[1:])"
    assert " hg" in str(program.value(flags + ".splitlines()[0]"))


@needs_the_right
def test_memory_of_which_a_part_is_registered(program: Program) -> None:
    """The driver knows the pages that are there, so no others may take their place."""
    prepared(program).start_up()
    address = area(program)
    part = address + 20 * MIB
    assert register(program, part, 2 * PAGE) == SUCCESS
    assert register(program, address) == ALREADY
    assert not in_a_file(program, address)
    assert not in_a_file(program, part)
    assert usable(program, part, 2 * PAGE)
    assert register(program, address) == SUCCESS
    assert in_a_file(program, part)


@needs_the_right
@pytest.mark.parametrize("room", [0, 40])
def test_without_room(tmp_path: Path, room: int) -> None:
    """Nothing of it stays in the file, of which there was room for a part."""
    place = tmp_path / "place"
    place.mkdir()
    running = Program(tmp_path, environment, TORPOR_PINNED=str(place))
    try:
        prepared(running).execute(
            f"""
assert libc.unshare(0x20000) == 0
assert libc.mount(b"none", b"/", None, 0x44000, None) == 0
assert libc.mount(b"none", {str(place)!r}.encode(), b"tmpfs", 0, b"size={room + 1}m") == 0
"""
        )
        running.start_up()
        address = area(running)
        running.execute(f"fill({address}, {SIZE}, 5)")
        assert register(running, address) == SUCCESS
        assert running.value(f"is_full_of({address}, {SIZE}, 5)")
        assert count(running) == {"count": 0, "bytes": 0}
        for there in range(0, SIZE, 8 * MIB):
            assert not in_a_file(running, address + there)
        assert usable(running, address)
        assert running.value(f"os.statvfs({str(place)!r}).f_bfree") * PAGE == (room + 1) * MIB
    finally:
        running.end()


@needs_the_right
def test_a_limit_on_files(program: Program) -> None:
    prepared(program).start_up()
    program.execute(
        f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores, and other programs are killed by
resource.setrlimit(resource.RLIMIT_FSIZE, ({6 * MIB}, resource.RLIM_INFINITY))
"""
    )
    assert stays(program, area(program))
