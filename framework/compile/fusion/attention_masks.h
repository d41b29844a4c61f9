#pragma once

#include <optional>
#include <span>

#include "lamina/tensor/tensor.h"

namespace lamina::detail {

/// A mask that is added to scores of the shape `scores`, to which it broadcasts. The last two dimensions of that are
/// rows and positions.
struct ScoreMask {
  Tensor values;
  Shape scores;
};

/// The sum of constant f32 masks as one tensor [M, heads, L, S], whose M images are repeated for further images. The
/// scores that the masks are for differ at most in the dimensions that count their matrices. Nothing if `images` is no
/// multiple of M, if there are no masks, or if the tensor would be large.
std::optional<Tensor> sum_of_masks(std::span<const ScoreMask> masks, std::int64_t images, std::int64_t heads);

}  // namespace lamina::detail
