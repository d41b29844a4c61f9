// Attention of few rows and positions, such as windows of 4 x 4 pixels, on tensor cores: a warp has all rows of an
// image and group, 16 at a time (attention_own_rows.cuh), and copies keys and values, 32 positions at a time, into
// shared memory of its own (at most 46,080 bytes for a block's four warps, dynamic). Nobody waits for another warp.
//
// Preconditions: D and E at most `most`; rows that begin and end on whole `unit`s of bytes.

#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_own_rows.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::AttentionExtents;

constexpr int warps = 4, threads = 32 * warps, block_rows = 16;
constexpr int share = 32;  // positions that a warp has at a time

/// Of a warp: its queries, keys and values.
template <int most, class T>
constexpr int warp_elements = (block_rows + 2 * share) * pitch<most, T>;

template <int most, int unit, class T>
__global__ void __launch_bounds__(threads, most <= 32 ? 4 : 3)
    attention_few_kernel(const T* __restrict__ q,     // [N, H, L, D]
                         const T* __restrict__ k,     // [N, G, S, D]
                         const T* __restrict__ v,     // [N, G, S, E]
                         const T* __restrict__ mask,  // or null
                         T* __restrict__ output,      // [N, H, L, E]
                         const __grid_constant__ AttentionExtents e) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const Scale scale(static_cast<float>(e.scale), mask != nullptr);
  const int warp = static_cast<int>(threadIdx.x / 32), depth = static_cast<int>(e.depth);
  T* const queries = reinterpret_cast<T*>(memory) + warp * warp_elements<most, T>;
  T *const keys = queries + block_rows * pitch<most, T>, *const values = keys + share * pitch<most, T>;
  const bool mask_pairs = has_pairs(mask, e);
  const int groups = static_cast<int>(e.groups), pairs = static_cast<int>(e.images) * groups;
  wait_for_predecessor();
#pragma unroll 1
  for (int pair = static_cast<int>(blockIdx.x) * warps + warp; pair < pairs;
       pair += static_cast<int>(gridDim.x) * warps) {
    const AttentionRows rows(e, pair / groups, pair % groups);
    const T *const its_keys = k + rows.at_position(e.k, 0), *const its_values = v + rows.at_position(e.v, 0);
#pragma unroll 1
    for (int first = 0; first < rows.count; first += block_rows) {
      const auto range = rows.range(first, block_rows);
      const BlockRows block = {.rows = rows,
                               .scale = scale,
                               .first = first,
                               .here = min(rows.count - first, block_rows),
                               .end = range.most,
                               .whole_end = range.least,
                               .mask_pairs = mask_pairs};
      __syncwarp();  // everybody is done with what is there
      load_rows<block_rows, most, 32, unit>(queries, q, block.here, depth,
                                            [&](int row) { return row < block.here ? rows.at(e.q, first + row) : 0; });
      OwnRows<most, true, T> own(block, mask, first);
#pragma unroll 1
      for (int begin = 0; begin == 0 || begin < block.end; begin += share) {
        if (begin > 0) __syncwarp();
        if (first == 0 || rows.positions > share) {  // else they are there still
          const int left = rows.positions - begin;
          load_rows<share, most, 32, unit>(keys, its_keys + begin * e.k.row, left, depth,
                                           [&](int row) { return row * e.k.row; });
          load_rows<share, most, 32, unit>(values, its_values + begin * e.v.row, left, static_cast<int>(e.width),
                                           [&](int row) { return row * e.v.row; });
        }
        Summands<share / 8, T> summands;
        own.template read_mask<share>(summands, begin);
        ptx::copy_async_commit();
        ptx::copy_async_wait<0>();
        __syncwarp();
        if (begin == 0) load_query<most>(own.query, queries, scale.negative);
        const int sixteens = min(share / 16, (block.end - begin + 15) / 16);
        own.template attend<share, 32, false>(begin + share <= block.whole_end, scale.of_scores, begin, sixteens, keys,
                                              values, summands);
      }
      __syncwarp();  // outputs pass through the queries' place
      store_rows<unit>(output, own, queries);
    }
  }
#endif
}

/// Calls launch(Width, the unit as a constant, a null pointer of the element type).
template <class Launch>
void with_few(DType dtype, int unit, const AttentionExtents& e, const Launch& launch) {
  with_element_type(dtype, [&]<class T>(T* type) {
    if constexpr (sizeof(T) == 2) {
      const std::int64_t most = max_depth(e);
      const auto of_width = [&]<int most_>(Width<most_> width) {
        unit == 16 ? launch(width, std::integral_constant<int, 16>(), type)
                   : launch(width, std::integral_constant<int, 4>(), type);
      };
      if (most <= 16) return of_width(Width<16>());
      most <= 32 ? of_width(Width<32>()) : of_width(Width<64>());
    }
  });
}

}  // namespace

/// Neither the number of images nor that of multiprocessors decides, so that bits are theirs alone.
bool takes_attention_few(const AttentionProblem& problem, const Preparation& p) {
  constexpr std::int64_t most_rows = 32, most_positions = 64, most_depth = 64, most_pairs = std::int64_t{1} << 30;
  if (!takes_attention_mma(problem, p) || size_of(p.input().format.dtype) != 2) return false;
  const AttentionExtents e = detail::attention_extents(problem, p);
  return e.groups > 0 && e.heads / e.groups * e.length <= most_rows && e.positions <= most_positions &&
         max_depth(e) <= most_depth && e.images <= most_pairs / e.groups && has_rows_of(4, p, e);
}

std::unique_ptr<Operator> prepare_attention_few(const AttentionProblem& problem, const Preparation& p) {
  const AttentionExtents extents = detail::attention_extents(problem, p);
  const int unit = has_rows_of(16, p, extents) ? 16 : 4;
  return make_on_device(index(p), "online softmax, a warp for each head",
                        [e = extents, unit](Inputs inputs, std::span<Tensor> outputs, const Execution& execution) {
                          with_few(outputs[0].dtype(), unit, e,
                                   [&]<int most, int of, class T>(Width<most>, std::integral_constant<int, of>, T*) {
                                     launch_attention<T>(attention_few_kernel<most, of, T>,
                                                         dim3(grid_for(e.images * e.groups, warps)), threads,
                                                         warps * warp_elements<most, T> * static_cast<int>(sizeof(T)),
                                                         e, inputs, outputs[0], execution.stream);
                                   });
                        });
}

}  // namespace lamina::cuda
