"""System calls made by another process, from outside: what a debugger does to call a function, without a signal.

A thread of the process is stopped (PTRACE_SEIZE, no SIGSTOP), made to execute a `syscall` instruction that its memory
has anyway, and let go as it was: registers, signal mask, and a call that it was waiting in, which the kernel begins
again. Signals that come meanwhile wait. One process at a time, by one thread of ours.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

_SEIZE, _INTERRUPT, _DETACH, _SYSCALL = 0x4206, 0x4207, 17, 24
_GETREGS, _SETREGS, _GETSIGMASK, _SETSIGMASK = 12, 13, 0x420A, 0x420B
_TRACESYSGOOD = 1
_SYSCALL_STOP, _EVENT_STOP = 0x85, 128  # SIGTRAP | 0x80; PTRACE_EVENT_STOP
_WALL = 0x40000000
_ALL_SIGNALS = (1 << 64) - 1

_REGISTERS = struct.Struct("<27Q")
_RAX, _RIP, _RSP, _ORIG_RAX = 10, 16, 19, 15
_ARGUMENTS = (14, 13, 12, 7, 9, 8)  # rdi rsi rdx r10 r8 r9
_INSTRUCTION = b"\x0f\x05"
_BELOW_STACK = 512
"""Beyond the 128 bytes below the stack that a function may use without saying so, and room for a short path."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def is_possible() -> bool:
    """Whether this machine's calls are known here."""
    return platform.machine() == "x86_64"


class Inside:
    """A process whose first thread stands still from `with` on. OSError when it is gone or may not be traced."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begun = False
        self._kept_back: list[int] = []

    def __enter__(self) -> Self:
        self._ptrace(_SEIZE, 0, _TRACESYSGOOD)
        try:
            self._interrupt()
            self._saved = self._registers()
            self._begun = True
            self._mask = ctypes.c_uint64()
            self._ptrace(_GETSIGMASK, 8, ctypes.addressof(self._mask))
            self._set_mask(_ALL_SIGNALS)
            self._instruction = _find_instruction(self._pid)
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Only from this kind of stop does the kernel begin an interrupted call again.
            self._interrupt()
            self._set_registers(list(self._saved))
            self._set_mask(self._mask.value)
        finally:
            self._detach()

    def call(self, number: int, *arguments: int) -> int:
        """Make a system call in it; its result. OSError with the call's own error."""
        registers = list(self._saved)
        registers[_RIP] = self._instruction
        registers[_RAX] = number
        registers[_ORIG_RAX] = (1 << 64) - 1  # in no call, so that none is begun again
        for place, value in zip(_ARGUMENTS, arguments, strict=False):
            registers[place] = value & ((1 << 64) - 1)
        self._set_registers(registers)
        for _entry_and_exit in range(2):
            self._ptrace(_SYSCALL, 0, 0)
            self._await(lambda status: os.WSTOPSIG(status) == _SYSCALL_STOP)
        result = ctypes.c_int64(self._registers()[_RAX]).value
        if -4096 < result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def path_call(self, number: int, path: bytes, *arguments: int, first: int) -> int:
        """The same for a call whose second argument is a path; `first` is the one before it."""
        place = self._saved[_RSP] - _BELOW_STACK
        with Path(f"/proc/{self._pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(place)
            before = memory.read(len(path) + 1)
            memory.seek(place)
            memory.write(path + b"\0")
            try:
                return self.call(number, first, place, *arguments)
            finally:
                memory.seek(place)
                memory.write(before)

    def _interrupt(self) -> None:
        self._ptrace(_INTERRUPT, 0, 0)
        if self._begun:
            self._ptrace(_SYSCALL, 0, 0)
        self._await(lambda status: status >> 16 == _EVENT_STOP)

    def _await(self, wanted: Callable[[int], bool]) -> None:
        while True:
            _pid, status = os.waitpid(self._pid, _WALL)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(errno.ESRCH, f"process {self._pid} has ended")
            if wanted(status):
                return
            if status >> 16 == 0 and os.WSTOPSIG(status) != _SYSCALL_STOP:
                self._kept_back.append(os.WSTOPSIG(status))  # one that cannot be blocked
            self._ptrace(_SYSCALL, 0, 0)

    def _registers(self) -> tuple[int, ...]:
        data = ctypes.create_string_buffer(_REGISTERS.size)
        self._ptrace(_GETREGS, 0, ctypes.addressof(data))
        return _REGISTERS.unpack(data.raw)

    def _set_registers(self, registers: list[int]) -> None:
        data = ctypes.create_string_buffer(_REGISTERS.pack(*registers), _REGISTERS.size)
        self._ptrace(_SETREGS, 0, ctypes.addressof(data))

    def _set_mask(self, mask: int) -> None:
        value = ctypes.c_uint64(mask)
        self._ptrace(_SETSIGMASK, 8, ctypes.addressof(value))

    def _detach(self) -> None:
        try:
            self._ptrace(_DETACH, 0, 0)
            for number in self._kept_back:
                os.kill(self._pid, number)
        except ProcessLookupError:
            pass  # killed meanwhile

    def _ptrace(self, request: int, address: int, data: int) -> None:
        if _libc.ptrace(request, self._pid, address, data) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"ptrace of process {self._pid}: {os.strerror(number)}")


def _find_instruction(pid: int) -> int:
    """Address of a `syscall` instruction in the process: the kernel's own page has one, as has the C library."""
    lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    ranges = [
        (int(match[1], 16), int(match[2], 16), line)
        for line in lines
        if (match := re.match(r"([0-9a-f]+)-([0-9a-f]+) r.x", line)) and "[vsyscall]" not in line
    ]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end, _line in sorted(ranges, key=lambda one: "[vdso]" not in one[2]):
            memory.seek(start)
            at = memory.read(min(end - start, 4 << 20)).find(_INSTRUCTION)
            if at >= 0:
                return start + at
    raise OSError(errno.ENOEXEC, f"process {pid} has no system call instruction")
