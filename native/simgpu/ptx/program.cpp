// From the text to a program that can run.
#include "ptx/program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <unordered_set>

#include "exec/builder.h"
#include "exec/launch.h"
#include "exec/lanes.h"
#include "ptx/source.h"

namespace sim::ptx {
namespace {

constexpr unsigned kNewestVersion = 93;  // of the language: 9.3

uint64_t aligned(uint64_t value, uint64_t to) { return (value + to - 1) & ~(to - 1); }

// The value of an initialiser's element, in the form of its type.
uint64_t element_bits(const Operand& value, Type type) {
  if (value.kind == Operand::Kind::single && type == Type::f64)
    return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(value.value))});
  if (value.kind == Operand::Kind::real && bytes_of(type) == 4)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value.value)));
  return value.value;
}

Variable place_variable(const Declaration& from, const exec::Names& names) {
  Variable result;
  result.name = from.name;
  result.space = from.space == Declaration::Space::constant ? Space::constant : Space::global;
  result.size = std::max<uint64_t>(from.bytes(), 1);
  result.align = from.align;
  result.managed = from.managed;
  result.external = from.external;
  result.visible = from.visible;
  const unsigned bytes = bytes_of(from.type);
  if (bytes == 0 || bytes > 8) {
    if (from.initial.empty() && bytes) return result;
    throw Rejected{from.line, "a variable of this type"};
  }
  result.initial.resize(from.initial.size() * bytes);
  for (size_t i = 0; i < from.initial.size(); ++i) {
    const Operand& value = from.initial[i];
    uint64_t bits = 0;
    if (value.kind == Operand::Kind::name) {
      const auto variable = names.variables.find(value.name);
      const auto function = names.functions.find(value.name);
      const bool is_function = variable == names.variables.end();
      if ((is_function && function == names.functions.end()) || bytes != 8)
        throw Rejected{from.line, std::string("unknown name '").append(value.name).append("' in an initialiser")};
      result.references.push_back({static_cast<uint32_t>(i * bytes), bytes, is_function,
                                   is_function ? function->second : variable->second, static_cast<int64_t>(value.value)});
    } else {
      bits = element_bits(value, from.type);
    }
    std::memcpy(result.initial.data() + i * bytes, &bits, bytes);
  }
  return result;
}

void place_shared(const Source& source, exec::Names& names) {
  const auto take = [&](const Declaration& one) {
    const uint64_t place = aligned(names.shared_bytes, one.align);
    if (one.bytes() > (1u << 24) || place + one.bytes() > (1u << 24)) throw Rejected{one.line, "too much shared memory"};
    names.shared_bytes = static_cast<uint32_t>(place + one.bytes());
    return static_cast<uint32_t>(place);
  };
  for (const Declaration& one : source.variables) {
    if (one.space != Declaration::Space::shared) continue;
    const bool dynamic = one.elements == 0 || one.external;
    names.shared[one.name] = {dynamic, dynamic ? 0 : take(one)};
  }
  for (const FunctionSource& function : source.functions)
    for (const Declaration& one : function.declarations)
      if (!function.entry && one.space == Declaration::Space::shared) names.inner_shared[&one] = take(one);
}

// The stack of a thread: the function's frame and the deepest chain of calls below it. Recursion ends the count.
uint64_t stack_of(const Program& program, uint32_t index, std::vector<uint64_t>& known, std::vector<bool>& busy, unsigned depth) {
  if (busy[index] || depth > 500) return 0;
  if (known[index]) return known[index];
  busy[index] = true;
  uint64_t deepest = 0;
  for (const exec::CallSite& site : program.functions[index]->calls)
    if (!site.indirect) deepest = std::max(deepest, stack_of(program, site.function, known, busy, depth + 1));
  busy[index] = false;
  return known[index] = aligned(program.functions[index]->frame_bytes, 16) + deepest;
}

uint32_t product(const std::array<uint32_t, 3>& size) {
  const uint64_t all = uint64_t{size[0]} * size[1];
  if (all > 1u << 20 || all * size[2] > 1u << 20) return 1u << 20;
  return static_cast<uint32_t>(all * size[2]);
}

