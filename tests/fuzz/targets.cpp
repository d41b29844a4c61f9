#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

namespace lamina::fuzz {

const Target* find_target(std::string_view name) {
  for (const Target& target : targets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

void broken(std::string_view what) {
  std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace lamina::fuzz
