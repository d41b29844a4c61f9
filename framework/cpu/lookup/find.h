#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/tensor/tensor.h"

/// What is found among elements, as lists i64 that begin with how many there are and end in zeros. None allocates.
namespace lamina::cpu {

/// The places of those that are true. found: [1 + elements of x, or more].
void find_true(const Tensor& x, Tensor& found);

/// NonMaxSuppression of boxes [B, N, 4] and scores [B, C, N], both f32, as ONNX has it; a score that is NaN is none.
/// settings, f64: the most of a class, the overlap, the least score. found, with
/// room for all: (image, class, box) of each. workspace: 16 bytes for each of N.
void suppress(const Tensor& boxes, const Tensor& scores, const Tensor& settings, bool centred, Tensor& found,
              std::byte* workspace);

}  // namespace lamina::cpu
