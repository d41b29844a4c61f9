#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/linear/dot.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

struct LinearPointers {
  const float* input = nullptr;    // [rows, in]
  const void* weight = nullptr;    // [out, in], of `weight_type`
  const float* bias = nullptr;     // [out], or null
  float* output = nullptr;         // [rows, out]
  bool relu = false;               // y = max(y, 0) before it is stored; NaN stays NaN
  DType weight_type = DType::f32;  // or bf16, f16
};

/// output = input * weight' + bias, in fp32 arithmetic. For few rows the weights stream from memory once, as fast as it
/// goes. Allocates nothing; `workspace` is 64-byte aligned and linear_workspace() bytes.
void linear(const LinearKernel& kernel, std::int64_t rows, std::int64_t in, std::int64_t out,
            const LinearPointers& pointers, ThreadPool& pool, float* workspace);
std::size_t linear_workspace(const LinearKernel& kernel, std::int64_t rows, std::int64_t in);

}  // namespace lamina::cpu
