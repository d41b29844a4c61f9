#include "lamina/compile/fusion/attention_masks.h"

#include <numeric>

namespace lamina::detail {
namespace {

/// The most elements of the sum, which a plan keeps: 64 MB.
constexpr std::int64_t max_elements = std::int64_t{1} << 24;

/// Extent of a mask at dimension `d` of the scores; 1 where the mask has fewer dimensions.
std::int64_t mask_extent(const ScoreMask& mask, std::size_t d) {
  const std::size_t rank = mask.values.shape().rank(), missing = mask.scores.rank() - rank;
  return d < missing ? 1 : mask.values.shape()[static_cast<int>(d - missing)];
}

/// After how many matrices of scores a mask begins again.
std::int64_t period_of(const ScoreMask& mask) {
  std::int64_t period = 1;
  bool begun = false;
  for (std::size_t d = 0; d + 2 < mask.scores.rank(); ++d) {
    begun |= mask_extent(mask, d) != 1;
    if (begun) period *= mask.scores[static_cast<int>(d)];
  }
  return period;
}

/// Where the matrix for the `matrix`-th of the scores begins.
std::int64_t begin_of(const ScoreMask& mask, std::int64_t matrix) {
  std::int64_t offset = 0, step = mask_extent(mask, mask.scores.rank() - 1) * mask_extent(mask, mask.scores.rank() - 2);
  for (std::size_t d = mask.scores.rank() - 2; d-- > 0;) {
    const std::int64_t all = mask.scores[static_cast<int>(d)], own = mask_extent(mask, d);
    offset += matrix % all % own * step;
    matrix /= all;
    step *= own;
  }
  return offset;
}

}  // namespace

std::optional<Tensor> sum_of_masks(std::span<const ScoreMask> masks, std::int64_t images, std::int64_t heads) {
  if (images < 1 || heads < 1) return std::nullopt;
  std::int64_t period = heads;
  for (const ScoreMask& mask : masks) {
    const std::int64_t own = period_of(mask);
    if (own < 1 || own > max_elements || period > max_elements) return std::nullopt;
    period = std::lcm(period, own);
  }
  const std::int64_t rows = masks[0].scores[-2], positions = masks[0].scores[-1];
  if (rows < 1 || positions < 1 || rows > max_elements || positions > max_elements || images % (period / heads) != 0 ||
      period > max_elements / rows / positions) {
    return std::nullopt;
  }
  Tensor sum = Tensor::zeros({period / heads, heads, rows, positions}, DType::f32);
  for (const ScoreMask& mask : masks) {
    const std::size_t rank = mask.scores.rank();
    const std::int64_t width = mask_extent(mask, rank - 1), height = mask_extent(mask, rank - 2);
    const float* const from = mask.values.values<float>().data();
    float* to = sum.values<float>().data();
    for (std::int64_t matrix = 0; matrix < period; ++matrix) {
      const float* const begin = from + begin_of(mask, matrix);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < positions; ++i) *to++ += begin[row % height * width + i % width];
      }
    }
  }
  return sum;
}

}  // namespace lamina::detail
