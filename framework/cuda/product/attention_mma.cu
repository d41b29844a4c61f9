// Attention on tensor cores: a block owns some rows of one image and group, a warp 16 of them, and runs over the
// positions a tile at a time (attention_own_rows.cuh). Either its warps have rows of their own and share the tiles
// (attention_blocks.cuh) or, where blocks of so many rows would leave multiprocessors idle, they have the same rows and
// share the positions (attention_warps.cuh).
//
// Preconditions: D and E at most `most`. A row that does not see all of a tile leaves out what is not finite there by
// plain multiply-adds.
// Sources: Dao, "FlashAttention-2", 2023; PTX ISA, "mma.m16n8k16", "ldmatrix".

#include <algorithm>

#include "lamina/cuda/product/attention_blocks.cuh"
#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_warps.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
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
  const bool mask_pairs = has_pairs(mask, e);
  each_pair(e, [&](const AttentionRows& rows) {
    const int first = static_cast<int>(blockIdx.x) * Share::block_rows;
    const auto range = rows.range(first, Share::block_rows);
    wait_for_predecessor();  // after the divisions, and without effect from the second pair on
    __syncthreads();         // everybody is done with the last pair
    Share::run({.rows = rows,
                .scale = scale,
                .first = first,
                .here = min(rows.count - first, Share::block_rows),
                .end = range.most,
                .whole_end = range.least,
                .mask_pairs = mask_pairs},
               q, k + rows.at_position(e.k, 0), v + rows.at_position(e.v, 0), mask, output,
               reinterpret_cast<T*>(memory));
  });
#endif
}

template <class Share, class T>
void launch(const AttentionExtents& e, Inputs inputs, Tensor& output, Stream stream) {
  launch_attention<T>(attention_mma_kernel<Share, T>, grid_of_rows(e, Share::block_rows), Share::threads, Share::bytes,
                      e, inputs, output, stream);
}

}  // namespace

bool takes_attention_mma(const AttentionProblem& problem, const Preparation& p) {
  constexpr std::int64_t max_width = 128;
  if (!detail::is_attention(problem, p) || !is_activation(p.input().format.dtype)) return false;
  const AttentionExtents e = detail::attention_extents(problem, p);
  return p.device.architecture >= 80 && max_depth(e) <= max_width && is_countable(e);
}

std::unique_ptr<Operator> prepare_attention_mma(const AttentionProblem& problem, const Preparation& p) {
  return make_on_device(index(p), "online softmax",
                        [e = detail::attention_extents(problem, p)](Inputs inputs, std::span<Tensor> outputs,
                                                                    const Execution& execution) {
                          Tensor& output = outputs[0];
                          const auto aligned = [](const Tensor& tensor) { return aligned_to_16(tensor.raw()); };
                          const bool whole = has_rows_of(16, output.dtype(), e) &&
                                             std::ranges::all_of(inputs.first(3), aligned) && aligned(output);
                          with_attention_types(output.dtype(), e, [&]<int most, class T>(Width<most>, T*) {
                            const auto run = [&](auto* share) {
                              launch<std::remove_pointer_t<decltype(share)>, T>(e, inputs, output, execution.stream);
                            };
                            if (!whole) return run(static_cast<Blocks<most, false, true, T>*>(nullptr));
                            e.masked ? run(static_cast<Blocks<most, true, true, T>*>(nullptr))
                                     : run(static_cast<Blocks<most, true, false, T>*>(nullptr));
                          });
                        });
}

/// Its bits are others than attention_mma's, so batches, which decide who of the two pays, must be free to matter.
bool takes_attention_split(const AttentionProblem& problem, const Preparation& p) {
  if (!takes_attention_mma(problem, p) || p.batch_invariant) return false;
  const AttentionExtents e = detail::attention_extents(problem, p);
  int bytes = 0;
  with_attention_types(p.input().format.dtype, e,
                       [&]<int most, class T>(Width<most>, T*) { bytes = Warps<most, true, T>::bytes; });
  return has_rows_of(16, p, e) && bytes <= p.device.shared_bytes;
}

/// Where blocks of 64 rows would leave multiprocessors idle, and there are several tiles of positions to share.
bool attention_split_pays(const AttentionProblem& problem, const Preparation& p) {
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  if (e.groups == 0) return false;
  const std::int64_t blocks = e.images * e.groups * detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, 64);
  return e.positions > 64 && blocks <= p.device.multiprocessors;
}

std::unique_ptr<Operator> prepare_attention_split(const AttentionProblem& problem, const Preparation& p) {
  return make_on_device(index(p), "online softmax, positions shared by warps",
                        [e = detail::attention_extents(problem, p)](Inputs inputs, std::span<Tensor> outputs,
                                                                    const Execution& execution) {
                          with_attention_types(outputs[0].dtype(), e, [&]<int most, class T>(Width<most>, T*) {
                            e.masked ? launch<Warps<most, true, T>, T>(e, inputs, outputs[0], execution.stream)
                                     : launch<Warps<most, false, T>, T>(e, inputs, outputs[0], execution.stream);
                          });
                        });
}

}  // namespace lamina::cuda
