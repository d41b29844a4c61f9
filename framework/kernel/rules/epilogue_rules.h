#pragma once

#include <algorithm>
#include <cstddef>

#include "lamina/kernel/preparation.h"

namespace lamina::detail {

/// Whether what an epilogue adds, inputs `first` and up, lies in memory as the output does.
inline bool operands_fit(const Preparation& p, std::ptrdiff_t first = 1) {
  const auto like_output = [&](const View& view) {
    const View& output = p.output();
    return view.shape == output.shape && view.format == output.format && view.channels == output.channels;
  };
  return std::all_of(p.inputs.begin() + first, p.inputs.end(), like_output);
}

}  // namespace lamina::detail
