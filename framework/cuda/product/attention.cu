// Attention by fp32 multiply-adds, without L x S memory: a block of 256 threads owns BR rows of one image and group,
// and runs over the positions BC at a time with a softmax that is kept up to date. The 16 threads of half a warp own
// BR / 16 rows: of their scores every 16th column each, of their outputs every 16th pack of four. Queries, keys, values
// and weights lie in shared memory as f32 (at most 75,520 bytes, dynamic), rows 16 bytes longer than D so that
// neighbouring keys fall into different banks.
//
// Preconditions: D and E at most `most`. What a row does not see is not read into its sums, whatever it holds.
// Sources: Dao et al., "FlashAttention", 2022; Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.

#include <type_traits>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_rows.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::AttentionExtents;

constexpr int threads = 256, side = 16;

template <int most_, int BR_, int BC_>
struct Tile {
  static constexpr int most = most_, BR = BR_, BC = BC_;
  static constexpr int TR = BR / side, TC = BC / side, packs = most / (4 * side);
  static constexpr int pitch = most + 4;
  static constexpr int floats = (BR + BC) * pitch + BC * most + BR * (BC + 1);
  static_assert(BR % side == 0 && BC % side == 0 && most % (4 * side) == 0, "threads are a square of 16 x 16");
};
using Narrow = Tile<64, 64, 64>;
using Middle = Tile<128, 64, 32>;
using Wide = Tile<256, 32, 16>;

