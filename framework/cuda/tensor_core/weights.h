#pragma once

#include <cstdint>
#include <optional>

#include "lamina/cuda/tensor_core/operand_rows.h"

/// Powers of two that bring weights into the reach of split and scaled operands: host logic, without a CUDA call.
namespace lamina::cuda {

/// The power of two, 2^shift, that brings a filter's weights between 2^-100 and 2^100, and what the epilogue of fp32
/// must know of it. There, neither a low word (2^-12 of its weight) nor a high word divided by 2^13 is subnormal.
/// Ordinary filters have shift 0; far too small ones, which training with weight decay leaves behind, are scaled up.
/// The scale is NaN if they span more than that.
FilterRange find_range(const float* weight, std::int64_t size, int& shift);

/// The power of two that brings a filter's largest weight into [2^14, 2^15), 0 for one of zeros. Nothing if that leaves
/// some weight too small for f16 to keep 11 bits of it, if one is not finite, or if all are so large or small that sums
/// in their units might overflow or underflow where others would not.
std::optional<int> shift_of_scaled(const float* weight, std::int64_t count);

}  // namespace lamina::cuda
