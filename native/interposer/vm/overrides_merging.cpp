// What a launch takes from its stream or its module, and a graph's kernel does not: from then on launches are not merged. And
// what graphs may have taken over when they were made: they are made anew.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "merging.h"

namespace real = torpor::real;
using torpor::vm::merging::forget;
using torpor::vm::merging::give_up;

extern "C" CUresult torpor_hook_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  give_up();
  return real::cuStreamSetAttribute(hStream, attr, value);
}

extern "C" CUresult torpor_hook_cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
                                                          const CUstreamAttrValue* value) {
  give_up();
  return real::cuStreamSetAttribute_ptsz(hStream, attr, value);
}

extern "C" CUresult torpor_hook_cuStreamCopyAttributes(CUstream dst, CUstream src) {
  give_up();
  return real::cuStreamCopyAttributes(dst, src);
}

extern "C" CUresult torpor_hook_cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) {
  give_up();
  return real::cuStreamCopyAttributes_ptsz(dst, src);
}

extern "C" CUresult torpor_hook_cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) {
  give_up();
  return real::cuModuleGetTexRef(pTexRef, hmod, name);
}

extern "C" CUresult torpor_hook_cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
  give_up();
  return real::cuModuleGetSurfRef(pSurfRef, hmod, name);
}

extern "C" CUresult torpor_hook_cuCtxSetLimit(CUlimit limit, size_t value) {
  forget();
  return real::cuCtxSetLimit(limit, value);
}

extern "C" CUresult torpor_hook_cuCtxSetFlags(unsigned int flags) {
  forget();
  return real::cuCtxSetFlags(flags);
}

extern "C" CUresult torpor_hook_cuCtxSetSharedMemConfig(CUsharedconfig config) {
  forget();
  return real::cuCtxSetSharedMemConfig(config);
}

extern "C" CUresult torpor_hook_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  forget();
  return real::cuFuncSetSharedMemConfig(hfunc, config);
}
