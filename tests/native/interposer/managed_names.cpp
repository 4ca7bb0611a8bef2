// Prints the managed variables of the module in a file, as the interposer finds them in memory and in the file.
#include "../../../native/interposer/hooks/managed_names.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto names = torpor::managed_names(image.c_str());
  for (const std::string& name : names) std::puts(name.c_str());
  const bool none = torpor::managed_names(nullptr).empty() && torpor::managed_names_in_file(nullptr).empty() &&
                    torpor::managed_names_in_file("/nowhere").empty();
  return none && torpor::managed_names_in_file(arguments[1]) == names ? 0 : 1;
}
