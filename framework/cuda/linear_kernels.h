#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d.h"

/// The kernels behind linear.h; the caller has made the device current.
namespace lamina::cuda {

/// Rows that one pass over the weights serves.
inline constexpr int linear_rows_at_once = 8;

struct LinearArguments {
  const float* input = nullptr;   // [rows, in]
  const float* weight = nullptr;  // [out, in]
  const float* bias = nullptr;    // [out], or null
  float* output = nullptr;        // [rows, out]
  std::int64_t rows = 0;          // at most linear_rows_at_once
  int in = 0;
  int out = 0;
  bool relu = false;
};

/// Streams the weights once, a warp for each output.
void linear_few_rows(const LinearArguments& arguments, Stream stream);

/// output = output + bias, then the ReLU if asked for.
void linear_epilogue(const LinearArguments& arguments, Stream stream);

}  // namespace lamina::cuda
