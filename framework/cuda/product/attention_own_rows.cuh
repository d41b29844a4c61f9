#pragma once

#include "lamina/cuda/product/attention_softmax.cuh"
#include "lamina/cuda/product/attention_tile_f32.cuh"

/// The 16 rows of a warp of attention on tensor cores. Queries stay in registers as fragments of mma.sync, scores and
/// outputs as its accumulators; the weights of a tile are, rounded to 16 bits if the operands are, the fragments of the
/// second product as they are. Whole tiles, of which every row sees everything, cost a multiply-add, an exponential of
/// base 2 and a sum a score.
namespace lamina::cuda {

/// A block's rows of one image and group.
struct BlockRows {
  const AttentionRows& rows;
  const Scale& scale;
  int first;           // of them
  int here;            // how many exist
  int end, whole_end;  // behind what some row sees, and what all see
  bool mask_pairs;     // the mask's neighbours, from an even position on, may be read together
};

template <int most, bool masked, class T>
struct OwnRows {
  const BlockRows& block;
  int first;
  const T* masks[2];  // of the thread's two rows, or null
  int sees[2];        // how many positions
  Query<most, T> query;
  Softmax softmax;
  Outputs<most> outputs = {};

  __device__ __forceinline__ OwnRows(const BlockRows& block_rows, const T* mask, int first_row)
      : block(block_rows), first(first_row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + static_cast<int>(threadIdx.x % 32) / 4 + 8 * h;
      sees[h] = block.rows.seen(row);
      // A row that does not exist reads that of the last.
      if constexpr (masked) {
        masks[h] = mask == nullptr ? nullptr : mask + block.rows.mask(min(row, block.rows.count - 1));
      }
    }
  }

  /// Reads what the mask adds to a tile's scores: early, as it comes from afar.
  template <int positions>
  __device__ __forceinline__ void read_mask(Summands<positions / 8, T>& summands, int position) const {
    if constexpr (masked) {
      const auto& e = block.rows.e;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (masks[0] == nullptr) {
#pragma unroll
          for (int i = 0; i < positions / 8; ++i) summands[i][h] = {T(0.0f), T(0.0f)};
        } else {
          load_summands(summands, h, masks[h] + position * e.mask[3], block.rows.positions - position, e.mask[3],
                        block.mask_pairs);
        }
      }
    }
  }

  /// Goes on over the first `sixteens` times 16 of a tile's `positions`. `whole`: every row sees all of them;
  /// `scaled`: their scores are multiplied by the scale, and masked; `finite` as in Softmax; `summands`: of read_mask.
  /// All `threads` that copied the tile are to call this, those that are `idle` too.
  template <int positions, int threads, bool finite>
  __device__ __forceinline__ void attend(bool whole, bool scaled, int position, int sixteens, const T* keys,
                                         const T* values, const Summands<positions / 8, T>& summands,
                                         bool idle = false) {
    // 16 bits take a product with what is not finite, unless somebody does not see it.
    const bool unseen = !whole && min(position + positions, block.rows.positions) > block.whole_end;
    const bool ragged = (unseen || sizeof(T) == sizeof(float)) && not_finite<most, threads, positions>(values);
    if (idle) return;
    Scores<positions / 8> scores = {};
    score<most>(scores, query, keys, sixteens);
    if (scaled) add_summands<masked, positions / 8, T>(scores, summands, block.scale.scores, sixteens);
    int seen[2] = {positions, positions};
    if (!whole) {
#pragma unroll
      for (int h = 0; h < 2; ++h) seen[h] = min(max(sees[h] - position, 0), positions);
      hide_unseen(scores, seen, sixteens);
    }
    softmax.template weigh<finite>(scores, outputs, block.scale.unit, sixteens);
    if (ragged) {
      multiply_seen<most>(outputs, scores, values, seen);
    } else {
      multiply<most>(outputs, scores, values, sixteens);
    }
  }
};

/// Writes a warp's 16 rows of outputs, which begin and end on whole `unit`s of bytes; those of 16 by way of shared
/// memory [16, pitch] of the warp's own.
template <int unit, int most, bool masked, class T>
__device__ __forceinline__ void store_rows(T* output, const OwnRows<most, masked, T>& own, T* shared) {
  const AttentionRows& rows = own.block.rows;
  const int lane = static_cast<int>(threadIdx.x % 32), width = static_cast<int>(rows.e.width);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = over_row(own.softmax.sum[h], [](float a, float b) { return a + b; });
    const float factor = total == 0.0f ? 1.0f : 1.0f / total;  // a row that sees nothing is 0
    const int row = own.first + lane / 4 + 8 * h;
    T* const to = unit == 16 || row >= rows.count ? nullptr : output + rows.at(rows.e.output, row);
#pragma unroll
    for (int j = 0; j < most / 8; ++j) {
      const int column = 8 * j + lane % 4 * 2;
      const float x = own.outputs[j][2 * h] * factor, y = own.outputs[j][2 * h + 1] * factor;
      if constexpr (unit == 16) {
        store_pair(shared + (lane / 4 + 8 * h) * pitch<most, T> + column, x, y);
      } else if (unit > sizeof(T)) {
        if (to != nullptr && column < width) store_pair(to + column, x, y);
      } else if (to != nullptr) {
        if (column < width) to[column] = from_f32<T>(x);
        if (column + 1 < width) to[column + 1] = from_f32<T>(y);
      }
    }
  }
  if constexpr (unit == 16) {
    __syncwarp();
    constexpr int chunks = most / chunk<T>;
#pragma unroll
    for (int i = 0; i < 16 * chunks / 32; ++i) {
      const int place = lane + 32 * i, row = place / chunks, column = place % chunks * chunk<T>;
      if (own.first + row >= rows.count || column >= width) continue;
      *reinterpret_cast<Pack<T>*>(output + rows.at(rows.e.output, own.first + row) + column) =
          *reinterpret_cast<const Pack<T>*>(shared + row * pitch<most, T> + column);
    }
  }
}

}  // namespace lamina::cuda
