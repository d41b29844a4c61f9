#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Fully connected layers of a few rows by plain multiply-adds.
namespace lamina::cuda {

/// Rows that one pass over the weights serves.
inline constexpr int linear_rows_at_once = 8;

/// Terms of a sum up to which chains of additions are short.
inline constexpr int linear_max_terms = 1 << 18;

Prepare<LinearProblem> prepare_linear_rows;

/// What every kernel for linear layers takes: rows of the precision's storage type, results of it or f32.
inline bool linear_formats_fit(const Preparation& p) {
  const DType storage = storage_type(p.precision);
  const Format output = p.output().format;
  return p.input().format == Format{storage} && (output == Format{storage} || output == Format{});
}

}  // namespace lamina::cuda
