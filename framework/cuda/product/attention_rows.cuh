#pragma once

#include <cstdint>

#include "lamina/kernel/rules/lookup/lookup_extents.h"

/// The rows of attention: heads that share keys are rows of one matrix, of each pair of image and group. They are
/// counted in 31 bits; where they lie is not.
namespace lamina::cuda {

struct AttentionRows {
  int image, group;
  int heads, length, count;  // of the pair: heads, rows of each, and of all
  int positions;
  int mask_image;  // the image's own among those of the mask
  const detail::AttentionExtents& e;

  __device__ AttentionRows(const detail::AttentionExtents& extents, int of_image, int of_group)
      : image(of_image),
        group(of_group),
        heads(static_cast<int>(extents.heads) / static_cast<int>(extents.groups)),
        length(static_cast<int>(extents.length)),
        count(heads * length),
        positions(static_cast<int>(extents.positions)),
        mask_image(image % static_cast<int>(extents.mask_images)),
        e(extents) {}

  /// The positions [0, this) that a row sees; 0 for a row that does not exist.
  __device__ int seen(int row) const {
    if (row >= count) return 0;
    if (!e.causal || e.past >= positions) return positions;
    const std::int64_t end = row % length + 1 + e.past;
    return end < 0 ? 0 : end < positions ? static_cast<int>(end) : positions;
  }
  /// The least and the most that rows [first, first + some) see, of those that exist.
  struct Range {
    int least, most;
  };
  __device__ Range range(int first, int some) const {
    if (first >= count) return {positions, 0};
    if (!e.causal || e.past >= positions) return {positions, positions};
    const int from = first % length, last = min(first + some, count) - 1 - first + from;
    const int head = first - from;  // positions repeat with the next head
    return last < length ? Range{seen(first), seen(head + last)} : Range{seen(0), seen(length - 1)};
  }

  /// Where a row of queries or of the output begins.
  __device__ std::int64_t at(const detail::RowStrides& strides, int row) const {
    const int head = heads == 1 ? 0 : row / length;
    return apart(image, strides.image) + apart(group * heads + head, strides.head) +
           apart(row - head * length, strides.row);
  }
  /// Where the keys or values of a position begin.
  __device__ std::int64_t at_position(const detail::RowStrides& strides, int position) const {
    return apart(image, strides.image) + apart(group, strides.head) + apart(position, strides.row);
  }
  /// Where the mask of a row begins.
  __device__ std::int64_t mask(int row) const {
    return at({0, e.mask[1], e.mask[2]}, row) + apart(mask_image, e.mask[0]);
  }

 private:
  /// count >= 0 takes half a multiplication of 64 bits.
  __device__ static std::int64_t apart(int count, std::int64_t stride) {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(count)) * stride;
  }
};

/// Calls f(rows) for the groups and images that are a block's.
template <class F>
__device__ __forceinline__ void each_pair(const detail::AttentionExtents& e, F&& f) {
  for (int image = static_cast<int>(blockIdx.z); image < e.images; image += static_cast<int>(gridDim.z)) {
    for (int group = static_cast<int>(blockIdx.y); group < e.groups; group += static_cast<int>(gridDim.y)) {
      f(AttentionRows(e, image, group));
    }
  }
}

/// Whether all of that is counted in 31 bits.
inline bool is_countable(const detail::AttentionExtents& e) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return e.images <= most && e.groups <= most && e.heads <= most && e.length <= most && e.positions <= most &&
         e.mask_images <= most && (e.groups == 0 || e.heads / e.groups * e.length <= most);
}

}  // namespace lamina::cuda
