#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/tensor/tensor.h"

/// What is found among elements, as lists i64 that begin with how many there are, of which they hold what they have
/// room for, and end in zeros; and what is done with it. None allocates.
namespace lamina::cpu {

/// The places of those that are true. found: [1 + elements of x, or more].
void find_true(const Tensor& x, Tensor& found);

/// NonMaxSuppression of boxes [B, N, 4] and scores [B, C, N], both f32, as ONNX has it; a score that is NaN is none.
/// settings, f64: the most of a class, the overlap, the least score. found, with
/// room for all: (image, class, box) of each. workspace: 16 bytes for each of N.
void suppress(const Tensor& boxes, const Tensor& scores, const Tensor& settings, bool centred, Tensor& found,
              std::byte* workspace);

/// Which of rows [N, W] of i64 or f64, the first count[0] of them, are there once or more: their number, then, each
/// with room for two rows at least and for N, the place of each, which of these each row is, and how often each is
/// there. In the order of their values, where NaN is the largest, or of their places. workspace: N numbers.
void find_unique(const Tensor& rows, const Tensor& count, bool sorted, Tensor& found, std::int64_t* workspace);

}  // namespace lamina::cpu
