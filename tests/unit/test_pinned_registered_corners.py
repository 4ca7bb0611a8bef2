"""Registered memory in programs that do what is seldom done: titles, stacks in it, forks without descriptors, ..."""

from __future__ import annotations

import pytest

from tests.native.arena.harness import MIB, SUCCESS, Program, program_fixture
from tests.native.compiled import compiled
from tests.native.registered.memory import PLACE, SIZE, area, count, in_a_file, is_private, prepared, register

pytestmark = pytest.mark.criu  # for the right to make threads wait

program = program_fixture(TORPOR_PINNED=PLACE)

CHILD = f"""
def child_has_its_own(address):
    child = os.fork()
    if child == 0:
        fill(address, {SIZE}, 9)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""

TAKE_ALL = """
import resource
taken = []
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
def give_back():
    for one in taken:
        os.close(one)
"""


@pytest.fixture(autouse=True)
def _prepared(program: Program) -> None:
    library = compiled("tests/native/registered/corners.cpp", "-shared", "-fPIC")
    prepared(program).execute(f"corners = ctypes.CDLL({str(library)!r})")
    program.execute(CHILD)
    program.start_up()


def registered(program: Program) -> int:
    """An area full of fives, registered and in a file."""
    address = area(program)
    program.execute(f"fill({address}, {SIZE}, 5)")
    assert register(program, address) == SUCCESS
    assert in_a_file(program, address)
    return address


def test_the_environment_is_written_over(program: Program) -> None:
    """As programs do that put their title where `ps` looks for it."""
    address = registered(program)
    program.execute(
        """
libc.getenv.restype = ctypes.c_void_p
place = libc.getenv(b'TORPOR_PINNED')
ctypes.memset(place, ord('x'), len(ctypes.string_at(place)))
"""
    )
    program.execute(f"child_has_its_own({address})")
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")
    assert count(program) == {"count": 1, "bytes": SIZE}
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)


def test_forks_without_a_descriptor(program: Program) -> None:
    """The parent waits until the child has its copies, which it may see change otherwise."""
    address = registered(program)
    program.execute(TAKE_ALL)
    program.execute(
        f"""
try:
    child = os.fork()
    if child == 0:
        seen = is_full_of({address}, {SIZE}, 5)
        fill({address}, {SIZE}, 9)
        os._exit(seen)
    fill({address}, {SIZE}, 6)
    seen = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
finally:
    give_back()
"""
    )
    assert program.value("seen") == 1
    assert program.value(f"is_full_of({address}, {SIZE}, 6)")
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)


def test_unregistered_without_a_descriptor(program: Program) -> None:
    address = registered(program)
    program.execute(TAKE_ALL)
    program.execute(f"result = cuda().cuMemHostUnregister(at({address})); give_back()")
    assert program.value("result") == SUCCESS
    assert is_private(program, address)
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


def test_unregistered_on_a_stack_that_lies_in_it(program: Program) -> None:
    address = registered(program)
    program.execute("context = ctypes.c_void_p(); assert cuda().cuCtxGetCurrent(ctypes.byref(context)) == 0")
    program.execute(
        f"result = corners.on_stack(at({address + 8 * MIB}), ctypes.c_size_t({8 * MIB}),"
        f" cuda().cuCtxSetCurrent, context, cuda().cuMemHostUnregister, at({address}))"
    )
    assert program.value("result") == SUCCESS
    assert program.value(f"is_full_of({address}, {8 * MIB}, 5)")
    assert register(program, address) == SUCCESS
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)


def test_forks_in_a_handler_while_a_fork_waits(program: Program) -> None:
    address = registered(program)
    program.execute("nested = corners.forks_in_handlers(5)")
    assert program.value("nested") == 5
    program.ok("cuMemHostUnregister", address)
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")


def test_registers_in_handlers_of_a_fork(program: Program) -> None:
    other = area(program)
    program.execute(
        f"""
corners.enrol_at_forks.restype = ctypes.POINTER(ctypes.c_int * 2)
calls = cuda().cuMemHostRegister_v2, cuda().cuMemHostUnregister
results = corners.enrol_at_forks(*calls, at({other}), ctypes.c_size_t({SIZE})).contents
"""
    )
    address = registered(program)
    program.execute(f"child_has_its_own({address})")
    assert program.value("list(results)") == [SUCCESS, SUCCESS]
    assert program.value(f"is_full_of({address}, {SIZE}, 5)")
    program.ok("cuMemHostUnregister", address)
    assert is_private(program, address)
