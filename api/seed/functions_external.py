# ruff: noqa: E501
"""Functions of the external family: memory and semaphores of other APIs. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuDestroyExternalMemory", ("CUexternalMemory extMem",)),
    Function("cuDestroyExternalSemaphore", ("CUexternalSemaphore extSem",)),
    Function("cuExternalMemoryGetMappedBuffer", ("CUdeviceptr *devPtr", "CUexternalMemory extMem", "const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc",)),
    Function("cuExternalMemoryGetMappedMipmappedArray", ("CUmipmappedArray *mipmap", "CUexternalMemory extMem", "const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc",)),
    Function("cuImportExternalMemory", ("CUexternalMemory *extMem_out", "const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc",)),
    Function("cuImportExternalSemaphore", ("CUexternalSemaphore *extSem_out", "const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc",)),
    Function("cuSignalExternalSemaphoresAsync", ("const CUexternalSemaphore *extSemArray", "const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray", "unsigned int numExtSems", "CUstream stream",)),
    Function("cuSignalExternalSemaphoresAsync_ptsz", ("const CUexternalSemaphore *extSemArray", "const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray", "unsigned int numExtSems", "CUstream stream",)),
    Function("cuWaitExternalSemaphoresAsync", ("const CUexternalSemaphore *extSemArray", "const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray", "unsigned int numExtSems", "CUstream stream",)),
    Function("cuWaitExternalSemaphoresAsync_ptsz", ("const CUexternalSemaphore *extSemArray", "const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray", "unsigned int numExtSems", "CUstream stream",)),
)
