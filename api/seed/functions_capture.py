# ruff: noqa: E501
"""Functions of the capture family: recording a stream into a graph. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuStreamBeginCapture", ("CUstream hStream",)),
    Function("cuStreamBeginCaptureToGraph", ("CUstream hStream", "CUgraph hGraph", "const CUgraphNode *dependencies", "const CUgraphEdgeData *dependencyData", "size_t numDependencies", "CUstreamCaptureMode mode",)),
    Function("cuStreamBeginCaptureToGraph_ptsz", ("CUstream hStream", "CUgraph hGraph", "const CUgraphNode *dependencies", "const CUgraphEdgeData *dependencyData", "size_t numDependencies", "CUstreamCaptureMode mode",)),
    Function("cuStreamBeginCapture_ptsz", ("CUstream hStream",)),
    Function("cuStreamBeginCapture_v2", ("CUstream hStream", "CUstreamCaptureMode mode",)),
    Function("cuStreamBeginCapture_v2_ptsz", ("CUstream hStream", "CUstreamCaptureMode mode",)),
    Function("cuStreamEndCapture", ("CUstream hStream", "CUgraph *phGraph",)),
    Function("cuStreamEndCapture_ptsz", ("CUstream hStream", "CUgraph *phGraph",)),
    Function("cuStreamGetCaptureInfo", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out",)),
    Function("cuStreamGetCaptureInfo_ptsz", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out",)),
    Function("cuStreamGetCaptureInfo_v2", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out", "CUgraph *graph_out", "const CUgraphNode **dependencies_out", "size_t *numDependencies_out",)),
    Function("cuStreamGetCaptureInfo_v2_ptsz", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out", "CUgraph *graph_out", "const CUgraphNode **dependencies_out", "size_t *numDependencies_out",)),
    Function("cuStreamGetCaptureInfo_v3", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out", "CUgraph *graph_out", "const CUgraphNode **dependencies_out", "const CUgraphEdgeData **edgeData_out", "size_t *numDependencies_out",)),
    Function("cuStreamGetCaptureInfo_v3_ptsz", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus_out", "cuuint64_t *id_out", "CUgraph *graph_out", "const CUgraphNode **dependencies_out", "const CUgraphEdgeData **edgeData_out", "size_t *numDependencies_out",)),
    Function("cuStreamIsCapturing", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus",)),
    Function("cuStreamIsCapturing_ptsz", ("CUstream hStream", "CUstreamCaptureStatus *captureStatus",)),
    Function("cuStreamUpdateCaptureDependencies", ("CUstream hStream", "CUgraphNode *dependencies", "size_t numDependencies", "unsigned int flags",)),
    Function("cuStreamUpdateCaptureDependencies_ptsz", ("CUstream hStream", "CUgraphNode *dependencies", "size_t numDependencies", "unsigned int flags",)),
    Function("cuStreamUpdateCaptureDependencies_v2", ("CUstream hStream", "CUgraphNode *dependencies", "const CUgraphEdgeData *dependencyData", "size_t numDependencies", "unsigned int flags",)),
    Function("cuStreamUpdateCaptureDependencies_v2_ptsz", ("CUstream hStream", "CUgraphNode *dependencies", "const CUgraphEdgeData *dependencyData", "size_t numDependencies", "unsigned int flags",)),
    Function("cuThreadExchangeStreamCaptureMode", ("CUstreamCaptureMode *mode",)),
)
