// The arena by itself, without the interposer around it: its calls go straight to a driver library, and whether a stream
// is being captured is ours to say. Built with sanitizers.
//
// Usage: arena_test LIBCUDA. Exits with 1 and says where something is wrong.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "../../../native/interposer/arena/arena.h"
#include "../../../native/interposer/arena/handover.h"
#include "../../../native/interposer/arena/program_calls.h"
#include "../../../native/interposer/generated/real.h"
#include "../../../native/interposer/hooks/capture_hold.h"
#include "../../../native/interposer/hooks/residual.h"

using torpor::Symbol;
using torpor::arena::Arena;
using torpor::arena::Handover;
using torpor::arena::ProgramMemory;
namespace contexts = torpor::contexts;
namespace real = torpor::real;

// Declared in real.h; the interposer has it in assembly.
void* torpor_real_slots[2048];

namespace {

std::uint32_t g_captures = 0;

void check(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "line %d: %s\n", line, what);
  std::_Exit(1);
}
#define CHECK(condition) check((condition), #condition, __LINE__)

void connect(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
#define SLOT(name) torpor_real_slots[static_cast<std::uint32_t>(Symbol::name)] = ::dlsym(library, #name)
  SLOT(cuInit), SLOT(cuDeviceGetCount), SLOT(cuDeviceGetAttribute), SLOT(cuMemGetInfo_v2);
  SLOT(cuDevicePrimaryCtxGetState), SLOT(cuDevicePrimaryCtxRetain), SLOT(cuDevicePrimaryCtxRelease_v2);
  SLOT(cuCtxGetCurrent), SLOT(cuCtxGetDevice), SLOT(cuCtxPopCurrent_v2), SLOT(cuCtxPushCurrent_v2);
  SLOT(cuCtxSetCurrent), SLOT(cuCtxSynchronize);
  SLOT(cuMemAddressReserve), SLOT(cuMemGetAllocationGranularity), SLOT(cuMemCreate), SLOT(cuMemMap);
  SLOT(cuMemSetAccess), SLOT(cuMemUnmap), SLOT(cuMemRelease), SLOT(cuMemExportToShareableHandle);
  SLOT(cuMemImportFromShareableHandle), SLOT(cuMemAlloc_v2), SLOT(cuMemFree_v2);
  SLOT(cuMemAddressFree), SLOT(cuMemGetAccess), SLOT(cuMemGetAllocationPropertiesFromHandle);
  SLOT(cuMemcpyDtoD_v2), SLOT(cuMemcpyDtoH_v2), SLOT(cuMemsetD8_v2);
#undef SLOT
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(real::cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS);
  return free;
}

CUdeviceptr allocate(std::uint64_t size) {
  CUdeviceptr out = 0;
  CHECK(Arena::get()->allocate(size, out) == CUDA_SUCCESS);
  return out;
}

void release(CUdeviceptr address) {
  const auto allocation = Arena::get()->find(address);
  CHECK(allocation.has_value());
  const auto waited = Arena::get()->wait_until_unused(*allocation);
  CHECK(waited.has_value() == (g_captures == 0) && waited.value_or(CUDA_SUCCESS) == CUDA_SUCCESS);
  CHECK(Arena::get()->release(*allocation, waited.has_value()));
  CHECK(!Arena::get()->release(*allocation, waited.has_value()));  // the second of two racing frees
}

void frees_during_a_capture_are_parked() {
  constexpr std::uint64_t kSize = 8 << 20;
  const CUdeviceptr first = allocate(kSize);
  const CUdeviceptr second = allocate(kSize);
  const std::size_t before = free_memory();
  g_captures = 1;
  release(first);
  CHECK(!Arena::get()->find(first));
  CHECK(Arena::get()->contains(first));
  CHECK(free_memory() == before);  // a graph may still use it
  const CUdeviceptr during = allocate(kSize);
  CHECK(during != first);
  g_captures = 0;
  release(second);
  CHECK(free_memory() >= before + kSize);  // both gone, one new
  release(during);
}

void a_free_that_did_not_wait_is_parked_also_when_the_capture_is_over() {
  constexpr std::uint64_t kSize = 8 << 20;
  const CUdeviceptr address = allocate(kSize), other = allocate(kSize);
  const auto allocation = Arena::get()->find(address);
  const std::size_t before = free_memory();
  g_captures = 1;
  CHECK(!Arena::get()->wait_until_unused(*allocation));
  g_captures = 0;
  CHECK(Arena::get()->release(*allocation, false));
  CHECK(free_memory() == before);  // work may still use it
  release(other);
  CHECK(free_memory() >= before + 2 * kSize);
}

void parked_memory_goes_at_the_freeze() {
  constexpr std::uint64_t kSize = 8 << 20;
  const CUdeviceptr address = allocate(kSize);
  const std::size_t before = free_memory();
  g_captures = 1;
  release(address);
  g_captures = 0;
  CHECK(free_memory() == before);
  Handover::settle();
  CHECK(free_memory() >= before + kSize);
  CHECK(Handover::totals().count == 0);
}

