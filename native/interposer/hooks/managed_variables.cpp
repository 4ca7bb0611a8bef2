// Counting managed variables: those that a program asks for, and those that its kernels alone use.
//
// A variable is where its module was linked to be, so it cannot be host-backed; the driver cannot checkpoint it either.
#include <exception>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../prim/errno_kept.h"
#include "../prim/log.h"
#include "managed_names.h"
#include "residual_key.h"

namespace real = torpor::real;
using torpor::residual::Kind;
using torpor::residual::noted;

namespace {

// Notes what the driver says is managed; it is forgotten when the driver says so no more.
void note_if_managed(CUdeviceptr address) {
  int managed = 0;
  const CUresult asked = real::cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (asked == CUDA_SUCCESS && managed != 0) torpor::residual::add(Kind::managed_variable, address);
}

template <typename Names, typename Note>
void note_names(Names names, Note note) {
  const torpor::ErrnoKept kept;
  try {
    for (const auto& name : names()) note(name.c_str());
  } catch (const std::exception& error) {
    torpor::log::error("managed variables of a module cannot be counted: %s", error.what());
  }
}

template <typename Names>
CUresult noted_module(CUresult result, const CUmodule* module, Names names) {
  if (result != CUDA_SUCCESS || module == nullptr) return result;
  note_names(names, [module](const char* name) {
    CUdeviceptr address = 0;
    if (real::cuModuleGetGlobal_v2(&address, nullptr, *module, name) == CUDA_SUCCESS) note_if_managed(address);
  });
  return result;
}

// By the library, not by address: asking for one would load a library that is loaded when it is needed.
template <typename Names>
CUresult noted_library(CUresult result, const CUlibrary* library, Names names) {
  if (result != CUDA_SUCCESS || library == nullptr) return result;
  note_names(names, [library](const char*) {
    torpor::residual::add(Kind::managed_library, torpor::residual::key(*library));
  });
  return result;
}

}  // namespace

extern "C" CUresult torpor_hook_cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                                    const char* name) {
  return noted(real::cuLibraryGetManaged(dptr, bytes, library, name), Kind::managed_variable, dptr);
}

extern "C" CUresult torpor_hook_cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                                   const char* name) {
  const CUresult result = real::cuLibraryGetGlobal(dptr, bytes, library, name);
  if (result == CUDA_SUCCESS && dptr != nullptr) note_if_managed(*dptr);
  return result;
}

extern "C" CUresult torpor_hook_cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                                     const char* name) {
  const CUresult result = real::cuModuleGetGlobal_v2(dptr, bytes, hmod, name);
  if (result == CUDA_SUCCESS && dptr != nullptr) note_if_managed(*dptr);
  return result;
}

extern "C" CUresult torpor_hook_cuModuleLoad(CUmodule* module, const char* fname) {
  return noted_module(real::cuModuleLoad(module, fname), module,
                      [fname] { return torpor::managed_names_in_file(fname); });
}

extern "C" CUresult torpor_hook_cuModuleLoadData(CUmodule* module, const void* image) {
  return noted_module(real::cuModuleLoadData(module, image), module, [image] { return torpor::managed_names(image); });
}

extern "C" CUresult torpor_hook_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                                   CUjit_option* options, void** optionValues) {
  return noted_module(real::cuModuleLoadDataEx(module, image, numOptions, options, optionValues), module,
                      [image] { return torpor::managed_names(image); });
}

extern "C" CUresult torpor_hook_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                                  void** jitOptionsValues, unsigned int numJitOptions,
                                                  CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                                  unsigned int numLibraryOptions) {
  return noted_library(real::cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                                               libraryOptions, libraryOptionValues, numLibraryOptions),
                       library, [code] { return torpor::managed_names(code); });
}

extern "C" CUresult torpor_hook_cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                                      CUjit_option* jitOptions, void** jitOptionsValues,
                                                      unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                                      void** libraryOptionValues, unsigned int numLibraryOptions) {
  return noted_library(real::cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                                   libraryOptions, libraryOptionValues, numLibraryOptions),
                       library, [fileName] { return torpor::managed_names_in_file(fileName); });
}
