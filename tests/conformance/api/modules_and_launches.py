"""Modules, libraries, functions, the linker, launches, occupancy."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program
from tests.conformance.api.sources import SMALL

U32 = ctypes.c_uint32
FUNCTION = driver.CUfunction_attribute


@program
def module_globals(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(16))
    for name in ("counter", "fixed", "shared_with_host", "place"):
        address, size = gpu.call("cuModuleGetGlobal", module, name.encode())
        note(name, [int(size), gpu.read(int(address), int(size))[:8].hex()])
    note.status("cuModuleGetGlobal", module, b"missing", what="missing global")
    note.status("cuModuleGetFunction", module, b"missing", what="missing function")
    counter = int(gpu.call("cuModuleGetGlobal", module, b"counter")[0])
    gpu.launch(gpu.function(module, "count_up"))
    gpu.call("cuMemcpyDtoD", memory.address, counter, 4)
    fixed = int(gpu.call("cuModuleGetGlobal", module, b"fixed")[0])
    gpu.call("cuMemsetD32", fixed + 4, 99, 1)
    gpu.launch(gpu.function(module, "read_fixed"), memory.address, block=4)
    note("constants", memory.read())
    gpu.launch(gpu.function(module, "touch_managed"), U32(6))
    managed = int(gpu.call("cuModuleGetGlobal", module, b"shared_with_host")[0])
    note("managed", U32.from_address(managed).value)
    again = gpu.module(SMALL)
    fresh = int(gpu.call("cuModuleGetGlobal", again, b"counter")[0])
    note("each module has its own", [gpu.read(fresh, 4).hex(), fresh != counter])
    note("functions", int(gpu.call("cuModuleGetFunctionCount", module)))
    note.status("cuModuleUnload", module)
    note.status("cuModuleLoadData", b"not a module", what="junk")
    note.status("cuModuleLoadData", b".version 8.0\n.target sm_90\n.address_size 64\nwrong\0", what="bad text")
    note.status("cuModuleLoadData", b".version 99.0\n.target sm_90\n.address_size 64\n\0", what="of the future")


@program
def libraries(note: Notes) -> None:
    library = gpu.call("cuLibraryLoadData", gpu.ptx(SMALL), [], [], 0, [], [], 0)
    kernel = gpu.call("cuLibraryGetKernel", library, b"store")
    memory = gpu.Memory(bytes(4))
    gpu.launch(gpu.call("cuKernelGetFunction", kernel), memory, U32(8))
    note("stored", memory.read())
    note("kernels", int(gpu.call("cuLibraryGetKernelCount", library)))
    note("name", gpu.call("cuKernelGetName", kernel).decode())
    note("parameters", [[int(n) for n in gpu.call("cuKernelGetParamInfo", kernel, i)] for i in range(2)])
    note.status("cuKernelGetParamInfo", kernel, 2, what="third parameter")
    note("global", int(gpu.call("cuLibraryGetGlobal", library, b"counter")[1]))
    note("managed", int(gpu.call("cuLibraryGetManaged", library, b"shared_with_host")[1]))
    note.status("cuLibraryGetKernel", library, b"missing", what="missing kernel")
    note.status("cuLibraryUnload", library)


@program
def function_attributes(note: Notes) -> None:
    module = gpu.module(SMALL)
    wanted = ("MAX_THREADS_PER_BLOCK", "SHARED_SIZE_BYTES", "CONST_SIZE_BYTES", "PTX_VERSION",
              "BINARY_VERSION", "MAX_DYNAMIC_SHARED_SIZE_BYTES", "PREFERRED_SHARED_MEMORY_CARVEOUT")  # fmt: skip
    for kernel in ("store", "bounded", "with_shared", "with_dynamic"):
        function = gpu.function(module, kernel)
        note(kernel, [
            int(gpu.call("cuFuncGetAttribute", getattr(FUNCTION, f"CU_FUNC_ATTRIBUTE_{name}"), function))
            for name in wanted
        ])  # fmt: skip
    local = FUNCTION.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
    note("local", int(gpu.call("cuFuncGetAttribute", local, gpu.function(module, "with_local"))) >= 1200)
    function = gpu.function(module, "with_dynamic")
    most = FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    for size in (100000, 232448, 232449, -1):
        note.status("cuFuncSetAttribute", function, most, size, what=f"dynamic {size}")
    note.status("cuFuncSetAttribute", function, FUNCTION.CU_FUNC_ATTRIBUTE_NUM_REGS, 3, what="registers")
    note("name", gpu.call("cuFuncGetName", function).decode())
    note("module", int(gpu.call("cuFuncGetModule", function)) == int(module))


@program
def parameters_of_all_sizes(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(24))
    function = gpu.function(module, "mixed")
    note("layout", [[int(n) for n in gpu.call("cuFuncGetParamInfo", function, i)] for i in range(6)])
    note.status("cuFuncGetParamInfo", function, 6, what="seventh")
    packed = (ctypes.c_uint8 * 24)()
    packed[0], packed[8], packed[9], packed[16] = 1, 2, 1, 3
    blob = bytearray(56)
    blob[0:1] = b"\x05"
    blob[8:16] = memory.address.to_bytes(8, "little")
    blob[16:18] = (700).to_bytes(2, "little")
    blob[24:48] = bytes(packed)
    blob[48:52] = bytes(ctypes.c_float(2.5))
    whole = (ctypes.c_uint8 * 64)(*blob, *bytes(ctypes.c_double(4.75)))
    offsets = [int(gpu.call("cuFuncGetParamInfo", function, i)[0]) for i in range(6)]
    pointers = (ctypes.c_void_p * 6)(*(ctypes.addressof(whole) + offset for offset in offsets))
    gpu.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(pointers), 0)
    gpu.call("cuCtxSynchronize")
    note("result", memory.read())


@program
def shapes_that_are_refused(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(16))
    bounded, dynamic = gpu.function(module, "bounded"), gpu.function(module, "with_dynamic")
    values = gpu.parameters(memory)

    def attempt(what: str, function: object, grid: tuple[int, ...], block: tuple[int, ...], shared: int = 0) -> None:
        note.status("cuLaunchKernel", function, *grid, *block, shared, 0, values, 0, what=what)

    attempt("no blocks", bounded, (0, 1, 1), (1, 1, 1))
    attempt("no threads", bounded, (1, 1, 1), (1, 0, 1))
    attempt("above its bound", bounded, (1, 1, 1), (65, 1, 1))
    attempt("at its bound", bounded, (1, 1, 1), (64, 1, 1))
    attempt("1025 threads", dynamic, (1, 1, 1), (1025, 1, 1))
    attempt("65 deep", dynamic, (1, 1, 1), (1, 1, 65))
    attempt("65536 rows", bounded, (1, 65536, 1), (1, 1, 1))
    attempt("48 KiB and one", bounded, (1, 1, 1), (1, 1, 1), 49153)
    note.status("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, 0, values, 0, what="no function")
    gpu.call("cuCtxSynchronize")


@program
def dynamic_shared_memory(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(4))
    function = gpu.function(module, "with_dynamic")
    most = FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    gpu.call("cuFuncSetAttribute", function, most, 200000)
    gpu.launch(function, memory, U32(50000), shared=200000)
    note("result", memory.read())


@program
def cooperative_launches(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(4))
    function, values = gpu.function(module, "store"), gpu.parameters(memory, U32(6))
    for blocks in (4, 1000000):
        shape = (blocks, 1, 1, 32, 1, 1)
        note.status("cuLaunchCooperativeKernel", function, *shape, 0, 0, values, what=f"{blocks} blocks")
    gpu.call("cuCtxSynchronize")
    note("result", memory.read())


@program
def occupancy(note: Notes) -> None:
    module = gpu.module(SMALL)
    for kernel in ("nothing", "with_shared"):
        function = gpu.function(module, kernel)
        note(kernel, [
            int(gpu.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared))
            for threads, shared in ((32, 0), (256, 0), (1024, 0), (64, 20000), (128, 48000))
        ])  # fmt: skip
    function = gpu.function(module, "nothing")
    note("room", int(gpu.call("cuOccupancyAvailableDynamicSMemPerBlock", function, 2, 128)))
    note.status("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, 0, 0, what="no threads")
    note.status("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, 2000, 0, what="2000 threads")


@program
def linker(note: Notes) -> None:
    text = gpu.ptx(SMALL)
    state = gpu.call("cuLinkCreate", 0, [], [])
    kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
    note.status("cuLinkAddData", state, kind, text, len(text), b"small.ptx", 0, [], [])
    image, size = gpu.call("cuLinkComplete", state)
    note("some bytes", int(size) > 0)
    module, memory = gpu.call("cuModuleLoadData", int(image)), gpu.Memory(bytes(4))
    gpu.launch(gpu.function(module, "store"), memory, U32(31))
    note("result", memory.read())
    note.status("cuLinkDestroy", state)
    state = gpu.call("cuLinkCreate", 0, [], [])
    note.status("cuLinkAddData", state, kind, b"junk\0", 5, b"junk", 0, [], [], what="junk")
    note.status("cuLinkDestroy", state, what="destroy after junk")
