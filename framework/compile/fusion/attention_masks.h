#pragma once

#include <optional>
#include <span>

#include "lamina/tensor/tensor.h"

namespace lamina::detail {

/// What is added to scores of the shape `scores`, whose last two dimensions are rows and positions, and broadcasts to
/// it.
struct ScoreMask {
  Tensor values;
  Shape scores;
};

/// The sum of constant f32 masks, of scores of one shape but for how their matrices are counted, as one tensor
/// [M, heads, L, S], whose M images come again and again. Nothing if `images` is no multiple of M, if there are none,
/// or if the tensor would be large.
std::optional<Tensor> sum_of_masks(std::span<const ScoreMask> masks, std::int64_t images, std::int64_t heads);

}  // namespace lamina::detail
