#pragma once

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::detail {

/// Whether the operands are as a NormProblem wants them: floats or codes, row-major, without gaps, in whole rows, scale
/// and shift for every channel. What is added lies as the result does.
inline bool is_normalisable(const NormProblem& problem, const Preparation& p) {
  const auto plain = [](const View& view) {
    return view.format.layout == Layout::nchw && (is_float(view.format.dtype) || is_code(view));
  };
  const auto fits = [&](const Tensor& tensor) {
    return !tensor.defined() || (tensor.numel() == problem.channels && tensor.dtype() == DType::f32);
  };
  if (p.inputs.empty() || p.outputs.size() != 1 || !plain(p.input()) || !plain(p.output())) return false;
  if (!operands_fit(p) || !problem.epilogue.is_residual()) return false;
  if (problem.inner < 1 || problem.channels < 1 || !fits(problem.scale) || !fits(problem.shift)) return false;
  const std::int64_t count = p.input().shape.numel();
  return p.output().shape.numel() == count && (count == 0 || (problem.length > 0 && count % problem.length == 0));
}

/// Whether a row is a group of the channels of an image [N, C, H, W], scale and shift are of those, and what is added
/// lies as the result does: then the images may be stored channels last.
inline bool is_of_groups(const NormProblem& problem, const Preparation& p) {
  const Shape& image = p.input().shape;
  if (image.rank() != 4 || image != p.output().shape || image.numel() == 0) return false;
  if (p.output().format.layout != Layout::nhwc || !operands_fit(p) || !problem.epilogue.is_residual()) return false;
  const std::int64_t pixels = image[2] * image[3], channels = problem.length / pixels;
  const bool by_channel = problem.inner == pixels && problem.channels == image[1];
  return problem.length % pixels == 0 && channels > 0 && image[1] % channels == 0 &&
         (by_channel || (!problem.scale.defined() && !problem.shift.defined()));
}

}  // namespace lamina::detail
