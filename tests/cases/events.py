"""Timers, signals, and what waits for events."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None, use_errno=True)
FAR = 10_000.0
"""Seconds: a timer that runs and does not go off during a test."""


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _running(left: float) -> bool:
    return FAR / 2 < left < FAR + 1


class _Itimerspec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "in_s", "in_ns")]


def timerfd(_place: Path) -> Check:
    """One that goes on ticking, one that is far off, one that has gone off and was not read."""
    far, ticking, done = (_checked(LIBC.timerfd_create(time.CLOCK_MONOTONIC, 0)) for _ in range(3))
    LIBC.timerfd_settime(far, 0, ctypes.byref(_Itimerspec(0, 0, int(FAR), 0)), None)
    LIBC.timerfd_settime(ticking, 0, ctypes.byref(_Itimerspec(0, 20_000_000, 0, 20_000_000)), None)
    LIBC.timerfd_settime(done, 0, ctypes.byref(_Itimerspec(0, 0, 0, 1)), None)

    def check() -> Any:
        left = _Itimerspec()
        LIBC.timerfd_gettime(far, ctypes.byref(left))
        ticks = [struct.unpack("Q", os.read(ticking, 8))[0] > 0 for _ in range(2)]
        gone = select.select([done], [], [], 0)[0] == [done]
        return _running(left.in_s), ticks, gone

    return check


def itimers(_place: Path) -> Check:
    counts = {"alarm": 0}

    def on_alarm(_number: int, _frame: object) -> None:
        counts["alarm"] += 1

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_PROF, FAR, 0)

    def check() -> Any:
        before = counts["alarm"]
        while counts["alarm"] == before:
            signal.pause()
        return True, _running(signal.getitimer(signal.ITIMER_PROF)[0])

    return check


def posix_timers(_place: Path) -> Check:
    """timer_create: a far one, and one whose signals are blocked and pile up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 3})
    event = (ctypes.c_int * 16)(77, signal.SIGRTMIN + 3, 0)  # value, signal, SIGEV_SIGNAL
    event[0], event[1] = 77, 0
    event[2], event[3] = signal.SIGRTMIN + 3, 0
    far, near = ctypes.c_void_p(), ctypes.c_void_p()
    for timer, delay in ((far, (int(FAR), 0)), (near, (0, 1_000_000))):
        _checked(LIBC.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)))
        _checked(LIBC.timer_settime(timer, 0, ctypes.byref(_Itimerspec(0, 0, *delay)), None))
    while signal.SIGRTMIN + 3 not in signal.sigpending():
        time.sleep(0.001)

    def check() -> Any:
        left = _Itimerspec()
        _checked(LIBC.timer_gettime(far, ctypes.byref(left)))
        return _running(left.in_s), signal.SIGRTMIN + 3 in signal.sigpending()

    return check


def pending_signals(_place: Path) -> Check:
    """Blocked ones that wait: for the process, for one thread, queued ones with their values."""
    waiting = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN + 5}
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
    for value in (11, 22):
        _checked(LIBC.sigqueue(os.getpid(), signal.SIGRTMIN + 5, ctypes.c_void_p(value)))

    def check() -> Any:
        found = []
        while (info := signal.sigtimedwait(waiting, 0)) is not None:
            found.append((info.si_signo, info.si_pid == os.getpid()))
        os.kill(os.getpid(), signal.SIGUSR1)
        return found

    return check


