"""Streams, events, host functions and waits on memory: order, and who waits for whom."""

from __future__ import annotations

import struct
import time

import pytest

from tests.conftest import eventually
from tests.native.simgpu.program import (
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    NOT_READY,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

NON_BLOCKING, EQUAL, AND, NOR = 1, 1, 2, 3
LEGACY, PER_THREAD = 1, 2


class Busy:
    """A stream that waits until `release`."""

    def __init__(self, program: Program, flags: int = 0) -> None:
        self.program = program
        self.stream = program.number("cuStreamCreate", out(8), flags)
        self.flag = program.number("cuMemHostAlloc", out(8), 4, 0)
        program.ok("cuStreamWaitValue32_v2", self.stream, self.flag, 1, EQUAL)

    def release(self) -> None:
        self.program.poke(self.flag, struct.pack("<I", 1))


def finished(program: Program, stream: int) -> bool:
    return program.status("cuStreamQuery", stream) == SUCCESS


def test_work_is_done_in_order_and_others_go_on(start: Start) -> None:
    program = start()
    program.start_up()
    busy, address = Busy(program, NON_BLOCKING), program.allocate(MIB)
    other = program.number("cuStreamCreate", out(8), NON_BLOCKING)
    program.ok("cuMemsetD8Async", address, 1, 16, busy.stream)
    program.ok("cuMemsetD8Async", address, 2, 8, busy.stream)
    program.ok("cuMemsetD8Async", address + 16, 3, 1, other)
    program.ok("cuStreamSynchronize", other)
    assert program.read(address, 17) == bytes(16) + b"\3"
    assert program.status("cuStreamQuery", busy.stream) == NOT_READY
    program.begin("cuStreamSynchronize", busy.stream)
    busy.release()
    assert program.finish() == SUCCESS
    assert program.read(address, 16) == b"\2" * 8 + b"\1" * 8


def test_the_legacy_stream_waits_for_blocking_streams_and_they_for_it(start: Start) -> None:
    program = start()
    program.start_up()
    address, busy = program.allocate(MIB), Busy(program)
    program.ok("cuMemsetD8Async", address, 1, 4, busy.stream)
    program.ok("cuMemsetD8Async", address, 2, 2, LEGACY)
    later = program.number("cuStreamCreate", out(8), 0)
    program.ok("cuMemsetD8Async", address, 3, 1, later)
    free = program.number("cuStreamCreate", out(8), NON_BLOCKING)
    program.ok("cuMemsetD8Async", address + 4, 4, 1, free)
    program.ok("cuStreamSynchronize", free)
    assert program.status("cuStreamQuery", LEGACY) == NOT_READY
    assert program.status("cuStreamQuery", later) == NOT_READY
    busy.release()
    program.ok("cuCtxSynchronize")
    assert program.read(address, 5) == b"\3\2\1\1\4"


def test_per_thread_default_stream(start: Start) -> None:
    program = start()
    program.start_up()
    address, busy = program.allocate(MIB), Busy(program, NON_BLOCKING)
    ids = [
        int.from_bytes(program.ok(name, handle, out(8))[0], "little")
        for name, handle in (
            ("cuStreamGetId", 0),
            ("cuStreamGetId", LEGACY),
            ("cuStreamGetId_ptsz", 0),
            ("cuStreamGetId", PER_THREAD),
            ("cuStreamGetId", busy.stream),
        )
    ]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert len(set(ids)) == 3
    program.ok("cuMemsetD8Async_ptsz", address, 9, 4, 0)
    program.ok("cuStreamSynchronize_ptsz", 0)
    assert program.read(address, 4) == b"\t" * 4
    busy.release()


def test_events(start: Start) -> None:
    program = start()
    program.start_up()
    busy = Busy(program, NON_BLOCKING)
    first, second, silent = (program.number("cuEventCreate", out(8), flags) for flags in (0, 0, 2))
    assert program.status("cuEventQuery", first) == SUCCESS  # never recorded
    assert program.status("cuEventElapsedTime", out(4), first, second) == INVALID_HANDLE
    before = time.monotonic()
    program.ok("cuEventRecord", first, LEGACY)
    program.ok("cuEventRecord", second, busy.stream)
    program.ok("cuEventSynchronize", first)
    assert program.status("cuEventQuery", first) == SUCCESS
    assert program.status("cuEventQuery", second) == NOT_READY
    assert program.status("cuEventElapsedTime_v2", out(4), first, second) == NOT_READY
    program.begin("cuEventSynchronize", second)
    busy.release()
    assert program.finish() == SUCCESS
    milliseconds = struct.unpack("<f", program.ok("cuEventElapsedTime", out(4), first, second)[0])[0]
    assert 0 < milliseconds <= (time.monotonic() - before) * 1000
    program.ok("cuEventRecord", silent, LEGACY)
    assert program.status("cuEventElapsedTime", out(4), first, silent) == INVALID_HANDLE
    program.ok("cuEventDestroy_v2", first)
    assert program.status("cuEventQuery", first) == INVALID_HANDLE
    assert program.status("cuEventCreate", out(8), 4) == INVALID_VALUE  # between processes, but with times


def test_a_stream_waits_for_an_event(start: Start) -> None:
    program = start()
    program.start_up()
    busy, event = Busy(program, NON_BLOCKING), program.number("cuEventCreate", out(8), 2)
    waiting = program.number("cuStreamCreate", out(8), NON_BLOCKING)
    program.ok("cuEventRecord", event, busy.stream)
    program.ok("cuStreamWaitEvent", waiting, event, 0)
    program.ok("cuEventRecord", event, LEGACY)  # the wait keeps to what was recorded when it was asked for
    program.ok("cuEventSynchronize", event)
    assert program.status("cuStreamQuery", waiting) == NOT_READY
    busy.release()
    program.ok("cuStreamSynchronize", waiting)


def test_host_functions_run_in_order(start: Start) -> None:
    program = start()
    program.start_up()
    busy = Busy(program)
    for number in range(5):
        program.ok("cuLaunchHostFunc", busy.stream, {"callback": number}, None)
    assert program.python("called") == []
    busy.release()
    eventually(lambda: finished(program, busy.stream))
    assert program.python("called") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("how", "wanted", "no", "yes"),
    [
        (0, 10, 9, 11),
        (0, 5, 2**32 - 1, 6),  # greater or equal, on a circle
        (EQUAL, 7, 8, 7),
        (AND, 0b1100, 0b0011, 0b0100),
        (NOR, 0xFFFFFFF0, 0x0000000F, 0x00000007),
    ],
)
def test_waits_on_values(start: Start, how: int, wanted: int, no: int, yes: int) -> None:
    program = start()
    program.start_up()
    address = program.allocate(64)
    stream, writer = (program.number("cuStreamCreate", out(8), NON_BLOCKING) for _ in range(2))
    program.ok("cuStreamWriteValue32_v2", writer, address, no, 0)
    program.ok("cuStreamSynchronize", writer)
    program.ok("cuStreamWaitValue32", stream, address, wanted, how)
    program.ok("cuStreamWriteValue64_v2", stream, address + 8, 77, 0)
    assert program.status("cuStreamQuery", stream) == NOT_READY
    program.ok("cuStreamWriteValue32", writer, address, yes, 0)
    program.ok("cuStreamSynchronize", stream)
    assert program.read(address + 8, 8) == struct.pack("<Q", 77)


