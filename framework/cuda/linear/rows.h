#pragma once

#include <cstdint>

#include "lamina/cuda/finish.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Fully connected layers by plain multiply-adds; the caller has made the device current.
namespace lamina::cuda {

/// Rows that one pass over the weights serves.
inline constexpr int linear_rows_at_once = 8;

/// Outputs that a block of linear_few_rows owns: a block for each where they are few, or multiprocessors would have too
/// little on its way.
constexpr int linear_block_outputs(std::int64_t rows, int out) {
  if (rows == 1) return out < 2048 ? 1 : 4;
  return rows == 2 ? 2 : 4;
}

/// Terms of a sum up to which linear_few_rows keeps its chains of additions short.
inline constexpr int linear_max_terms = 1 << 18;

struct LinearArguments {
  const void* input = nullptr;    // [rows, in] of `storage`
  const void* weight = nullptr;   // [out, in] of `storage`, or
  bool packed = false;            // as pack_linear lays them out: one row only, of whole packs of 16 bytes; or
  const float* scales = nullptr;  // [out]: then as pack_scaled_linear does, and input is f32
  const float* bias = nullptr;    // [out], or null
  void* output = nullptr;         // [rows, out] of `output_type`
  DType storage = DType::f32;
  DType output_type = DType::f32;
  std::int64_t rows = 0;  // at most linear_rows_at_once
  int in = 0;
  int out = 0;
  Finish finish;  // a short one; of linear_epilogue a clamp
};

/// Streams the weights once.
void linear_few_rows(const LinearArguments& arguments, Stream stream);

/// output = output + bias, clamped; any number of rows.
void linear_epilogue(const LinearArguments& arguments, Stream stream);

/// What every kernel for linear layers takes: rows of the precision's storage type, results of it or f32.
inline bool linear_formats_fit(const Preparation& p) {
  const DType storage = storage_type(p.precision);
  const Format output = p.output().format;
  return p.input().format == Format{storage} && (output == Format{storage} || output == Format{});
}

}  // namespace lamina::cuda
