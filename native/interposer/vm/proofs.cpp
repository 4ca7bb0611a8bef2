#include "proofs.h"

#include <algorithm>
#include <atomic>

#include "../generated/real.h"
#include "queue.h"

namespace torpor::vm {

namespace {

// Whether a grid that was not seen before may be refused. So it may where the driver cannot tell.
bool has_clusters(CUfunction function) {
  constexpr auto kWidth = CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
  int width = 0;
  CUresult result = real::cuFuncGetAttribute(&width, kWidth, function);
  CUdevice device = 0;
  if (result == CUDA_ERROR_INVALID_HANDLE && real::cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    result = real::cuKernelGetAttribute(&width, kWidth, reinterpret_cast<CUkernel>(function), device);
  }
  return result != CUDA_SUCCESS || width != 0;
}

}  // namespace

bool layout_of(CUfunction function, Layout& out) {
  out.grid_counts = has_clusters(function);
  constexpr std::size_t kMost = 1024;
  for (std::size_t index = 0; index < kMost; ++index) {
    Layout::Parameter parameter{};
    CUresult result = real::cuFuncGetParamInfo(function, index, &parameter.offset, &parameter.size);
    if (result == CUDA_ERROR_INVALID_HANDLE) {  // a kernel of a library, which a launch takes as well
      const auto kernel = reinterpret_cast<CUkernel>(function);
      result = real::cuKernelGetParamInfo(kernel, index, &parameter.offset, &parameter.size);
    }
    if (result == CUDA_ERROR_INVALID_VALUE) return true;  // there are no more
    if (result != CUDA_SUCCESS) return false;
    if (parameter.offset > Item::kParameters || parameter.size > Item::kParameters - parameter.offset) return false;
    out.parameters.push_back(parameter);
    out.bytes = std::max(out.bytes, parameter.offset + parameter.size);
  }
  return false;
}

namespace proofs {
namespace {

struct Proof {
  Key key;
  Layout layout;
};

// By object, so that what is known of one is forgotten in one place.
struct Bucket {
  std::vector<Proof> proofs;
  std::size_t oldest = 0;
};
constexpr std::size_t kBuckets = 1024, kPerBucket = 64;

// Never destroyed: other threads may look while the process exits.
std::vector<Bucket>& buckets() {
  static auto* const instance = new std::vector<Bucket>(kBuckets);
  return *instance;
}

Bucket& bucket_of(std::uint64_t object) { return buckets()[(object * 0x9e3779b97f4a7c15U) >> 54]; }
static_assert(kBuckets == std::size_t{1} << (64 - 54));

constinit std::atomic<std::uint64_t> times_forgotten{0};

void note_forgetting() { times_forgotten.fetch_add(1, std::memory_order_release); }

template <typename Gone>
void forget(Bucket& bucket, Gone gone) {
  std::erase_if(bucket.proofs, gone);
  bucket.oldest = 0;
}

}  // namespace

std::uint64_t generation() { return times_forgotten.load(std::memory_order_acquire); }

const Layout* find(const Key& key) {
  for (const Proof& proof : bucket_of(key.object).proofs) {
    if (proof.key == key) return &proof.layout;
  }
  return nullptr;
}

void add(const Key& key, Layout&& layout) {
  Bucket& bucket = bucket_of(key.object);
  if (find(key) != nullptr) return;
  if (bucket.proofs.size() < kPerBucket) {
    bucket.proofs.push_back({key, std::move(layout)});
  } else {
    bucket.proofs[bucket.oldest++ % kPerBucket] = {key, std::move(layout)};
  }
}

void forget_object(std::uint64_t object) {
  note_forgetting();
  forget(bucket_of(object), [&](const Proof& proof) { return proof.key.object == object; });
}

void forget_stream(CUstream stream) {
  note_forgetting();
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  for (Bucket& bucket : buckets()) forget(bucket, [&](const Proof& proof) { return proof.key.stream == handle; });
}

void forget_waits() {
  note_forgetting();
  for (Bucket& bucket : buckets()) {
    forget(bucket, [](const Proof& proof) { return proof.key.call == Call::event_wait; });
  }
}

void forget_all() {
  note_forgetting();
  for (Bucket& bucket : buckets()) forget(bucket, [](const Proof&) { return true; });
}

}  // namespace proofs
}  // namespace torpor::vm
