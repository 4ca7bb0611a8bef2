#include <cstring>

#include "exec/code.h"
#include "exec/launch.h"
#include "exec/warp.h"

namespace sim::exec {

// The constants of one function, the first one last.
struct Image::Lanes {
  Bytes bytes;
  size_t size = 0;
};

Image::Image(std::shared_ptr<const ptx::Program> program, std::vector<uint64_t> addresses)
    : program_(std::move(program)), addresses_(std::move(addresses)) {
  for (const auto& function : program_->functions) {
    Lanes lanes;
    lanes.size = function->constants.size() * kConstantBytes;
    lanes.bytes = zeroed(lanes.size);
    std::byte* end = lanes.bytes.get() + lanes.size;
    for (size_t i = 0; i < function->constants.size(); ++i) {
      const Constant& constant = function->constants[i];
      uint64_t value = constant.bits;
      if (constant.kind == Constant::Kind::variable) value += addresses_[constant.index];
      if (constant.kind == Constant::Kind::function)
        value += reinterpret_cast<uint64_t>(program_->functions[constant.index].get());
      std::byte* place = end - (i + 1) * kConstantBytes;
      const unsigned size = constant.wide ? 8 : 4;
      for (unsigned lane = 0; lane < kLanes; ++lane) std::memcpy(place + lane * size, &value, size);
    }
    constants_.push_back(std::move(lanes));
  }
}

Image::~Image() = default;

const std::byte* Image::constants(size_t function) const {
  return constants_[function].bytes.get() + constants_[function].size;
}

}  // namespace sim::exec
