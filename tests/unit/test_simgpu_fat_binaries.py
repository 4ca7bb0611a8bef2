"""Fat binaries as nvcc writes them: PTX plain, compressed by LZ4 (nvcc 12's way) and by zstd (nvcc 13's).

The samples in tests/golden/fatbin are made from kernels.cu there by
`nvcc -fatbin -gencode arch=compute_90,code=compute_90 --compress-mode=default|speed|none|size`.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.native.simgpu.kernels import function, launch, u32, u64
from tests.native.simgpu.program import Program, Start, given, out, programs_fixture, software_gpu

start = programs_fixture()

SAMPLES = REPOSITORY / "tests/golden/fatbin"
INVALID_IMAGE, NO_BINARY, SHARED_OBJECT_INIT_FAILED = 200, 209, 303
ZSTD = "nvcc13-default-zstd"
ZSTD_FLAG = 0x8000


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.fatbin").read_bytes()


def flags_of_first_entry(image: bytes) -> int:
    return int(struct.unpack_from("<Q", image, 16 + 40)[0])


@pytest.mark.parametrize(
    ("name", "packing"),
    [("nvcc13-none", 0), ("nvcc13-speed-lz4", 0x2000), (ZSTD, ZSTD_FLAG), ("nvcc13-size-zstd-and-cubin", ZSTD_FLAG)],
)
def test_ptx_is_unpacked_and_runs(start: Start, name: str, packing: int) -> None:
    image = sample(name)
    assert flags_of_first_entry(image) & 0xF000 == packing  # the sample is what its name says
    program = start()
    program.start_up()
    module = program.number("cuModuleLoadData", out(8), given(image))
    address = program.allocate(128)
    program.write(address, struct.pack("<32i", *range(32)))
    launch(program, function(program, module, "triple"), u64(address), block=(32, 1, 1))
    program.ok("cuCtxSynchronize")
    assert struct.unpack("<32i", program.read(address, 128)) == tuple(3 * n for n in range(32))
    launch(program, function(program, module, "fill"), u64(address), u32(32), block=(8, 1, 1))
    program.ok("cuCtxSynchronize")
    assert struct.unpack("<32i", program.read(address, 128)) == tuple(9 * n * n + n for n in range(32))


@pytest.mark.parametrize("name", [ZSTD, "nvcc13-none"])
def test_the_text_of_the_newest_architecture_that_fits(start: Start, name: str) -> None:
    older = start(TORPOR_SIM_ARCH="8.0")  # the samples have PTX for 7.5 and 9.0
    older.start_up()
    older.ok("cuModuleLoadData", out(8), given(sample(name)))
    oldest = start(TORPOR_SIM_ARCH="7.0")
    oldest.start_up()
    assert oldest.status("cuModuleLoadData", out(8), given(sample(name))) == NO_BINARY


def test_a_cubin_alone_is_no_binary_for_this_gpu(start: Start) -> None:
    program = start()
    program.start_up()
    assert program.status("cuModuleLoadData", out(8), given(sample("nvcc13-cubin-only"))) == NO_BINARY


def test_broken_zstd(start: Start) -> None:
    program = start()
    program.start_up()
    broken = bytearray(sample("nvcc13-size-zstd-and-cubin"))
    payload = 16 + 80
    assert broken[payload : payload + 4] == b"\x28\xb5\x2f\xfd"
    broken[payload + 20] ^= 0xFF
    assert program.status("cuModuleLoadData", out(8), given(bytes(broken))) == INVALID_IMAGE


def without_zstd(start: Start, tmp_path: Path) -> Program:
    """A program in which libzstd.so.1 is a file that cannot be loaded."""
    (tmp_path / "libzstd.so.1").write_bytes(b"no library")
    return start(LD_LIBRARY_PATH=f"{tmp_path}:{software_gpu().parent}")


def test_without_the_zstd_library_the_log_says_what_to_do(start: Start, tmp_path: Path) -> None:
    program = without_zstd(start, tmp_path)
    program.start_up()
    log = program.place(bytes(1000))
    options, values = given(struct.pack("<ii", 5, 6)), program.place(struct.pack("<QQ", log, 1000))
    status = program.status("cuModuleLoadDataEx", out(8), given(sample(ZSTD)), 2, options, values)
    assert status == SHARED_OBJECT_INIT_FAILED
    said = bytes.fromhex(program.python(f"peek({log}, 1000)")).split(b"\0")[0].decode()
    assert "libzstd.so.1" in said and "libzstd1" in said and "--compress-mode=speed" in said
    program.ok("cuModuleLoadData", out(8), given(sample("nvcc13-speed-lz4")))
    assert said in program.end()
