#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "cpu/amx_model.h"

namespace lamina::test {

/// Every engine of this machine, and the model of the one that it may not have.
inline std::vector<cpu::bf16::Engine> all_bf16_engines() {
  std::vector<cpu::bf16::Engine> result = {amx_models().front()};
  const auto here = cpu::bf16::engines(DType::bf16);
  result.insert(result.end(), here.begin(), here.end());
  return result;
}

/// An engine as part of a test's name.
inline std::string title(const cpu::bf16::Engine& engine) {
  std::string result = std::string(engine.what) + "_" + name(engine.set);
  std::ranges::replace_if(
      result, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return result;
}

}  // namespace lamina::test
