#pragma once

#include <cstdint>

#include "lamina/kernel/rules/lookup_extents.h"

/// The rows of attention: heads that share keys are rows of one matrix, of each pair of image and group.
namespace lamina::cuda {

struct AttentionRows {
  std::int64_t pair, count;  // which pair, and how many rows it has
  const detail::AttentionExtents& e;

  __device__ AttentionRows(const detail::AttentionExtents& extents, std::int64_t which)
      : pair(which), count(extents.heads / extents.groups * extents.length), e(extents) {}

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
    const std::int64_t from = first % e.length, last = min(first + some, count) - 1 - first + from;
    const std::int64_t head = first - from;  // positions repeat with the next head
    return last < e.length ? Range{seen(first), seen(head + last)} : Range{seen(0), seen(e.length - 1)};
  }
  /// Where the mask of a row begins.
  __device__ std::int64_t mask(std::int64_t row) const {
    const std::int64_t head = pair % e.groups * (e.heads / e.groups) + row / e.length;
    return pair / e.groups * e.mask[0] + head * e.mask[1] + row % e.length * e.mask[2];
  }
};

}  // namespace lamina::cuda
