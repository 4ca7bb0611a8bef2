"""What CRIU is told of resource limits that the kernel refuses to tell: those of another user's process."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from torpor import paths
from torpor.process import other_users, tree

LIMITS = {number: (3 * number + 1, 5 * number + 7) for number in range(16)} | {
    resource.RLIMIT_CPU: (7200, resource.RLIM_INFINITY),
    resource.RLIMIT_NOFILE: (100, 200),
    resource.RLIMIT_AS: (1 << 40, 1 << 41),
    resource.RLIMIT_DATA: (1 << 39, 1 << 40),
    resource.RLIMIT_STACK: (1 << 23, 1 << 24),
    resource.RLIMIT_FSIZE: (1 << 33, 1 << 34),
    resource.RLIMIT_NPROC: (10000, 20000),
    resource.RLIMIT_NICE: (0, 0),
    resource.RLIMIT_RTPRIO: (0, 0),
}
"""Each unlike all others, and none above what a container may give."""

NO_SUCH = (errno.EINVAL, errno.EPERM)
"""What the kernel says of a limit that there is not, to who may ask and to who may not."""

ASK = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
found = []
for number in range(17):
    pair = (ctypes.c_uint64 * 2)()
    arguments = [ctypes.c_long(one) for one in (302, int(sys.argv[1]), number, 0)]
    status = libc.syscall(*arguments, ctypes.byref(pair))
    found.append(list(pair) if status == 0 else ctypes.get_errno())
ids = libc.syscall(ctypes.c_long(39))
print(json.dumps([found, ids]))
"""


@pytest.fixture
def other() -> Iterator[int]:
    """A process of another user, with limits of its own."""

    def become() -> None:
        for number, pair in LIMITS.items():
            resource.setrlimit(number, pair)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    with subprocess.Popen(["sleep", "1000"], preexec_fn=become) as process:  # noqa: PLW1509  no other way to limits
        yield process.pid
        process.kill()


def asked(pid: int, prefix: list[str]) -> tuple[list[list[int] | int], int, int]:
    """For each limit both values, or the error; and what another call says, with what it must say."""
    with subprocess.Popen([*prefix, sys.executable, "-c", ASK, str(pid)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found, itself = json.loads(process.stdout.read())
    assert process.returncode == 0
    return found, itself, process.pid


def test_they_are_as_the_process_has_them(other: int) -> None:
    words = other_users.words_before_criu([process_of(other)], os.getpid())
    assert words == ["env", f"LD_PRELOAD={paths.criu_limits()}"]
    found, itself, expected = asked(other, words)
    unlimited = (1 << 64) - 1
    said = {number: [value if value >= 0 else unlimited for value in pair] for number, pair in LIMITS.items()}
    assert dict(enumerate(found[:16])) == said
    assert found[16] in NO_SUCH
    assert itself == expected


def test_without_it_the_kernel_refuses_them_or_tells_the_same(other: int) -> None:
    plain, _itself, _expected = asked(other, [])
    helped, _itself, _expected = asked(other, other_users.words_before_criu([process_of(other)], os.getpid()))
    assert plain in (helped, [errno.EPERM] * 17)


def test_nothing_is_put_before_criu_for_processes_of_its_own_user() -> None:
    assert other_users.words_before_criu([process_of(os.getpid())], os.getppid()) == []


def process_of(pid: int) -> tree.Process:
    return tree.Process(pid, pid, os.getpid(), "one", (pid,), False)
