// Attention on tensor cores where attention_mma.cu would leave multiprocessors idle: a block owns 16 rows of one image
// and group, and its 8 warps share their positions, 32 at a time in turn, 16 of f32. Each warp copies, scores and
// weighs by itself, in shared memory of its own (at most 143,616 bytes, dynamic, for all); at the end the warps'
// sums meet there, and are added in the order of the warps, each brought to the largest score of all. Warps multiply 16
// positions at a time, and no more, because what runs once or twice has to be read from L2 first.
//
// Preconditions: rows of whole chunks of 16 bytes; others, and sources, as in attention_mma.cu.

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_softmax.cuh"
#include "lamina/cuda/product/attention_tile_f32.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using detail::AttentionExtents;

constexpr int warps = 8, threads = 32 * warps, block_rows = 16;
template <class T>
constexpr int share = 64 / sizeof(T);  // positions that a warp copies at a time
constexpr int positions = 16;          // that it multiplies at a time

/// A warp's keys and values, in whose place its sums are later: [16, most] f32, the largest scores, the weights' sums.
template <int most, class T>
constexpr int stage_elements = 2 * share<T>* pitch<most, T>;
template <int most, class T>
constexpr int stage_floats = stage_elements<most, T>* static_cast<int>(sizeof(T)) / 4;
template <int most, class T>
constexpr int shared_bytes = static_cast<int>(sizeof(T)) *
                             (block_rows * pitch<most, T> + warps * stage_elements<most, T>);

/// Leaves a warp's sums in its stage.
template <int most>
__device__ inline void leave_sums(float* stage, const Softmax& softmax, const Outputs<most>& outputs) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* const largest = stage + block_rows * most;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + 8 * h;
    const float total = over_row(softmax.sum[h], [](float a, float b) { return a + b; });
    if (lane % 4 == 0) largest[row] = softmax.largest[h], largest[block_rows + row] = total;
#pragma unroll
    for (int j = 0; j < most / 8; ++j) {
      *reinterpret_cast<float2*>(stage + row * most + 8 * j + lane % 4 * 2) = {outputs[j][2 * h],
                                                                               outputs[j][2 * h + 1]};
    }
  }
}

/// Adds up what the warps have of a row, and stores it.
template <int most, class T>
__device__ inline void store_row(T* output, const AttentionRows& rows, std::int64_t first, int row, const float* stages,
                                 float unit) {
  constexpr int apart = stage_floats<most, T>;
  const int lane = static_cast<int>(threadIdx.x % 32), width = static_cast<int>(rows.e.width);
  if (first + row >= rows.count) return;
  // A lane for each warp: what its sums are multiplied by.
  const float* const own = stages + lane % warps * apart + block_rows * most + row;
  float most_of_all = own[0], factor;
#pragma unroll
  for (int distance = warps / 2; distance > 0; distance /= 2) {
    most_of_all = fmaxf(most_of_all, __shfl_xor_sync(0xffffffffu, most_of_all, distance));
  }
  factor = own[0] == -INFINITY ? 1.0f : exp2_of((own[0] - most_of_all) * unit);
  float total = factor * own[block_rows];
#pragma unroll
  for (int distance = warps / 2; distance > 0; distance /= 2) total += __shfl_xor_sync(0xffffffffu, total, distance);
  factor *= total == 0.0f ? 1.0f : 1.0f / total;  // a row that sees nothing is 0
  T* const to = output + rows.at(rows.e.output, first + row);
#pragma unroll
  for (int column = 2 * lane; column < most; column += 64) {
    float2 sum = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float2 part = *reinterpret_cast<const float2*>(stages + w * apart + row * most + column);
      const float of_warp = __shfl_sync(0xffffffffu, factor, w);
      sum.x += of_warp * part.x, sum.y += of_warp * part.y;
    }
    if (column < width) store_pair(to + column, sum.x, sum.y);
  }
}

