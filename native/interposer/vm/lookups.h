// cuGetProcAddress as a question (answers.h): what it is asked with is a name, which stands for its number in our data.
#pragma once

#include "../prim/names.h"
#include "answers.h"

namespace torpor::vm {

// `status` is there for the second version only, and may be null: then what was not found is an error.
template <Symbol kSymbol, Group... kOf, typename Real, typename... Status>
CUresult answer_look_up(const char* name, int version, cuuint64_t flags, Real real, void** address, Status*... status) {
  if (!answering() || name == nullptr) [[likely]] return real();
  const std::uint64_t number = number_of(answers_for(name));
  if (number == 0) return real();
  const bool with_status = (sizeof...(Status) != 0) && ((status != nullptr) && ...);
  const auto asked = asked_with(number, static_cast<std::uint64_t>(version), flags, std::uint64_t{with_status});
  if (with_status) return answer<kSymbol, kOf...>(asked, real, address, status...);
  return answer<kSymbol, kOf...>(asked, real, address);
}

}  // namespace torpor::vm