def dispositions(_place: Path) -> Check:
    """Ignored signals, as under nohup, handlers, masks, an alternate stack."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    seen: list[int] = []
    signal.signal(signal.SIGWINCH, lambda number, _frame: seen.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})

    def check() -> Any:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGWINCH)
        return len(seen), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, set()))

    return check


def epoll(_place: Path) -> Check:
    """Over a pipe, an eventfd and a nested epoll, level- and edge-triggered."""
    reader, writer = os.pipe()
    counter = os.eventfd(0, os.EFD_NONBLOCK)
    inner, outer = select.epoll(), select.epoll()
    inner.register(counter, select.EPOLLIN)
    outer.register(reader, select.EPOLLIN | select.EPOLLET)
    outer.register(inner.fileno(), select.EPOLLIN)
    names = {reader: "pipe", inner.fileno(): "inner"}

    def check() -> Any:
        quiet = outer.poll(0)
        os.write(writer, b"x")
        os.eventfd_write(counter, 3)
        found = sorted(names[fd] for fd, _ in outer.poll(1))
        return len(quiet), found, os.read(reader, 10).decode(), os.eventfd_read(counter)

    return check


def epoll_waits(_place: Path) -> Check:
    """A thread inside epoll_wait and one inside poll with a time limit, while the checkpoint is taken."""
    reader, writer = os.pipe()
    poller = select.epoll()
    poller.register(reader, select.EPOLLIN)
    asked, found = threading.Semaphore(0), []

    def wait() -> None:
        while True:
            found.append((len(poller.poll(FAR)), os.read(reader, 1).decode()))
            asked.release()

    threading.Thread(target=wait, daemon=True).start()

    def check() -> Any:
        os.write(writer, b"w")
        asked.acquire()
        return found[-1]

    return check


def eventfds(_place: Path) -> Check:
    plain, none = os.eventfd(5), os.eventfd(0, os.EFD_NONBLOCK)

    def check() -> Any:
        found = os.eventfd_read(plain), select.select([none], [], [], 0)[0]
        os.eventfd_write(plain, 5)
        return found

    return check


def signalfd(_place: Path) -> Check:
    mask = (ctypes.c_uint64 * 16)(1 << (signal.SIGRTMIN + 6 - 1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 6})
    fd = _checked(LIBC.signalfd(-1, mask, 0))
    os.kill(os.getpid(), signal.SIGRTMIN + 6)

    def check() -> Any:
        got = struct.unpack("I", os.read(fd, 128)[:4])[0]
        os.kill(os.getpid(), signal.SIGRTMIN + 6)
        return got

    return check


def inotify(place: Path) -> Check:
    fd = _checked(LIBC.inotify_init1(os.O_NONBLOCK))
    _checked(LIBC.inotify_add_watch(fd, os.fsencode(place), 0x100))  # IN_CREATE
    count = [0]

    def check() -> Any:
        count[0] += 1
        (place / f"new-{count[0]}").touch()
        return os.read(fd, 4096)[16:].strip(b"\0").decode()

    return check


def sleeping(_place: Path) -> Check:
    """Threads in the middle of a sleep, a wait with a time limit, a lock; they go on waiting, none is woken early."""
    gate, woken = threading.Event(), []
    lock = threading.Lock()
    lock.acquire()
    waits = (lambda: time.sleep(FAR), lambda: gate.wait(FAR), lock.acquire, lambda: select.select([], [], [], FAR))
    threads = [threading.Thread(target=lambda wait=wait: woken.append(wait()), daemon=True) for wait in waits]
    for thread in threads:
        thread.start()

    def check() -> Any:
        standing = len(woken)
        gate.set()
        threads[1].join()  # which Python says before the kernel does
        while Path("/proc/self/task", str(threads[1].native_id)).exists():
            time.sleep(0.001)
        return standing <= 1, len(woken), [thread.is_alive() for thread in threads]

    return check


def attributes(_place: Path) -> Check:
    """Name, priority, limits, CPUs, umask, working folder, groups: what a process is beside its memory."""
    Path("/proc/self/comm").write_text("renamed")
    os.nice(3)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (min(soft, 4096) if soft >= 0 else 4096, hard))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.umask(0o037)
    os.chdir("/usr")
    os.setgroups([7, 8])
    LIBC.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    LIBC.prctl(1, signal.SIGUSR2, 0, 0, 0)  # PR_SET_PDEATHSIG
    LIBC.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    LIBC.prctl(29, 123456, 0, 0, 0)  # PR_SET_TIMERSLACK
    LIBC.syscall(251, 1, 0, 2 << 13 | 6)  # ioprio_set: best effort, 6
    Path("/proc/self/oom_score_adj").write_text("77")
    Path("/proc/self/coredump_filter").write_text("0x3")
    hold = threading.Event()
    threading.Thread(target=hold.wait, daemon=True).start()
    one_cpu = {max(os.sched_getaffinity(0))}

    def threads_cpus() -> list[bool]:
        return [os.sched_getaffinity(int(task)) == one_cpu for task in sorted(os.listdir("/proc/self/task"), key=int)]

    def check() -> Any:
        mask = os.umask(0)
        os.umask(mask)
        death = ctypes.c_int()
        LIBC.prctl(2, ctypes.byref(death), 0, 0, 0)
        rank = LIBC.syscall(252, 1, 0)  # ioprio_get
        return (
            Path("/proc/self/comm").read_text(),
            os.getpriority(os.PRIO_PROCESS, 0),
            resource.getrlimit(resource.RLIMIT_CORE),
            len(os.sched_getaffinity(0)),
            mask,
            str(Path.cwd()),
            os.getgroups(),
            LIBC.prctl(3, 0, 0, 0, 0),
            death.value,
            LIBC.prctl(39, 0, 0, 0, 0),
            LIBC.prctl(30, 0, 0, 0, 0),
            rank,
            *(Path("/proc/self", name).read_text() for name in ("oom_score_adj", "coredump_filter")),
            threads_cpus(),
        )

    return check


def clocks(_place: Path) -> Check:
    """The monotonic clock goes on from where it stood, and never back."""
    began = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
    last = [0.0]

    def check() -> Any:
        now = time.monotonic()
        forth = now > last[0]
        last[0] = now
        boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return forth, 0 < now - began[0] < FAR, 0 < boot - began[1] < FAR

    return check


KINDS = {
    one.__name__: one
    for one in (
        timerfd,
        itimers,
        posix_timers,
        pending_signals,
        dispositions,
        epoll,
        eventfds,
        signalfd,
        epoll_waits,
        inotify,
        sleeping,
        clocks,
        attributes,
    )
}
