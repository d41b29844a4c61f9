#pragma once

#include <cstdint>

#include "lamina/kernel/rules/lookup_extents.h"

/// The rows of attention: heads that share keys are rows of one matrix, of each pair of image and group.
namespace lamina::cuda {

struct AttentionRows {
  std::int64_t image, group;
  std::int64_t heads, count;  // of the pair, and how many rows they have
  std::int64_t mask_image;    // the image's own among those of the mask
  const detail::AttentionExtents& e;

  __device__ AttentionRows(const detail::AttentionExtents& extents, std::int64_t pair)
      : image(pair / extents.groups),
        group(pair % extents.groups),
        heads(extents.heads / extents.groups),
        count(heads * extents.length),
        mask_image(image % extents.mask_images),
        e(extents) {}

  /// The positions [0, this) that a row sees; 0 for a row that does not exist.
  __device__ std::int64_t seen(std::int64_t row) const {
    if (row >= count) return 0;
    if (!e.causal || e.past >= e.positions) return e.positions;
    const std::int64_t end = row % e.length + 1 + e.past;
    return end < 0 ? 0 : end < e.positions ? end : e.positions;
  }
  /// The least and the most that rows [first, first + some) see, of those that exist.
  struct Range {
    std::int64_t least, most;
  };
  __device__ Range range(std::int64_t first, std::int64_t some) const {
    if (first >= count) return {e.positions, 0};
    if (!e.causal || e.past >= e.positions) return {e.positions, e.positions};
    const std::int64_t from = first % e.length, last = min(first + some, count) - 1 - first + from;
    const std::int64_t head = first - from;  // positions repeat with the next head
    return last < e.length ? Range{seen(first), seen(head + last)} : Range{seen(0), seen(e.length - 1)};
  }

  /// Where a row of queries or of the output begins.
  __device__ std::int64_t at(const detail::RowStrides& strides, std::int64_t row) const {
    const std::int64_t head = heads == 1 ? 0 : row / e.length;
    return image * strides.image + (group * heads + head) * strides.head + (row - head * e.length) * strides.row;
  }
  /// Where the keys or values of a position begin.
  __device__ std::int64_t at_position(const detail::RowStrides& strides, std::int64_t position) const {
    return image * strides.image + group * strides.head + position * strides.row;
  }
  /// Where the mask of a row begins.
  __device__ std::int64_t mask(std::int64_t row) const {
    return at({0, e.mask[1], e.mask[2]}, row) + mask_image * e.mask[0];
  }
};

}  // namespace lamina::cuda
