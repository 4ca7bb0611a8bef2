// Operations from the parameters that nodes are made and changed with, and back. Under the process lock.
#pragma once

#include "graph.h"

namespace sim {

// Throw what adding such a node would return.
KernelOp operation_of(const CUDA_KERNEL_NODE_PARAMS_v1* what);
KernelOp operation_of(const CUDA_KERNEL_NODE_PARAMS* what);
CopyOp operation_of(const CUDA_MEMCPY3D* what, CUcontext context);
FillOp operation_of(const CUDA_MEMSET_NODE_PARAMS* what, CUcontext context);
HostOp operation_of(const CUDA_HOST_NODE_PARAMS* what);
ChildOp child_of(CUgraph handle);
RecordOp record_of(CUevent handle);
WaitOp wait_of(CUevent handle);
FreeOp free_of(const Graph& graph, CUdeviceptr address);
MemoryOp operation_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS* what);

// Any kind. What an allocation node is given as its address is written back.
Operation operation_of(const Graph& graph, CUgraphNodeParams& what);

// The parameters of a kernel node; the arrays in it belong to the node.
CUDA_KERNEL_NODE_PARAMS described(Node& node);

// Puts new parameters in; throws CUDA_ERROR_INVALID_VALUE when that is another kind of operation.
void replace(Node& node, Operation operation);

}  // namespace sim
