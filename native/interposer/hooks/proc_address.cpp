// cuGetProcAddress: entry points that we know are handed out as ours, all others as the driver's own.
#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../prim/entries.h"
#include "../prim/names.h"
#include "../prim/table.h"
#include "../vm/answers.h"
#include "unknown.h"

namespace torpor {
namespace {

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

struct Expected {
  Symbol symbol;   // kCount: the base is not known, or has no entry point for that version and stream mode
  bool base_known;
};

// What our data says that the driver picks.
Expected expected(const char* base, int version, cuuint64_t flags) {
  const Answer* const first = answers_for(base);
  Expected found{Symbol::kCount, first != nullptr};
  if (first == nullptr) return found;
  for (const Answer* at = first; at != kAnswers + kAnswerCount && std::strcmp(at->base, base) == 0; ++at) {
    if (at->since <= version) found.symbol = (flags & kPerThread) != 0 ? at->per_thread : at->symbol;
  }
  return found;
}

// The exported name of an address inside the real library, if the address is exactly an exported symbol's; else null.
const char* exported_name(const void* address) {
  Dl_info info{};
  const ElfW(Sym)* entry = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&entry)), RTLD_DL_SYMENT) == 0) {
    return nullptr;
  }
  return info.dli_saddr == address ? info.dli_sname : nullptr;
}

// `address` came from the real driver for that request; returns what the program gets.
void* substitute(const char* base, int version, cuuint64_t flags, void* address) {
  if (base == nullptr || address == nullptr || *base == '\0') return address;
  if (const Symbol symbol = symbol_at(address, base); symbol != Symbol::kCount) return entries::exported(symbol);
  // Not an export that we know. A newer driver's export says its own name, and our data does not cover it; an internal
  // address stands for what our data says, unless the program asks for more than the data knows about.
  const Expected guess = expected(base, version, flags);
  const bool told = guess.base_known && guess.symbol != Symbol::kCount && version <= CUDA_VERSION;
  if (told && real::address(guess.symbol) == address) return entries::exported(guess.symbol);  // as it was before
  if (!told || exported_name(address) != nullptr) {
    count_unknown(base);
    return address;
  }
  redirect(guess.symbol, address);
  vm::changed<vm::Group::context>();  // whoever asks for what the function stood for before is to have it back
  return entries::exported(guess.symbol);
}

}  // namespace
}  // namespace torpor

extern "C" CUresult torpor_hook_cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  const CUresult result = torpor::real::cuGetProcAddress(symbol, pfn, cudaVersion, flags);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = torpor::substitute(symbol, cudaVersion, flags, *pfn);
  return result;
}

extern "C" CUresult torpor_hook_cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                                    CUdriverProcAddressQueryResult* symbolStatus) {
  const CUresult result = torpor::real::cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = torpor::substitute(symbol, cudaVersion, flags, *pfn);
  return result;
}
