#pragma once

#include <algorithm>
#include <cstdint>

#include "lamina/base/math.h"
#include "lamina/cpu/product/panels.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cpu {

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

/// Heads that share keys are rows of one matrix: `rows` of them for each of `pairs` of image and group. A task is some
/// tiles of rows. Keys and values are packed once, for some pairs at a time, which a cache holds.
struct AttentionDivision {
  /// Positions at a time: a tile's scores and weights are 48 KB at most.
  static constexpr std::int64_t block = 256;
  static constexpr std::int64_t max_packed = std::int64_t{1} << 20, max_task_rows = 64;

  std::int64_t pairs, rows;
  std::int64_t key_blocks, width_blocks;  // of Engine::filters
  std::int64_t keys, packed;              // numbers of one pair: of its keys, of values too
  std::int64_t batch;                     // pairs at a time
  std::int64_t tile;                      // rows
  std::int64_t task_tiles;
  std::int64_t width;  // of a row of values as f32
  Steps depth;
  std::int64_t offsets;                           // bytes of those of a tile's steps
  std::int64_t queries, scores, weights, values;  // of a worker's pieces
  std::int64_t worker;                            // their sum

  std::int64_t packed_bytes(const bf16::Engine& engine) const {
    return batch * packed * (engine.operand == DType::f32 ? 4 : 2);
  }

  AttentionDivision(const bf16::Engine& engine, const detail::AttentionExtents& e, int threads)
      : depth(engine, e.depth, Pairs::in_order) {
    pairs = e.images * e.groups;
    rows = e.groups > 0 ? e.heads / e.groups * e.length : 0;
    key_blocks = detail::ceil_div<std::int64_t>(e.positions, engine.filters);
    width_blocks = detail::ceil_div<std::int64_t>(e.width, engine.filters);
    keys = key_blocks * column_panel(engine, e.depth);
    packed = detail::round_up<std::int64_t>(keys + width_blocks * row_panel(engine, e.positions), 32);
    const std::int64_t some = std::max<std::int64_t>(1, pairs);
    batch = std::clamp<std::int64_t>(max_packed / std::max<std::int64_t>(1, packed),
                                     std::min<std::int64_t>(some, threads), some);
    tile = std::max(16, engine.positions);  // AMX reads and writes sixteen whatever it is asked for
    task_tiles = std::max<std::int64_t>(1, max_task_rows / tile);
    while (task_tiles > 1 && threads > 1 &&
           batch * detail::ceil_div(rows, task_tiles * engine.positions) < 3 * threads) {
      task_tiles = detail::ceil_div<std::int64_t>(task_tiles, 2);
    }
    width = width_blocks * engine.filters;
    offsets = detail::round_up<std::int64_t>(std::max(depth.steps, block / bf16::step_channels) * 8, 64);
    const std::int64_t element = engine.widened ? 4 : 2;
    queries = depth.steps * tile * bf16::step_channels * element;
    scores = tile * block * 4;
    weights = tile * block * element;
    values = detail::round_up<std::int64_t>(tile * width * 4, 64);
    worker = queries + scores + weights + 2 * values;
  }
};

}  // namespace lamina::cpu
