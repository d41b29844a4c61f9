// A thread owns 16 bytes of the output's channels, a block 256 of such. What is a number for each channel comes from
// cache. The chain is interpreted: every thread takes the same branches, and memory is what takes the time.
//
// Shared memory: none. Preconditions: fewer than 2^31 packs; the output may be an operand of its size.

#include "lamina/cuda/array/by_channel.h"

#include <algorithm>
#include <limits>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/elementwise.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

struct Operands {
  int steps = 0;
  ChainStep<float> step[max_pointwise_steps];
  const void* memory[max_pointwise_operands];
  bool by_channel[max_pointwise_operands];
  std::uint32_t channel_packs = 1;
  Divider by_image, by_channels;
};

template <class T>
__global__ void __launch_bounds__(threads)
    by_channel_kernel(const __grid_constant__ Operands operands, std::uint32_t packs, T* output) {
  constexpr int n = Pack<T>::size;
  let_successor_start();
  wait_for_predecessor();
  const std::uint32_t step = gridDim.x * threads;
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < packs; i += step) {
    const std::uint32_t image = operands.by_image.quotient(i);
    const std::uint32_t channel = i - operands.by_channels.quotient(i) * operands.channel_packs;
    const std::uint32_t small = image * operands.channel_packs + channel;
    const auto fetch = [&](int which, float number, float(&to)[n]) {
      if (which < 0) {
#pragma unroll
        for (int j = 0; j < n; ++j) to[j] = number;
        return;
      }
      const auto pack = static_cast<const Pack<T>*>(operands.memory[which])[operands.by_channel[which] ? small : i];
#pragma unroll
      for (int j = 0; j < n; ++j) to[j] = to_f32(pack.values[j]);
    };
    float values[n];
    fetch(0, 0.0f, values);
    for (int s = 0; s < operands.steps; ++s) {
      float x[n], y[n];
      fetch(operands.step[s].operand, operands.step[s].a, x);
      fetch(operands.step[s].second, operands.step[s].b, y);
      apply_common(operands.step[s].function, values, x, y);
    }
    Pack<T> result;
#pragma unroll
    for (int j = 0; j < n; ++j) result.values[j] = from_f32<T>(values[j]);
    reinterpret_cast<Pack<T>*>(output)[i] = result;
  }
}

}  // namespace

bool by_channel(const PointwiseChain& chain, std::span<const detail::WalkAxis> axes, std::span<const Tensor> inputs,
                Tensor& output, Stream stream) {
  // Images, pixels, channels; or, of one image, the last two.
  const std::size_t rank = axes.size();
  if (rank < 2 || rank > 3 || inputs.size() > max_pointwise_operands || !packs_take(chain)) return false;
  const DType dtype = output.dtype();
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return false;
  const auto size = static_cast<std::int64_t>(16 / size_of(dtype));
  const std::int64_t channels = axes[rank - 1].extent, pixels = axes[rank - 2].extent, count = output.numel();
  if (channels % size != 0 || count / size >= std::int64_t{1} << 30 || !aligned_to_16(output.raw())) return false;
  Operands operands{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto stride = [&](std::size_t axis) { return axes[axis].strides[i + 1]; };
    bool whole = true;
    for (std::size_t axis = 0; axis < rank; ++axis) whole &= stride(axis) == axes[axis].strides[0];
    const bool small = stride(rank - 1) == 1 && stride(rank - 2) == 0 && (rank == 2 || stride(0) == channels);
    if ((!whole && !small) || inputs[i].dtype() != dtype || !aligned_to_16(inputs[i].raw())) return false;
    operands.memory[i] = inputs[i].raw();
    operands.by_channel[i] = small;
  }
  for (const PointwiseStep& step : chain) operands.step[operands.steps++] = step_as<float>(step);
  operands.channel_packs = static_cast<std::uint32_t>(channels / size);
  operands.by_channels = Divider(operands.channel_packs);
  operands.by_image = Divider(pixels * (channels / size));
  const auto packs = static_cast<std::uint32_t>(count / size);
  with_element_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch_kernel(by_channel_kernel<T>, {.grid = dim3(grid_for(packs, threads)), .block = dim3(threads)}, stream,
                  operands, packs, static_cast<T*>(output.raw()));
  });
  return true;
}

}  // namespace lamina::cuda
