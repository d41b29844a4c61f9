#pragma once

#include <algorithm>

#include "lamina/kernel/preparation.h"

namespace lamina::detail {

/// Whether what an epilogue adds, inputs 1 and up, lies in memory as the output does.
inline bool operands_fit(const Preparation& p) {
  const auto like_output = [&](const View& view) {
    const View& output = p.output();
    return view.shape == output.shape && view.format == output.format && view.channels == output.channels;
  };
  return std::all_of(p.inputs.begin() + 1, p.inputs.end(), like_output);
}

}  // namespace lamina::detail
