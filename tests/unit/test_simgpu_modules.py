"""Modules, libraries, functions: what is taken, what is found in it, what is answered."""

from __future__ import annotations

import struct

import pytest

from tests.native.simgpu.kernels import PTX, TEXT, function, launch, load, u32, u64
from tests.native.simgpu.program import (
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_FOUND,
    SUCCESS,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

INVALID_IMAGE, NO_BINARY, INVALID_PTX, NEWER_PTX, NOT_PERMITTED = 200, 209, 218, 222, 800
HEAD = b".version 7.0\n.target sm_70\n.address_size 64\n"


def compressed(text: bytes) -> bytes:
    """An LZ4 block: a run of 300 equal bytes by a match, everything else as literals."""
    run = b" " * 300
    head, tail = text.split(run, 1)

    def length(count: int) -> bytes:
        count -= 15
        return b"" if count < 0 else b"\xff" * (count // 255) + bytes([count % 255])

    first = head + b" "  # the match repeats this one
    match = len(run) - 1 - 4
    return (
        bytes([min(len(first), 15) << 4 | 15])
        + length(len(first))
        + first
        + struct.pack("<H", 1)
        + length(match)
        + (bytes([min(len(tail), 15) << 4]) + length(len(tail)) + tail)
    )


def fat(*entries: tuple[int, int, int, bytes, int]) -> bytes:
    """A fat binary; an entry is kind, architecture, flags, payload, bytes when decompressed."""
    body = b""
    for kind, architecture, flags, payload, full in entries:
        padded = payload + bytes(-len(payload) % 8)
        stored = len(payload) if full else 0
        body += struct.pack(
            "<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(padded), stored, 0, 0, 7, architecture, 0, 0, flags, 0, full
        )
        body += padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@pytest.mark.parametrize(
    ("image", "status"),
    [
        (HEAD, SUCCESS),
        (b"// a comment first\n" + HEAD, SUCCESS),
        (b".version 8.0\n.target sm_90a\n.address_size 64\n", SUCCESS),
        (b".version 7.0\n.target sm_100\n.address_size 64\n", INVALID_PTX),
        (b".version 99.0\n.target sm_70\n", NEWER_PTX),
        (HEAD + b".visible .entry k() { foo.u32 a; }\n", INVALID_PTX),
        (b"hello", INVALID_IMAGE),
        (b"", INVALID_IMAGE),
        (b"\x7fELF" + bytes(64), INVALID_IMAGE),
        (b"\x7fELF" + bytes(14) + struct.pack("<H", 190) + bytes(64), NO_BINARY),
        (fat((2, 90, 0, b"\x7fELF" + bytes(60), 0)), NO_BINARY),
        (fat((1, 100, 0, TEXT, 0)), NO_BINARY),
        (fat((1, 70, 0x8000, TEXT, 400)), INVALID_IMAGE),
        (fat((1, 70, 0x2000, b"\xf0", 400)), INVALID_IMAGE),
        (fat((2, 90, 0, bytes(64), 0), (1, 70, 0x11, TEXT, 0)), SUCCESS),
    ],
)
def test_what_is_a_module(start: Start, image: bytes, status: int) -> None:
    program = start()
    program.start_up()
    assert program.status("cuModuleLoadData", out(8), given(image + b"\0")) == status


def test_compressed_text_in_a_wrapped_fat_binary(start: Start) -> None:
    program = start()
    program.start_up()
    text = PTX.encode() + b" " * 300 + b"\n// the end"
    image = fat((1, 70, 0x2011, compressed(text), len(text)))
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, program.place(image), 0)
    module = program.number("cuModuleLoadFatBinary", out(8), given(wrapper))
    assert function(program, module, "store") != 0


def test_the_log_says_what_is_wrong_and_where(start: Start) -> None:
    program = start()
    program.start_up()
    log = program.place(bytes(200))
    options, values = struct.pack("<ii", 5, 6), program.place(struct.pack("<QQ", log, 200))
    bad = given(HEAD + b".visible .entry k() {\n  foo.u32 a;\n}\n\0")
    assert program.status("cuModuleLoadDataEx", out(8), bad, 2, given(options), values) == INVALID_PTX
    said = bytes.fromhex(program.python(f"peek({log}, 200)")).split(b"\0")[0].decode()
    assert "line 5" in said and "foo" in said
    written = struct.unpack("<Q", bytes.fromhex(program.python(f"peek({values} + 8, 8)")))[0]
    assert written == len(said)
    assert program.status("cuModuleLoadDataEx", out(8), bad, 1, None, None) == INVALID_VALUE


def test_what_is_in_a_module(start: Start) -> None:
    program = start()
    program.start_up()
    free = program.free_memory()
    module = load(program)
    assert program.number("cuModuleGetFunctionCount", out(4), module) == 7
    assert program.status("cuModuleGetFunction", out(8), module, given(b"none\0")) == NOT_FOUND
    address, size = (
        int.from_bytes(each, "little")
        for each in program.ok("cuModuleGetGlobal_v2", out(8), out(8), module, given(b"counter\0"))
    )
    assert size == 4 and program.read(address, 4) == u32(7)
    assert program.status("cuModuleGetGlobal_v2", out(8), out(8), module, given(b"none\0")) == NOT_FOUND
    assert program.status("cuModuleGetGlobal_v2", None, None, module, given(b"counter\0")) == INVALID_VALUE
    assert program.status("cuMemFree_v2", address) == INVALID_VALUE
    target = program.allocate(4)
    program.write(address, u32(100))
    assert launch(program, function(program, module, "add_counter"), u64(target)) == SUCCESS
    assert program.read(target, 4) == u32(100)
    program.ok("cuMemFree_v2", target)
    assert program.free_memory() < free
    stale = function(program, module, "store")
    program.ok("cuModuleUnload", module)
    assert program.free_memory() == free
    assert program.status("cuModuleUnload", module) == INVALID_HANDLE
    assert launch(program, stale, u64(0), u32(0)) == INVALID_HANDLE


def test_what_functions_say_of_themselves(start: Start) -> None:
    program = start()
    program.start_up()
    module = load(program)
    kernels = {name: function(program, module, name) for name in ("store", "bounded", "required", "shared")}

    def attribute(name: str, number: int) -> int:
        return program.number("cuFuncGetAttribute", out(4), number, kernels[name])

    assert [attribute(name, 0) for name in kernels] == [1024, 64, 1024, 1024]  # threads
    assert [attribute("shared", number) for number in (1, 2, 5, 6, 8)] == [1008, 16, 70, 90, 48144]
    settable = [program.status("cuFuncSetAttribute", kernels["store"], number, 1) for number in range(16)]
    assert settable == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0]
    sizes = (0xFFFFFFFF, 0, 49152, 232448 - 1000, 232448 - 1024, 232448)
    assert [program.status("cuFuncSetAttribute", kernels["shared"], 8, size) for size in sizes] == [1, 0, 0, 1, 0, 1]
    parameters = [program.call("cuFuncGetParamInfo", kernels["store"], index, out(8), out(8)) for index in range(3)]
    assert [status for status, _ in parameters] == [0, 0, 1]
    assert [tuple(int.from_bytes(each, "little") for each in given_) for _, given_ in parameters[:2]] == [
        (0, 8),
        (8, 4),
    ]
    name = program.number("cuFuncGetName", out(8), kernels["store"])
    assert program.python(f"ctypes.string_at({name}).decode()") == "store"
    fit = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    asked = [(32, 0), (256, 0), (1024, 0), (1025, 0), (256, 49152), (256, 100000)]
    assert [program.number(fit, out(4), kernels["store"], *each) for each in asked] == [32, 8, 2, 0, 4, 0]
    best = program.ok("cuOccupancyMaxPotentialBlockSize", out(4), out(4), kernels["store"], None, 0, 0)
    assert [int.from_bytes(each, "little") for each in best] == [264, 1024]


