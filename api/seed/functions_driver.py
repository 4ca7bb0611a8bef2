# ruff: noqa: E501
"""Functions of the driver family: initialisation, version, errors, entry points, logs, profiler. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuCoredumpGetAttribute", ("CUcoredumpSettings attrib", "void *value", "size_t *size",)),
    Function("cuCoredumpGetAttributeGlobal", ("CUcoredumpSettings attrib", "void *value", "size_t *size",)),
    Function("cuCoredumpSetAttribute", ("CUcoredumpSettings attrib", "void *value", "size_t *size",)),
    Function("cuCoredumpSetAttributeGlobal", ("CUcoredumpSettings attrib", "void *value", "size_t *size",)),
    Function("cuDriverGetVersion", ("int *driverVersion",)),
    Function("cuGetErrorName", ("CUresult error", "const char **pStr",)),
    Function("cuGetErrorString", ("CUresult error", "const char **pStr",)),
    Function("cuGetExportTable", ("const void **ppExportTable", "const CUuuid *pExportTableId",)),
    Function("cuGetProcAddress", ("const char *symbol", "void **pfn", "int cudaVersion", "cuuint64_t flags",)),
    Function("cuGetProcAddress_v2", ("const char *symbol", "void **pfn", "int cudaVersion", "cuuint64_t flags", "CUdriverProcAddressQueryResult *symbolStatus",)),
    Function("cuInit", ("unsigned int Flags",)),
    Function("cuLogsCurrent", ("CUlogIterator *iterator_out", "unsigned int flags",)),
    Function("cuLogsDumpToFile", ("CUlogIterator *iterator", "const char *pathToFile", "unsigned int flags",)),
    Function("cuLogsDumpToMemory", ("CUlogIterator *iterator", "char *buffer", "size_t *size", "unsigned int flags",)),
    Function("cuLogsRegisterCallback", ("CUlogsCallback callbackFunc", "void *userData", "CUlogsCallbackHandle *callback_out",)),
    Function("cuLogsUnregisterCallback", ("CUlogsCallbackHandle callback",)),
    Function("cuProfilerInitialize", ("const char *configFile", "const char *outputFile", "CUoutput_mode outputMode",)),
    Function("cuProfilerStart", ()),
    Function("cuProfilerStop", ()),
)
