// Attention on tensor cores: a block owns some rows of one image and group, a warp 16 of them, and runs over the
// positions a tile at a time (attention_own_rows.cuh). Either its warps have rows of their own and share the tiles
// (attention_blocks.cuh) or, where blocks of so many rows would leave multiprocessors idle, they have the same rows and
// share the positions (attention_warps.cuh).
//
// Preconditions: D and E at most `most`. A row that does not see all of a tile leaves out what is not finite there by
// plain multiply-adds.
// Sources: Dao, "FlashAttention-2", 2023; PTX ISA, "mma.m16n8k16", "ldmatrix".

#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/product/attention_blocks.cuh"
#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_warps.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using detail::AttentionExtents;

/// `Share`: how a block's warps share its work.
template <class Share, class T>
__global__ void __launch_bounds__(Share::threads, Share::resident)
    attention_mma_kernel(const T* __restrict__ q,     // [N, H, L, D]
                         const T* __restrict__ k,     // [N, G, S, D]
                         const T* __restrict__ v,     // [N, G, S, E]
                         const T* __restrict__ mask,  // or null
                         T* __restrict__ output,      // [N, H, L, E]
                         const __grid_constant__ AttentionExtents e) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const Scale scale(static_cast<float>(e.scale), mask != nullptr);
  for (std::int64_t pair = blockIdx.y; pair < e.images * e.groups; pair += gridDim.y) {
    const AttentionRows rows(e, pair);
    const std::int64_t first = std::int64_t{blockIdx.x} * Share::block_rows;
    const auto range = rows.range(first, Share::block_rows);
    wait_for_predecessor();  // after the divisions, and without effect from the second pair on
    __syncthreads();         // everybody is done with the last pair
    Share::run({.rows = rows,
                .scale = scale,
                .first = first,
                .here = static_cast<int>(min(rows.count - first, std::int64_t{Share::block_rows})),
                .end = static_cast<int>(range.most),
                .whole_end = static_cast<int>(range.least)},
               q, k + rows.at_position(e.k, 0), v + rows.at_position(e.v, 0), mask, output,
               reinterpret_cast<T*>(memory));
  }
#endif
}

template <class Share, class T>
void launch(int device, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  launch_attention<T>(attention_mma_kernel<Share, T>, device, Share::block_rows, Share::threads, Share::bytes, e, p,
                      stream);
}

}  // namespace

bool attention_has_chunks(DType dtype, const AttentionExtents& e) {
  const auto chunk = static_cast<std::int64_t>(16 / size_of(dtype));
  const auto fits = [&](const detail::RowStrides& s, std::int64_t columns) {
    return s.image % chunk == 0 && s.head % chunk == 0 && s.row % chunk == 0 && columns % chunk == 0;
  };
  return fits(e.q, e.depth) && fits(e.k, e.depth) && fits(e.v, e.width) && fits(e.output, e.width);
}

void attention_mma(int device, DType dtype, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  const bool whole = attention_has_chunks(dtype, e) && aligned_to_16(p.q) && aligned_to_16(p.k) && aligned_to_16(p.v) &&
                     aligned_to_16(p.output);
  with_attention_types(dtype, e, [&]<int most, class T>(Width<most>, T*) {
    whole ? launch<Blocks<most, true, T>, T>(device, e, p, stream)
          : launch<Blocks<most, false, T>, T>(device, e, p, stream);
  });
}

int attention_split_shared_bytes(DType dtype, const AttentionExtents& e) {
  int bytes = 0;
  with_attention_types(dtype, e, [&]<int most, class T>(Width<most>, T*) { bytes = Warps<most, T>::bytes; });
  return bytes;
}

void attention_split(int device, DType dtype, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  with_attention_types(dtype, e,
                       [&]<int most, class T>(Width<most>, T*) { launch<Warps<most, T>, T>(device, e, p, stream); });
}

}  // namespace lamina::cuda
