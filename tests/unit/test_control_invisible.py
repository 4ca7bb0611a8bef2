"""The control thread as the program meets it: it must not notice."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import eventually
from tests.native.arena.harness import (
    HELLO,
    MIB,
    RELEASE,
    THAW,
    Control,
    Program,
    close_all,
    filled,
    program_fixture,
    unchanged,
)

program = program_fixture()


def test_the_socket_is_private_and_goes_with_the_program(program: Program) -> None:
    assert program.value("2 + 2") == 4
    assert not program.socket.exists()  # nothing before cuInit
    program.ok("cuInit", 0)
    program.ok("cuInit", 0)
    assert program.socket.stat().st_mode & 0o777 == 0o700
    assert program.socket.parent.stat().st_mode & 0o777 == 0o700
    program.end()
    assert not program.socket.exists()


def test_the_program_does_not_notice_the_thread(program: Program, tmp_path: Path) -> None:
    outside_a_job = Program(tmp_path, TORPOR_JOB_DIR="")
    outside_a_job.ok("cuInit", 0)
    native = outside_a_job.value("os.open('/dev/null', 0)")
    outside_a_job.end()
    program.ok("cuInit", 0)
    with program.control() as control:
        control.json(HELLO)
        # The listener and this connection.
        assert program.value("len([link for fd, link in open_files().items() if fd >= 400 and 'socket' in link])") == 2
    assert program.value("os.open('/dev/null', 0)") == native
    tasks = Path(f"/proc/{program.process.pid}/task")
    names = {(task / "comm").read_text().strip(): task for task in tasks.iterdir()}
    status = (names["torpor-control"] / "status").read_text()
    blocked = int(re.search(r"SigBlk:\s*([0-9a-f]+)", status)[1], 16)  # type: ignore[index]
    assert blocked & (1 << 14 | 1 << 1 | 1 << 9) == 1 << 14 | 1 << 1 | 1 << 9  # TERM, INT, USR1


def test_memory_is_not_held_by_the_process_while_away(program: Program) -> None:
    program.start_up()
    address = program.allocate(64 * MIB)
    program.fill(address, 64 * MIB, 7)
    before = program.value("open('/proc/self/maps').read().count('memfd')")
    with program.control() as control:
        control.freeze()
        records, fds = control.export()
        control.json(RELEASE)
        assert program.value("open('/proc/self/maps').read().count('memfd')") < before
        ours = {str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in fds}
        assert not ours & set(program.value("list(open_files().values())"))
        control.give_back(records, fds)
        close_all(fds)
        control.json(THAW)


def test_a_child_of_the_program_has_no_part_in_it(program: Program) -> None:
    live = filled(program)
    with program.control() as control:
        control.json(HELLO)
        program.tell(
            exec="""
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    held = [link for fd, link in open_files().items() if fd >= 400]
    os.write(ready[1], b"y" if not held else b"n")
    os.read(go[0], 1)
    os._exit(0)
free_of_ours = os.read(ready[0], 1)
"""
        )
        assert program.value("free_of_ours.decode()") == "y"
        control.cycle()
        program.tell(exec="os.write(go[1], b'g'); status = os.waitpid(child, 0)[1]")
        assert program.value("status") == 0
        control.cycle()
    assert unchanged(program, live)


def test_a_child_that_is_first_to_initialise_has_a_socket_of_its_own(program: Program) -> None:
    program.tell(
        exec="""
go = os.pipe()
child = os.fork()
if child == 0:
    library = ctypes.CDLL("libcuda.so.1")
    library.cuInit(0)
    os.read(go[0], 1)
    os._exit(0)
"""
    )
    child = program.value("child")
    socket = program.socket.parent / str(child)
    eventually(socket.exists)
    with Control(socket) as control:
        assert control.json(HELLO)["pid"] == child
    assert not program.socket.exists()
    program.tell(exec="os.write(go[1], b'g'); os.waitpid(child, 0)")


def test_a_program_that_closes_every_descriptor_can_still_be_reached(program: Program) -> None:
    live = filled(program)
    with program.control() as control:
        control.json(HELLO)
    program.tell(exec="os.closerange(400, 1000)")

    def cycled() -> bool:
        try:
            with program.control() as control:
                control.cycle()
        except (AssertionError, OSError):
            return False  # the connection that makes the thread see its loss is lost too
        return True

    eventually(cycled)
    assert unchanged(program, live)
