// A thread owns 16 bytes of the output's channels, a block 256 of such. What is a number for each channel, of each
// image or of all, or for each pixel comes from cache. The chain is interpreted: every thread takes the same branches,
// and memory is what takes the time.
//
// Shared memory: none. Preconditions: fewer than 2^31 packs; the output may be an operand of its size.

#include "lamina/cuda/array/array.h"

#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

/// Where the elements of an operand are. Whole ones lie as the output does.
struct Operand {
  const void* memory;
  enum class Kind { whole, by_channel, by_pixel } kind;
  std::uint32_t image_step, pixel_step;  // in packs, by pixel in elements
};

struct Operands {
  int steps = 0;
  ChainStep<float> step[max_pointwise_steps];
  Operand operand[max_pointwise_operands];
  std::uint32_t channel_packs = 1, pixels = 1;  // of an image
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
    const std::uint32_t image = operands.by_image.quotient(i), all = operands.by_channels.quotient(i);
    const std::uint32_t channel = i - all * operands.channel_packs, pixel = all - image * operands.pixels;
    const auto fetch = [&](int which, float number, float(&to)[n]) {
      if (which >= 0 && operands.operand[which].kind != Operand::Kind::by_pixel) {
        const Operand& from = operands.operand[which];
        const bool whole = from.kind == Operand::Kind::whole;
        const std::uint32_t at = whole ? i : image * from.image_step + pixel * from.pixel_step + channel;
        const auto pack = static_cast<const Pack<T>*>(from.memory)[at];
#pragma unroll
        for (int j = 0; j < n; ++j) to[j] = to_f32(pack.values[j]);
        return;
      }
      if (which >= 0) {
        const Operand& from = operands.operand[which];
        number = to_f32(static_cast<const T*>(from.memory)[image * from.image_step + pixel * from.pixel_step]);
      }
#pragma unroll
      for (int j = 0; j < n; ++j) to[j] = number;
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
  if (!is_activation(dtype)) return false;
  const auto size = static_cast<std::int64_t>(16 / size_of(dtype));
  const std::int64_t channels = axes[rank - 1].extent, pixels = axes[rank - 2].extent, count = output.numel();
  if (channels % size != 0 || count / size >= std::int64_t{1} << 30 || !aligned_to_16(output.raw())) return false;
  Operands operands{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto stride = [&](std::size_t axis) { return axes[axis].strides[i + 1]; };
    bool whole = true;
    for (std::size_t axis = 0; axis < rank; ++axis) whole &= stride(axis) == axes[axis].strides[0];
    const std::int64_t across = stride(rank - 1), step = across == 0 ? 1 : size;
    const std::int64_t of_pixel = stride(rank - 2), of_image = rank == 3 ? stride(0) : of_pixel * pixels;
    const bool fits =
        (across == 0 || across == 1) && of_pixel % step == 0 && of_image % step == 0 && of_pixel >= 0 && of_image >= 0;
    if ((!whole && !fits) || inputs[i].dtype() != dtype || !aligned_to_16(inputs[i].raw())) return false;
    operands.operand[i] = {inputs[i].raw(),
                           whole         ? Operand::Kind::whole
                           : across == 0 ? Operand::Kind::by_pixel
                                         : Operand::Kind::by_channel,
                           static_cast<std::uint32_t>(of_image / step), static_cast<std::uint32_t>(of_pixel / step)};
  }
  for (const PointwiseStep& step : chain) operands.step[operands.steps++] = step_as<float>(step);
  operands.channel_packs = static_cast<std::uint32_t>(channels / size);
  operands.pixels = static_cast<std::uint32_t>(pixels);
  operands.by_channels = Divider(operands.channel_packs);
  operands.by_image = Divider(pixels * (channels / size));
  const auto packs = static_cast<std::uint32_t>(count / size);
  with_element_type(dtype, [&]<class T>(T*) {
    launch_kernel(by_channel_kernel<T>, threads_for(packs, threads), stream, operands, packs,
                  static_cast<T*>(output.raw()));
  });
  return true;
}

}  // namespace lamina::cuda