template <int most, class T>
__global__ void __launch_bounds__(threads, most == 64 ? 2 : 1)
    attention_split_kernel(const T* __restrict__ q,     // [N, H, L, D]
                           const T* __restrict__ k,     // [N, G, S, D]
                           const T* __restrict__ v,     // [N, G, S, E]
                           const T* __restrict__ mask,  // or null
                           T* __restrict__ output,      // [N, H, L, E]
                           const __grid_constant__ AttentionExtents e) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const stages = queries + block_rows * pitch<most, T>;
  let_successor_start();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int depth = static_cast<int>(e.depth), width = static_cast<int>(e.width);
  T *const keys = stages + warp * stage_elements<most, T>, *const values = keys + share<T> * pitch<most, T>;
  const Scale scale(static_cast<float>(e.scale), mask != nullptr);
  for (std::int64_t pair = blockIdx.y; pair < e.images * e.groups; pair += gridDim.y) {
    const AttentionRows rows(e, pair);
    const std::int64_t first = std::int64_t{blockIdx.x} * block_rows;
    const auto range = rows.range(first, block_rows);
    const int end = static_cast<int>(range.most), whole_end = static_cast<int>(range.least);
    const int here = static_cast<int>(min(rows.count - first, std::int64_t{block_rows}));
    const T *const first_key = k + rows.at_position(e.k, 0), *const first_value = v + rows.at_position(e.v, 0);
    wait_for_predecessor();  // after the divisions, and without effect from the second pair on
    __syncthreads();         // everybody is done with the last pair
    constexpr int chunks = block_rows * most / chunk<T>, copying = chunks < threads ? chunks : threads;
    if (static_cast<int>(threadIdx.x) < copying) {
      load_rows<block_rows, most, copying, true>(queries, q, here, depth,
                                                 [&](int row) { return row < here ? rows.at(e.q, first + row) : 0; });
    }
    Query<most, T> query[1];
    Softmax softmax;
    Outputs<most> outputs[1] = {};
#pragma unroll 1
    for (int begin = warp * share<T>; begin < end || begin < warps * share<T>; begin += warps * share<T>) {
      const int left = static_cast<int>(e.positions) - begin;
      __syncwarp();
      if (begin < end) {
        load_rows<share<T>, most, 32, true>(keys, first_key + begin * e.k.row, left, depth,
                                            [&](int row) { return row * e.k.row; });
        load_rows<share<T>, most, 32, true>(values, first_value + begin * e.v.row, left, width,
                                            [&](int row) { return row * e.v.row; });
      }
      ptx::copy_async_commit();
      ptx::copy_async_wait<0>();
      if (begin >= warps * share<T>) {
        __syncwarp();
      } else {
        __syncthreads();
        load_query<most>(query[0], queries, scale.negative);
      }
#pragma unroll 1
      for (int at = 0; at < min(share<T>, end - begin); at += positions) {
        const int position = begin + at;
        const bool whole = !scale.of_scores && position + positions <= whole_end;
        // 16 bits take a product with what is not finite, unless somebody does not see it.
        const bool unseen = !whole && min(position + positions, static_cast<int>(e.positions)) > whole_end;
        const bool ragged =
            (unseen || sizeof(T) == sizeof(float)) && not_finite<most, 32, positions>(values + at * pitch<most, T>);
        Scores<positions / 8> scores[1] = {};
        score<most>(scores, query, keys + at * pitch<most, T>, 1);
        int seen[2] = {positions, positions};
        if (!whole) {
          mask_scores(scores[0], rows, first + lane / 4, mask, position, scale.scores, positions / 8, seen);
        }
        softmax.template weigh<false>(scores[0], outputs[0], scale.unit, positions / 8);
        if (ragged) {
          multiply_seen<most>(outputs[0], scores[0], values + at * pitch<most, T>, seen);
        } else {
          multiply<most>(outputs, scores, values + at * pitch<most, T>, 1);
        }
      }
    }
    __syncwarp();  // the warp is done with its keys and values
    leave_sums<most>(reinterpret_cast<float*>(keys), softmax, outputs[0]);
    __syncthreads();
#pragma unroll 1
    for (int row = warp; row < block_rows; row += warps) {
      store_row<most>(output, rows, first, row, reinterpret_cast<const float*>(stages), scale.unit);
    }
  }
#endif
}

}  // namespace

int attention_split_shared_bytes(DType dtype, const AttentionExtents& e) {
  int bytes = 0;
  with_attention_types(dtype, e, [&]<int most, class T>(Width<most>, T*) { bytes = shared_bytes<most, T>; });
  return bytes;
}

void attention_split(int device, DType dtype, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  const std::int64_t pairs = e.images * e.groups;
  if (pairs == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  const DeviceGuard guard(device);
  with_attention_types(dtype, e, [&]<int most, class T>(Width<most>, T*) {
    const auto kernel = attention_split_kernel<most, T>;
    reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), shared_bytes<most, T>);
    const std::int64_t blocks = detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, block_rows);
    const dim3 grid(grid_for(blocks, 1), static_cast<unsigned>(std::min<std::int64_t>(pairs, 65535)));
    launch_kernel(kernel, {.grid = grid, .block = dim3(threads), .shared_bytes = shared_bytes<most, T>}, stream,
                  static_cast<const T*>(p.q), static_cast<const T*>(p.k), static_cast<const T*>(p.v),
                  static_cast<const T*>(p.mask), static_cast<T*>(p.output), e);
  });
}

}  // namespace lamina::cuda
