// Reading the loader's cache, /etc/ld.so.cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torpor {

// Paths that the loader's cache holds for `name` on this architecture, best first; empty when there is no readable cache.
std::vector<std::string> cached_libraries(std::string_view name, const char* cache = "/etc/ld.so.cache");

}  // namespace torpor
