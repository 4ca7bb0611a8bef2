#include "managed_names.h"

#include <elf.h>

#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace torpor {
namespace {

constexpr std::uint32_t kFatBinary = 0xBA55ED50;
constexpr std::uint32_t kFatBinaryWrapper = 0x466243B1;
// Of a cubin's symbols: what ptxas writes into st_other for a managed variable.
constexpr unsigned char kManaged = 4;
constexpr std::string_view kAttribute = ".managed";

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%'; }

// The name in a declaration, given what follows its attribute: `) .align 4 .u32 name[8];`.
std::string name_after(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && text[at] != ';' && text[at] != '{') {
    if (!in_name(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && in_name(text[at])) ++at;
    const bool word_of_ptx = begin > 0 && text[begin - 1] == '.';
    if (!word_of_ptx && std::isdigit(static_cast<unsigned char>(text[begin])) == 0) {
      return std::string(text.substr(begin, at - begin));
    }
  }
  return {};
}

std::vector<std::string> in_text(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = text.find(kAttribute); at != std::string_view::npos; at = text.find(kAttribute, at)) {
    at += kAttribute.size();
    if (std::string name = name_after(text.substr(at)); !name.empty()) names.push_back(std::move(name));
  }
  return names;
}

template <typename T>
T read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::vector<std::string> in_cubin(const char* image) {
  std::vector<std::string> names;
  const auto header = read<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return names;
  const char* const sections = image + header.e_shoff;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(sections + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= header.e_shnum) continue;
    const auto strings = read<Elf64_Shdr>(sections + section.sh_link * sizeof(Elf64_Shdr));
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(image + section.sh_offset + at);
      const bool variable = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_name < strings.sh_size;
      if (variable && (symbol.st_other & kManaged) != 0) names.emplace_back(image + strings.sh_offset + symbol.st_name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> managed_names(const void* image) {
  if (image == nullptr) return {};
  const auto* const bytes = static_cast<const char*>(image);
  if (std::strncmp(bytes, ELFMAG, SELFMAG) == 0) return in_cubin(bytes);
  // Text has four characters at least; a shorter one is read no further than its end.
  if (std::strlen(bytes) < sizeof(std::uint32_t)) return {};
  const auto magic = read<std::uint32_t>(bytes);
  if (magic == kFatBinary || magic == kFatBinaryWrapper) return {};
  return in_text(bytes);
}

std::vector<std::string> managed_names_in_file(const char* path) {
  if (path == nullptr) return {};
  std::ifstream file(path, std::ios::binary);
  std::string contents{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // Behind its end there is a zero, as behind PTX text; a cubin that ends too early was refused by the driver.
  return managed_names(contents.c_str());
}

}  // namespace torpor
