#pragma once

#include <utility>

#include "lamina/kernel/conv_pair.h"

/// An image one pixel wide, under filters one pixel wide, lies in memory like an image one pixel high. Turned into
/// that, it has one long row, and kernels divide work and vectorise along rows. Exporters write networks over one
/// dimension either way.
namespace lamina::detail {

/// Whether a convolution's image is a column before and after it, so that it may be turned into a row.
inline bool is_column(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const auto& pool = problem.epilogue.pool;
  return g.in_width == 1 && g.out_width == 1 && g.kernel_width == 1 && (!pool || pool->out_width == 1);
}

inline void turn(ConvProblem& problem) {
  const auto swap = [](auto& of) {
    std::swap(of.in_height, of.in_width);
    std::swap(of.out_height, of.out_width);
    std::swap(of.kernel_height, of.kernel_width);
    std::swap(of.stride_height, of.stride_width);
    std::swap(of.padding_height, of.padding_width);
    std::swap(of.dilation_height, of.dilation_width);
  };
  const ConvGeometry& g = problem.geometry;
  swap(problem.geometry);
  if (problem.epilogue.pool) swap(*problem.epilogue.pool);
  if (!problem.weight.defined()) return;
  problem.weight = problem.weight.view({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width});
}

/// The problem as kernels see it: with columns turned into rows.
template <class Problem>
Problem turned(Problem problem) {
  return problem;
}
inline ConvProblem turned(ConvProblem problem) {
  if (is_column(problem)) turn(problem);
  return problem;
}
inline ConvPairProblem turned(ConvPairProblem problem) {
  if (is_column(problem.first) && is_column(problem.second)) turn(problem.first), turn(problem.second);
  return problem;
}

}  // namespace lamina::detail
