# ruff: noqa: E501
"""Functions of the launch family: kernel launches and host functions. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuFuncSetBlockShape", ("CUfunction hfunc", "int x", "int y", "int z",)),
    Function("cuFuncSetSharedSize", ("CUfunction hfunc", "unsigned int bytes",)),
    Function("cuLaunch", ("CUfunction f",)),
    Function("cuLaunchCooperativeKernel", ("CUfunction f", "unsigned int gridDimX", "unsigned int gridDimY", "unsigned int gridDimZ", "unsigned int blockDimX", "unsigned int blockDimY", "unsigned int blockDimZ", "unsigned int sharedMemBytes", "CUstream hStream", "void **kernelParams",)),
    Function("cuLaunchCooperativeKernelMultiDevice", ("CUDA_LAUNCH_PARAMS *launchParamsList", "unsigned int numDevices", "unsigned int flags",)),
    Function("cuLaunchCooperativeKernel_ptsz", ("CUfunction f", "unsigned int gridDimX", "unsigned int gridDimY", "unsigned int gridDimZ", "unsigned int blockDimX", "unsigned int blockDimY", "unsigned int blockDimZ", "unsigned int sharedMemBytes", "CUstream hStream", "void **kernelParams",)),
    Function("cuLaunchGrid", ("CUfunction f", "int grid_width", "int grid_height",)),
    Function("cuLaunchGridAsync", ("CUfunction f", "int grid_width", "int grid_height", "CUstream hStream",)),
    Function("cuLaunchHostFunc", ("CUstream hStream", "CUhostFn fn", "void *userData",)),
    Function("cuLaunchHostFunc_ptsz", ("CUstream hStream", "CUhostFn fn", "void *userData",)),
    Function("cuLaunchKernel", ("CUfunction f", "unsigned int gridDimX", "unsigned int gridDimY", "unsigned int gridDimZ", "unsigned int blockDimX", "unsigned int blockDimY", "unsigned int blockDimZ", "unsigned int sharedMemBytes", "CUstream hStream", "void **kernelParams", "void **extra",)),
    Function("cuLaunchKernelEx", ("const CUlaunchConfig *config", "CUfunction f", "void **kernelParams", "void **extra",)),
    Function("cuLaunchKernelEx_ptsz", ("const CUlaunchConfig *config", "CUfunction f", "void **kernelParams", "void **extra",)),
    Function("cuLaunchKernel_ptsz", ("CUfunction f", "unsigned int gridDimX", "unsigned int gridDimY", "unsigned int gridDimZ", "unsigned int blockDimX", "unsigned int blockDimY", "unsigned int blockDimZ", "unsigned int sharedMemBytes", "CUstream hStream", "void **kernelParams", "void **extra",)),
    Function("cuParamSetSize", ("CUfunction hfunc", "unsigned int numbytes",)),
    Function("cuParamSetf", ("CUfunction hfunc", "int offset", "float value",)),
    Function("cuParamSeti", ("CUfunction hfunc", "int offset", "unsigned int value",)),
    Function("cuParamSetv", ("CUfunction hfunc", "int offset", "void *ptr", "unsigned int numbytes",)),
)
