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

/// The sum of constant masks as one f32 tensor [M, heads, L, S], whose M images come again and again. Nothing if
/// `images` is no multiple of M, or the tensor would be large.
std::optional<Tensor> sum_of_masks(std::span<const ScoreMask> masks, std::int64_t images, std::int64_t heads);

}  // namespace lamina::detail
