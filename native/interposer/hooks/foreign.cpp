// Counting objects shared with other APIs: Vulkan, OpenGL, EGL, VDPAU.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "residual_key.h"

namespace real = torpor::real;
using torpor::residual::forgotten;
using torpor::residual::Kind;
using torpor::residual::noted;

extern "C" CUresult torpor_hook_cuImportExternalMemory(CUexternalMemory* extMem_out,
                                                       const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* memHandleDesc) {
  return noted(real::cuImportExternalMemory(extMem_out, memHandleDesc), Kind::external, extMem_out);
}

extern "C" CUresult torpor_hook_cuDestroyExternalMemory(CUexternalMemory extMem) {
  return forgotten(real::cuDestroyExternalMemory(extMem), Kind::external, extMem);
}

extern "C" CUresult torpor_hook_cuImportExternalSemaphore(CUexternalSemaphore* extSem_out,
                                                          const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* semHandleDesc) {
  return noted(real::cuImportExternalSemaphore(extSem_out, semHandleDesc), Kind::external, extSem_out);
}

extern "C" CUresult torpor_hook_cuDestroyExternalSemaphore(CUexternalSemaphore extSem) {
  return forgotten(real::cuDestroyExternalSemaphore(extSem), Kind::external, extSem);
}

extern "C" CUresult torpor_hook_cuGraphicsGLRegisterBuffer(CUgraphicsResource* pCudaResource, GLuint buffer,
                                                           unsigned int Flags) {
  return noted(real::cuGraphicsGLRegisterBuffer(pCudaResource, buffer, Flags), Kind::external, pCudaResource);
}

extern "C" CUresult torpor_hook_cuGraphicsGLRegisterImage(CUgraphicsResource* pCudaResource, GLuint image,
                                                          GLenum target, unsigned int Flags) {
  return noted(real::cuGraphicsGLRegisterImage(pCudaResource, image, target, Flags), Kind::external, pCudaResource);
}

extern "C" CUresult torpor_hook_cuGraphicsEGLRegisterImage(CUgraphicsResource* pCudaResource, EGLImageKHR image,
                                                           unsigned int flags) {
  return noted(real::cuGraphicsEGLRegisterImage(pCudaResource, image, flags), Kind::external, pCudaResource);
}

extern "C" CUresult torpor_hook_cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource* pCudaResource,
                                                                    VdpVideoSurface vdpSurface, unsigned int flags) {
  return noted(real::cuGraphicsVDPAURegisterVideoSurface(pCudaResource, vdpSurface, flags), Kind::external,
               pCudaResource);
}

extern "C" CUresult torpor_hook_cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource* pCudaResource,
                                                                     VdpOutputSurface vdpSurface, unsigned int flags) {
  return noted(real::cuGraphicsVDPAURegisterOutputSurface(pCudaResource, vdpSurface, flags), Kind::external,
               pCudaResource);
}

extern "C" CUresult torpor_hook_cuGraphicsUnregisterResource(CUgraphicsResource resource) {
  return forgotten(real::cuGraphicsUnregisterResource(resource), Kind::external, resource);
}