def test_batches_of_memory_operations(start: Start) -> None:
    program = start()
    program.start_up()
    address = program.allocate(64)
    write = struct.pack("<iiQQI", 2, 0, address, 5, 0) + bytes(20)
    wait = struct.pack("<iiQQI", 1, 0, address, 5, EQUAL) + bytes(20)
    assert len(write) == 48
    program.ok("cuStreamBatchMemOp_v2", 0, 2, given(write + wait), 0)
    program.ok("cuCtxSynchronize")
    assert program.read(address, 4) == struct.pack("<I", 5)


def test_freeing_waits_for_the_work_of_the_context(start: Start) -> None:
    program = start()
    program.start_up()
    address, busy = program.allocate(MIB), Busy(program, NON_BLOCKING)
    program.begin("cuMemFree_v2", address)
    busy.release()
    assert program.finish() == SUCCESS
    assert finished(program, busy.stream)


def test_pinned_copies_return_at_once_and_pageable_ones_are_done(start: Start) -> None:
    program = start()
    program.start_up()
    busy, address = Busy(program, NON_BLOCKING), program.allocate(MIB)
    pinned = program.number("cuMemHostAlloc", out(8), MIB, 0)
    program.ok("cuMemcpyHtoDAsync_v2", address, pinned, MIB, busy.stream)
    # Small pageable sources are taken along: what the caller does to them afterwards does not matter.
    source = program.place(b"before")
    program.ok("cuMemcpyHtoDAsync_v2", address, source, 6, busy.stream)
    program.poke(source, b"after!")
    program.begin("cuMemcpyDtoHAsync_v2", out(6), address, 6, busy.stream)  # into pageable memory: waits
    busy.release()
    status, outputs = program.receive()
    assert (status, bytes.fromhex(outputs[0])) == (SUCCESS, b"before")


