// Reductions of rows that lie one after the other, in whole packs of 16 bytes: 1 to 32 neighbours of a warp own a row
// and load its packs in turns; they meet by shuffles, in the same order every time. Sums are Kahan's.
//
// Shared memory: none. Preconditions: rows of at most 2048 packs, f32, f16 or bf16.

#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/reduce.h"
#include "lamina/cuda/array/reduce_states.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int warp = 32;
constexpr int pack_threads = 256, max_packs = 2048;  // of a row

/// Rows [rows, packs] one after the other; `sharers`, a power of two up to 32, own one.
template <class E>
__global__ void __launch_bounds__(pack_threads)
    reduce_packs_kernel(const Pack<E>* __restrict__ input, void* output, DType to, std::int64_t rows, int packs,
                        const __grid_constant__ Settings<float> settings, int sharers) {
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % sharers, together = pack_threads / sharers;
  for (std::int64_t first = std::int64_t{blockIdx.x} * together; first < rows;
       first += std::int64_t{gridDim.x} * together) {
    const std::int64_t row = first + static_cast<int>(threadIdx.x) / sharers;
    Fold<float> state(settings);
    for (int p = lane; p < packs && row < rows; p += sharers) {
      const Pack<E> pack = input[row * packs + p];
#pragma unroll
      for (int j = 0; j < Pack<E>::size; ++j) state.add(settings, to_f32(pack.values[j]), 0);
    }
    for (int distance = sharers / 2; distance > 0; distance /= 2) {
      const float value = __shfl_down_sync(0xffffffffu, state.value, static_cast<unsigned>(distance)),
                  lost = __shfl_down_sync(0xffffffffu, state.lost, static_cast<unsigned>(distance));
      if (lane < distance) state.join(settings, {value, lost});
    }
    const float result[1] = {state.result(settings, std::int64_t{packs} * Pack<E>::size)};
    if (lane == 0 && row < rows) store<1>(to, result, output, row);
  }
}

}  // namespace

bool reduce_packs(const ReduceProblem& problem, const detail::ReducePlan& plan, const Tensor& input, Tensor& output,
                  Stream stream) {
  const DType dtype = input.dtype();
  if (!is_activation(dtype)) return false;
  const auto size = static_cast<std::int64_t>(16 / size_of(dtype));
  const bool rows = plan.reduced.size() == 1 && plan.kept.size() == 1 && plan.reduced[0].strides[0] == 1 &&
                    (plan.kept[0].strides[0] == plan.extent || plan.outputs == 1);
  if (!rows || plan.extent % size != 0 || plan.extent / size > max_packs || plan.extent == 0) return false;
  if (!aligned_to_16(input.raw())) return false;
  const auto packs = static_cast<int>(plan.extent / size);
  int sharers = 1;
  while (sharers < warp && sharers * 2 <= packs) sharers *= 2;
  const Settings<float> settings = {problem.kind, problem.last, identity_of<float>(problem.kind, dtype)};
  with_element_type(dtype, [&]<class E>(E*) {
    launch_kernel(reduce_packs_kernel<E>,
                  {.grid = dim3(grid_for(plan.outputs, pack_threads / sharers)), .block = dim3(pack_threads)}, stream,
                  static_cast<const Pack<E>*>(input.raw()), output.raw(), output.dtype(), plan.outputs, packs, settings,
                  sharers);
  });
  return true;
}

}  // namespace lamina::cuda
