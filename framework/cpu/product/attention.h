#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/product/matmul_tile.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina::cpu {

/// One row's share of a softmax that never has the whole row, compiled for one instruction set. Source: Milakov,
/// Gimelshein, "Online normalizer calculation for softmax", 2018.
struct OnlineSoftmax {
  /// Positions at a time: as many as the tile's chain has terms.
  static constexpr int block = MatMulTile::chain;

  InstructionSet set;
  /// scores = exp(scores - the largest so far); `sum` and `values` are brought to that largest, the new ones added to
  /// `sum`. -Inf weighs nothing, NaN makes all NaN.
  void (*weigh)(float* scores,  // [block], 64-byte aligned
                float& largest, float& sum, float* values, std::int64_t width);
};
std::span<const OnlineSoftmax> online_softmax_kernels();

/// Where a row of queries or of the output begins, in elements; `pair` counts images and the groups of each, `row` the
/// rows of all heads of a group.
inline std::int64_t at_row(const detail::AttentionExtents& e, const detail::RowStrides& strides, std::int64_t pair,
                           std::int64_t row) {
  const std::int64_t head = pair % e.groups * (e.heads / e.groups) + row / e.length;
  return strides.at(pair / e.groups, head, row % e.length);
}
/// The same for the keys or values of a position.
inline std::int64_t at_position(const detail::AttentionExtents& e, const detail::RowStrides& strides, std::int64_t pair,
                                std::int64_t position) {
  return strides.at(pair / e.groups, pair % e.groups, position);
}

struct AttentionPointers {
  const float* q = nullptr;     // [N, H, L, D]
  const float* k = nullptr;     // [N, G, S, D]
  const float* v = nullptr;     // [N, G, S, E]
  const float* mask = nullptr;  // as the extents say, or null
  float* output = nullptr;      // [N, H, L, E]
};

/// softmax(scale * q k' + mask) v, a block of rows and a block of positions at a time. Rows are where the extents say,
/// all queries of a group as far apart. Allocates nothing; `workspace` is 64-byte aligned and attention_workspace()
/// bytes.
void attention(const MatMulKernel& kernel, const OnlineSoftmax& softmax, const detail::AttentionExtents& extents,
               const AttentionPointers& pointers, ThreadPool& pool, float* workspace);
std::size_t attention_workspace(const MatMulKernel& kernel, const detail::AttentionExtents& extents, int threads);

}  // namespace lamina::cpu