Kernel describe(const FunctionSource& source, const exec::Function& code, uint32_t shared_bytes) {
  Kernel kernel;
  kernel.name = source.name;
  uint64_t offset = 0;
  for (const Declaration& one : source.parameters) {
    offset = aligned(offset, one.align);
    kernel.parameters.push_back({std::string(one.name), static_cast<uint32_t>(offset), static_cast<uint32_t>(one.bytes()), one.align});
    offset += one.bytes();
  }
  kernel.parameter_bytes = static_cast<uint32_t>(offset);
  kernel.shared_bytes = static_cast<uint32_t>(aligned(shared_bytes, 16));
  kernel.registers = std::clamp<uint32_t>(code.register_bytes / (exec::kLanes * 4), 16, 255);
  kernel.required_block = source.required;
  kernel.required_cluster = source.cluster;
  kernel.max_threads = source.required[0] ? product(source.required) : source.maximum[0] ? product(source.maximum) : 0;
  kernel.code = &code;
  return kernel;
}

std::shared_ptr<Program> translate(const Source& source) {
  auto program = std::make_shared<Program>();
  program->version = source.version;
  program->target = source.target;
  program->target_specific = source.target_specific;
  if (source.version > kNewestVersion)
    throw Rejected{1, "PTX version " + std::to_string(source.version / 10) + "." + std::to_string(source.version % 10) + " is too new", true};

  exec::Names names;
  names.source = &source;
  std::vector<const Declaration*> variables;
  for (const Declaration& one : source.variables) {
    if (one.space == Declaration::Space::shared) continue;
    if (names.variables.contains(one.name)) {
      const Declaration*& before = variables[names.variables[one.name]];
      if (!before->external && !one.external) throw Rejected{one.line, std::string("two variables '").append(one.name).append("'")};
      if (before->external) before = &one;
      continue;
    }
    names.variables[one.name] = static_cast<uint32_t>(variables.size());
    variables.push_back(&one);
  }
  std::vector<const FunctionSource*> functions;  // the definition where there is one
  for (const FunctionSource& one : source.functions) {
    const auto [found, is_new] = names.functions.emplace(one.name, static_cast<uint32_t>(functions.size()));
    if (is_new) {
      functions.push_back(&one);
      continue;
    }
    const FunctionSource*& before = functions[found->second];
    if (before->defined && one.defined) throw Rejected{one.line, std::string("two functions '").append(one.name).append("'")};
    if (one.defined) before = &one;
  }
  place_shared(source, names);
  for (const Declaration* one : variables) program->variables.push_back(place_variable(*one, names));

  for (const FunctionSource* one : functions) {
    auto code = std::make_unique<exec::Function>();
    code->name = one->name;
    code->index = static_cast<uint32_t>(program->functions.size());
    code->entry = one->entry;
    code->defined = one->defined;
    exec::Builder builder(names, *one, *code);
    if (one->defined) {
      builder.translate();
    } else {
      builder.declare_only();
      if (one->name == "vprintf") code->builtin = exec::Builtin::vprintf;
      if (one->name == "__assertfail") code->builtin = exec::Builtin::assertfail;
    }
    if (one->entry && one->defined) program->kernels.push_back(describe(*one, *code, builder.shared_bytes()));
    program->functions.push_back(std::move(code));
  }
  std::vector<uint64_t> known(functions.size());
  std::vector<bool> busy(functions.size());
  for (Kernel& kernel : program->kernels)
    kernel.local_bytes = static_cast<uint32_t>(std::min<uint64_t>(stack_of(*program, kernel.code->index, known, busy, 0), 1u << 23));
  return program;
}

}  // namespace

Program::Program() = default;
Program::~Program() = default;

std::string Problem::message() const { return "ptx, line " + std::to_string(line) + "; error: " + text; }

const Kernel* Program::kernel(std::string_view name) const {
  for (const Kernel& one : kernels)
    if (one.name == name) return &one;
  return nullptr;
}

std::vector<std::byte> Program::contents(size_t variable, std::span<const uint64_t> addresses) const {
  const Variable& one = variables[variable];
  std::vector<std::byte> bytes(one.size);
  std::copy(one.initial.begin(), one.initial.end(), bytes.begin());
  for (const Reference& reference : one.references) {
    const uint64_t target = reference.function ? reinterpret_cast<uint64_t>(functions[reference.index].get())
                                               : addresses[reference.index];
    const uint64_t value = target + static_cast<uint64_t>(reference.addend);
    std::memcpy(bytes.data() + reference.offset, &value, reference.bytes);
  }
  return bytes;
}

std::shared_ptr<const Program> parse(std::string_view text, Problem& problem) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  try {
    const Source source = read(text);
    return translate(source);
  } catch (const Rejected& rejected) {
    problem.kind = rejected.version ? Problem::Kind::unsupported_version : Problem::Kind::invalid;
    problem.line = rejected.line;
    problem.text = rejected.text;
    return nullptr;
  }
}

}  // namespace sim::ptx