def test_a_function_is_asked_and_set_without_a_context(start: Start) -> None:
    """As an H200's driver (580) takes it."""
    program = start()
    program.start_up()
    kernel = function(program, load(program), "store")
    program.ok("cuCtxSetCurrent", 0)
    program.ok("cuFuncSetAttribute", kernel, 8, 1000)
    assert program.number("cuFuncGetAttribute", out(4), 8, kernel) == 1000
    program.ok("cuFuncSetCacheConfig", kernel, 2)
    assert program.status("cuFuncSetAttribute", kernel + 1, 8, 1000) == INVALID_HANDLE


def test_a_library_is_in_every_context(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.start_up()
    library = program.number("cuLibraryLoadData", out(8), given(TEXT), None, None, 0, None, None, 0)
    kernel = program.number("cuLibraryGetKernel", out(8), library, given(b"add_counter\0"))
    assert program.status("cuLibraryGetKernel", out(8), library, given(b"none\0")) == NOT_FOUND
    addresses = []
    for device in range(2):
        program.ok("cuCtxSetCurrent", program.number("cuDevicePrimaryCtxRetain", out(8), device))
        addresses.append(program.number("cuLibraryGetGlobal", out(8), out(8), library, given(b"counter\0")))
        program.write(addresses[-1], u32(10 + device))
        target = program.allocate(4)
        assert launch(program, kernel, u64(target)) == SUCCESS
        assert program.read(target, 4) == u32(10 + device)
        assert program.status("cuFuncGetAttribute", out(4), 0, kernel) == INVALID_HANDLE
        assert program.number("cuKernelGetFunction", out(8), kernel) != kernel
    assert addresses[0] != addresses[1]
    assert program.number("cuKernelGetAttribute", out(4), 0, kernel, 1) == 1024
    module = program.number("cuLibraryGetModule", out(8), library)
    assert program.status("cuModuleUnload", module) == NOT_PERMITTED
    program.ok("cuLibraryUnload", library)
    assert program.status("cuKernelGetFunction", out(8), kernel) == INVALID_HANDLE