void blocks_go_and_come_back() {
  const CUdeviceptr small = allocate(700);
  const CUdeviceptr large = allocate(5 << 20);
  CHECK(real::cuMemsetD8_v2(small, 1, 700) == CUDA_SUCCESS);
  CHECK(real::cuMemsetD8_v2(large, 2, 5 << 20) == CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    Handover::settle();
    std::vector<torpor::arena::BlockRecord> records;
    std::vector<torpor::Descriptor> descriptors;
    torpor::arena::Failure failure;
    torpor::arena::Moved moved;
    CHECK(Handover::export_blocks(0, 64, records, descriptors, failure));
    CHECK(records.size() == 2 && descriptors.size() == 2);
    CHECK(Handover::release_all(moved, failure) && moved.blocks == 2);
    for (std::size_t i = 0; i < 2; ++i) CHECK(Handover::take_back(records[i], descriptors[i], failure));
    CHECK(!Handover::take_back(records[0], descriptors[0], failure));
    unsigned char byte = 0;
    CHECK(real::cuMemcpyDtoH_v2(&byte, small + 699, 1) == CUDA_SUCCESS && byte == 1);
    CHECK(real::cuMemcpyDtoH_v2(&byte, large + (5 << 20) - 1, 1) == CUDA_SUCCESS && byte == 2);
  }
  release(small);
  release(large);
}

unsigned long long access_at(CUdeviceptr address) {
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  unsigned long long flags = 0;
  CHECK(real::cuMemGetAccess(&flags, &location, address) == CUDA_SUCCESS);
  return flags;
}

// A driver may take access for a part of a mapping, and the books follow; but it maps and unmaps all of it or nothing.
void a_mapping_comes_back_whole_though_parts_were_given_access() {
  constexpr std::uint64_t kGrain = 2 << 20;
  ProgramMemory& program = *ProgramMemory::get();
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CHECK(torpor::arena::create_memory(4 * kGrain, wanted, handle) == CUDA_SUCCESS);
  CHECK(ProgramMemory::is_ours(handle));
  const ProgramMemory::Shared memory = program.find(handle);
  CUdeviceptr base = 0;
  CHECK(real::cuMemAddressReserve(&base, 4 * kGrain, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(real::cuMemMap(base, 4 * kGrain, 0, memory->handle, 0) == CUDA_SUCCESS);
  program.mapped(base, 4 * kGrain, 0, memory);
  const CUmemAccessDesc all = torpor::arena::access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUmemAccessDesc read = torpor::arena::access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  program.accessed(base, 4 * kGrain, &all, 1);
  program.accessed(base, 4 * kGrain, &read, 1);
  program.accessed(base + kGrain, 2 * kGrain, &all, 1);
  program.accessed(base + kGrain, 2 * kGrain, &read, 1);
  CHECK(real::cuMemUnmap(base, 4 * kGrain) == CUDA_SUCCESS);
  CHECK(program.map_all(*memory, memory->handle) == CUDA_SUCCESS);
  CHECK(access_at(base) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(access_at(base + 3 * kGrain) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  const std::size_t before = free_memory();
  CHECK(program.release(handle));
  CHECK(!program.release(handle));
  CHECK(program.at(base + 4 * kGrain - 1) == memory && !program.find(handle));
  CHECK(program.unmap_all(*memory) == CUDA_SUCCESS);
  CHECK(free_memory() == before);
  program.unmapped(base, 4 * kGrain);
  CHECK(program.at(base) == nullptr && program.at(base + 3 * kGrain) == nullptr);
  CHECK(free_memory() == before + 4 * kGrain);
  CHECK(real::cuMemAddressFree(base, 4 * kGrain) == CUDA_SUCCESS);
}

void threads_allocate_and_free(CUcontext context) {
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    threads.emplace_back([=] {
      CHECK(real::cuCtxSetCurrent(context) == CUDA_SUCCESS);
      std::mt19937 random(seed);
      std::vector<CUdeviceptr> live;
      for (int step = 0; step < 400; ++step) {
        if (live.size() < 10) live.push_back(allocate(1 + random() % (random() % 8 ? 20000 : 4 << 20)));
        if (random() % 2 == 0) continue;
        std::swap(live[random() % live.size()], live.back());
        release(live.back());
        live.pop_back();
      }
      for (const CUdeviceptr address : live) release(address);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Handover::settle();
  CHECK(Handover::totals().count == 0);
}

void a_context_takes_its_memory_with_it() {
  allocate(700);
  allocate(5 << 20);
  g_captures = 1;
  release(allocate(6 << 20));
  g_captures = 0;
  const auto gone = contexts::forget_primary(0);
  CHECK(gone.has_value());
  Arena::get()->context_gone(*gone);
  Handover::settle();
  CHECK(Handover::totals().count == 0);
}

}  // namespace

std::uint32_t torpor::active_captures() { return g_captures; }
torpor::ContextWait::ContextWait() : allowed_(g_captures == 0) {}
torpor::ContextWait::~ContextWait() = default;
bool torpor::captures_unclear() { return g_captures != 0; }
std::shared_mutex& torpor::beginning_of_captures() {
  static std::shared_mutex door;
  return door;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  connect(arguments[1]);
  CUcontext context = nullptr;
  CHECK(real::cuInit(0) == CUDA_SUCCESS);
  CHECK(real::cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(real::cuCtxSetCurrent(context) == CUDA_SUCCESS);
  frees_during_a_capture_are_parked();
  a_free_that_did_not_wait_is_parked_also_when_the_capture_is_over();
  parked_memory_goes_at_the_freeze();
  blocks_go_and_come_back();
  a_mapping_comes_back_whole_though_parts_were_given_access();
  threads_allocate_and_free(context);
  a_context_takes_its_memory_with_it();
  return 0;
}