def test_a_destroyed_stream_still_does_its_work(start: Start) -> None:
    program = start()
    program.start_up()
    busy, address = Busy(program), program.allocate(16)
    program.ok("cuMemsetD8Async", address, 5, 16, busy.stream)
    program.ok("cuStreamDestroy_v2", busy.stream)
    assert program.status("cuStreamQuery", busy.stream) == INVALID_HANDLE
    busy.release()
    program.ok("cuCtxSynchronize")
    assert program.read(address, 16) == b"\5" * 16


def test_what_is_asked_of_streams(start: Start) -> None:
    program = start()
    context = program.start_up()
    stream = program.number("cuStreamCreateWithPriority", out(8), NON_BLOCKING, -99 & 0xFFFFFFFF)
    assert program.number("cuStreamGetFlags", stream, out(4)) == NON_BLOCKING
    assert int.from_bytes(program.ok("cuStreamGetPriority", stream, out(4))[0], "little", signed=True) == -5
    assert program.number("cuStreamGetCtx", stream, out(8)) == context
    assert program.number("cuStreamGetDevice", stream, out(4)) == 0
    assert program.number("cuStreamIsCapturing", stream, out(4)) == 0
    assert program.status("cuStreamCreate", out(8), 8) == INVALID_VALUE
    assert program.status("cuStreamDestroy_v2", LEGACY) == INVALID_HANDLE
    assert program.status("cuStreamSynchronize", 0x1234) == INVALID_HANDLE
    program.ok("cuThreadExchangeStreamCaptureMode", given(struct.pack("<i", 2)))
    assert program.status("cuThreadExchangeStreamCaptureMode", given(struct.pack("<i", 3))) == INVALID_VALUE


def test_bytes_take_their_time_on_the_link(start: Start) -> None:
    program = start(TORPOR_SIM_LINK="0.1")  # 16 MiB take 0.168 s
    program.start_up()
    size = 16 * MIB
    address, pinned = program.allocate(size), program.number("cuMemHostAlloc", out(8), size, 0)
    streams = [program.number("cuStreamCreate", out(8), NON_BLOCKING) for _ in range(2)]
    before = time.monotonic()
    for stream in streams:  # one direction is one link: the two take turns
        program.ok("cuMemcpyHtoDAsync_v2", address, pinned, size, stream)
    asked = program.status("cuStreamQuery", streams[0])
    assert asked == NOT_READY or time.monotonic() - before >= size / 0.1e9
    program.ok("cuCtxSynchronize")
    assert time.monotonic() - before >= 2 * size / 0.1e9
    before = time.monotonic()
    program.ok("cuMemcpyHtoDAsync_v2", address, pinned, size, streams[0])
    program.ok("cuMemcpyDtoHAsync_v2", pinned, address, size, streams[1])
    program.ok("cuCtxSynchronize")
    assert size / 0.1e9 <= time.monotonic() - before