/// Combines the values of the 16 threads of half a warp.
template <class Combine>
__device__ inline float over_half_warp(float value, Combine combine) {
#pragma unroll
  for (int distance = side / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

/// `rows` rows of `columns` elements in memory, row r from element at(r) on, as f32 [Rows, pitch] in shared memory,
/// zeros beyond.
template <int Rows, int most, int pitch, class T, class At>
__device__ inline void load_rows(float* to, const T* from, std::int64_t rows, int columns, const At& at) {
  for (int i = static_cast<int>(threadIdx.x); i < Rows * most; i += threads) {
    const int row = i / most, column = i % most;
    to[row * pitch + column] = row < rows && column < columns ? to_f32(from[at(row) + column]) : 0.0f;
  }
}

template <class Tile, class T>
__global__ void __launch_bounds__(threads, 1) attention_kernel(const T* __restrict__ q,     // [N, H, L, D]
                                                               const T* __restrict__ k,     // [N, G, S, D]
                                                               const T* __restrict__ v,     // [N, G, S, E]
                                                               const T* __restrict__ mask,  // or null
                                                               T* __restrict__ output,      // [N, H, L, E]
                                                               const __grid_constant__ AttentionExtents e) {
  constexpr int BR = Tile::BR, BC = Tile::BC, TR = Tile::TR, TC = Tile::TC, packs = Tile::packs;
  constexpr int pitch = Tile::pitch, most = Tile::most;
  extern __shared__ __align__(16) float memory[];
  float* const queries = memory;
  float* const keys = queries + BR * pitch;
  float* const values = keys + BC * pitch;
  float* const weights = values + BC * most;
  let_successor_start();
  wait_for_predecessor();
  const int tx = static_cast<int>(threadIdx.x) % side, first_row = static_cast<int>(threadIdx.x) / side * TR;
  const int depth = static_cast<int>(e.depth), width = static_cast<int>(e.width);
  each_pair(e, [&](const AttentionRows& rows) {
    const int block_row = static_cast<int>(blockIdx.x) * BR;
    __syncthreads();  // everybody is done with the last pair
    load_rows<BR, most, pitch>(queries, q, rows.count - block_row, depth,
                               [&](int row) { return rows.at(e.q, block_row + row); });
    const int end = rows.range(block_row, BR).most;
    int seen[TR];
    float largest[TR], sum[TR], out[TR][4 * packs] = {};
#pragma unroll
    for (int r = 0; r < TR; ++r) {
      seen[r] = rows.seen(block_row + first_row + r);
      largest[r] = -INFINITY;
      sum[r] = 0;
    }
    for (int position = 0; position < end; position += BC) {
      __syncthreads();  // everybody is done with the last positions
      load_rows<BC, most, pitch>(keys, k, rows.positions - position, depth,
                                 [&](int row) { return rows.at_position(e.k, position + row); });
      load_rows<BC, most, most>(values, v, rows.positions - position, width,
                                [&](int row) { return rows.at_position(e.v, position + row); });
      __syncthreads();
      float score[TR][TC] = {};
      for (int d = 0; d < depth; d += 4) {
        float4 x[TR], y[TC];
#pragma unroll
        for (int r = 0; r < TR; ++r) x[r] = *reinterpret_cast<const float4*>(queries + (first_row + r) * pitch + d);
#pragma unroll
        for (int c = 0; c < TC; ++c) y[c] = *reinterpret_cast<const float4*>(keys + (tx + side * c) * pitch + d);
#pragma unroll
        for (int r = 0; r < TR; ++r) {
#pragma unroll
          for (int c = 0; c < TC; ++c) {
            score[r][c] = fmaf(x[r].x, y[c].x, score[r][c]);
            score[r][c] = fmaf(x[r].y, y[c].y, score[r][c]);
            score[r][c] = fmaf(x[r].z, y[c].z, score[r][c]);
            score[r][c] = fmaf(x[r].w, y[c].w, score[r][c]);
          }
        }
      }
      bool whole = true;
#pragma unroll
      for (int r = 0; r < TR; ++r) {
        whole = whole && seen[r] >= position + BC;
        float max_here = largest[r];
#pragma unroll
        for (int c = 0; c < TC; ++c) {
          const int column = position + tx + side * c;
          float s = score[r][c] * static_cast<float>(e.scale);
          if (column >= seen[r]) {
            s = -INFINITY;
          } else if (mask != nullptr) {
            s += to_f32(mask[rows.mask(block_row + first_row + r) + column * e.mask[3]]);
          }
          score[r][c] = s;
          max_here = fmaxf(max_here, s);  // NaN is left out here, and found again by the exponentials
        }
        max_here = over_half_warp(max_here, [](float a, float b) { return fmaxf(a, b); });
        // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything.
        const float base = max_here == -INFINITY ? 0.0f : max_here;
        float added = 0;
#pragma unroll
        for (int c = 0; c < TC; ++c) {
          const float p = expf(score[r][c] - base);
          added += p;
          weights[(first_row + r) * (BC + 1) + tx + side * c] = p;
        }
        added = over_half_warp(added, [](float a, float b) { return a + b; });
        const float factor = largest[r] == -INFINITY ? 1.0f : expf(largest[r] - base);
        sum[r] = sum[r] * factor + added;
        largest[r] = max_here;
#pragma unroll
        for (int j = 0; j < 4 * packs; ++j) out[r][j] *= factor;
      }
      __syncwarp();                    // a half warp's weights are its own
      float here[TR][4 * packs] = {};  // chains of BC terms
      const auto add = [&]<bool all>(std::bool_constant<all>) {
#pragma unroll 4
        for (int c = 0; c < BC; ++c) {
#pragma unroll
          for (int p = 0; p < packs; ++p) {
            const float4 y = *reinterpret_cast<const float4*>(values + c * most + 4 * (tx + side * p));
#pragma unroll
            for (int r = 0; r < TR; ++r) {
              if (!all && position + c >= seen[r]) continue;
              const float w = weights[(first_row + r) * (BC + 1) + c];
              here[r][4 * p] = fmaf(w, y.x, here[r][4 * p]);
              here[r][4 * p + 1] = fmaf(w, y.y, here[r][4 * p + 1]);
              here[r][4 * p + 2] = fmaf(w, y.z, here[r][4 * p + 2]);
              here[r][4 * p + 3] = fmaf(w, y.w, here[r][4 * p + 3]);
            }
          }
        }
      };
      whole ? add(std::true_type()) : add(std::false_type());
#pragma unroll
      for (int r = 0; r < TR; ++r) {
#pragma unroll
        for (int j = 0; j < 4 * packs; ++j) out[r][j] += here[r][j];
      }
    }
#pragma unroll
    for (int r = 0; r < TR; ++r) {
      const int row = first_row + r;
      if (block_row + row >= rows.count) continue;
      const float divisor = sum[r] == 0.0f ? 1.0f : sum[r];  // a row that sees nothing is 0
      T* const to = output + rows.at(e.output, block_row + row);
#pragma unroll
      for (int j = 0; j < 4 * packs; ++j) {
        const int column = 4 * (tx + side * (j / 4)) + j % 4;
        if (column < width) to[column] = from_f32<T>(out[r][j] / divisor);
      }
    }
  });
}

/// Calls f with the tile for heads that wide.
template <class F>
auto with_tile(const AttentionExtents& e, F&& f) {
  return max_depth(e) <= Narrow::most ? f(Narrow()) : max_depth(e) <= Middle::most ? f(Middle()) : f(Wide());
}

/// Of a block's shared memory.
template <class Tile>
constexpr int bytes = Tile::floats* static_cast<int>(sizeof(float));

}  // namespace

bool takes_attention(const AttentionProblem& problem, const Preparation& p) {
  if (!detail::is_attention(problem, p) || !is_activation(p.input().format.dtype)) return false;
  const AttentionExtents e = detail::attention_extents(problem, p);
  return max_depth(e) <= Wide::most && is_countable(e) &&
         with_tile(e, []<class Tile>(Tile) { return bytes<Tile>; }) <= p.device.shared_bytes;
}

std::unique_ptr<Operator> prepare_attention(const AttentionProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "online softmax",
      [e = detail::attention_extents(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          with_tile(e, [&]<class Tile>(Tile) {
            launch_attention<T>(attention_kernel<Tile, T>, grid_of_rows(e, Tile::BR), threads, bytes<Tile>, e, inputs,
                                outputs[0], execution.stream);
          });
        });
      });
}

}  // namespace lamina::cuda
