#pragma once

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// Whether the operands are as a NormProblem wants them: floats, row-major, without gaps, in whole rows, scale and
/// shift for every channel.
inline bool is_normalisable(const NormProblem& problem, const Preparation& p) {
  const auto plain = [](const View& view) { return view.format.layout == Layout::nchw && is_float(view.format.dtype); };
  const auto fits = [&](const Tensor& tensor) {
    return !tensor.defined() || (tensor.numel() == problem.channels && tensor.dtype() == DType::f32);
  };
  if (p.inputs.size() != 1 || p.outputs.size() != 1 || !plain(p.input()) || !plain(p.output())) return false;
  if (problem.inner < 1 || problem.channels < 1 || !fits(problem.scale) || !fits(problem.shift)) return false;
  const std::int64_t count = p.input().shape.numel();
  return p.output().shape.numel() == count && (count == 0 || (problem.length > 0 && count % problem.length == 0));
}

}  // namespace lamina::detail
