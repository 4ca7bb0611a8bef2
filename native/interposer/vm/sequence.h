// Finds sequences of calls that repeat. The submitter's alone; knows nothing of the driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../abi/cuda_driver.h"

namespace torpor::vm {

enum class Work : std::uint32_t { launch, fill, copy_within, copy_in, copy_out };
inline constexpr std::size_t kWorks = 5;

// A launch without the values of its parameters; a fill without its address and value, a copy without its addresses and
// size: a node of a graph may be given other ones.
struct Step {
  Work work = Work::launch;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction function = nullptr;
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t shared_bytes = 0;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t element = 0;  // bytes of what a fill repeats
  std::uint64_t bytes = 0;    // that are filled

  bool operator==(const Step&) const = default;
};

class Recogniser {
 public:
  static constexpr std::size_t kMostSteps = 64;  // of a period, and of a sequence

  // `least` and `good`: how many steps a sequence has at least, and how many one has that repeats fewer over and over.
  Recogniser(std::size_t least, std::size_t good) : least_(least), good_(good) {}

  // The program went on with a step, or with something else. Returns a sequence of steps on one stream, next to each other,
  // when it has been seen three times in a row; else nothing.
  std::vector<Step> note(const Step& step) { return note({step, true}); }
  std::vector<Step> note_other();

  void forget();

 private:
  struct Token {
    Step step;
    bool is_step = false;
  };
  std::vector<Step> note(const Token& token);
  const Token& back(std::size_t by) const { return tokens_[(count_ - 1 - by) % tokens_.size()]; }
  std::vector<Step> longest(std::size_t period) const;

  std::size_t least_, good_;
  std::array<Token, 2 * kMostSteps> tokens_{};
  // Of the last tokens, newest first; only a hint, since a sequence is compared step by step wherever it is used.
  std::array<std::uint64_t, kMostSteps + 1> hashes_{};
  std::array<std::uint32_t, kMostSteps + 1> streaks_{};  // for how many tokens each has been the one so many before
  std::size_t count_ = 0;
};

}  // namespace torpor::vm
