#pragma once

#include <cstdint>

#include "lamina/cpu/thread_pool.h"

namespace lamina::cpu {

struct LinearPointers {
  const float* input = nullptr;   // [rows, in]
  const float* weight = nullptr;  // [out, in]
  const float* bias = nullptr;    // [out], or null
  float* output = nullptr;        // [rows, out]
  bool relu = false;              // y = max(y, 0) before it is stored; NaN stays NaN
};

/// output = input * weight' + bias. For few rows the weights stream from memory once, as fast as it goes; for many it
/// is a product by Eigen. Allocates nothing.
void linear(std::int64_t rows, std::int64_t in, std::int64_t out, const LinearPointers& pointers, ThreadPool& pool);

/// Whether so many rows are multiplied as dot products rather than by Eigen.
bool linear_uses_dot_products(std::int64_t rows);

}  // namespace lamina::cpu
