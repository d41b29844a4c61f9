#include "lamina/layers/conversion.h"

#include <algorithm>

#include "lamina/cpu/thread_pool.h"
#include "lamina/cuda/convert.h"
#include "lamina/layers/make_operator.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/math.h"

namespace lamina::detail {
namespace {

/// Between nchw and blocked, a plane of 16 channels at a time.
void convert_on_cpu(const Activation& a, Layout from, Layout to, const float* input, float* output,
                    cpu::ThreadPool& pool) {
  const std::int64_t blocks = ceil_div<std::int64_t>(a.channels, channel_block);
  pool.parallel_for(a.images * blocks, [&](std::int64_t index, int) {
    const std::int64_t image = index / blocks, first = index % blocks * channel_block;
    const std::int64_t channels = std::min<std::int64_t>(channel_block, a.channels - first);
    const std::int64_t plane = (image * a.channels + first) * a.pixels;  // of nchw
    const std::int64_t block = index * channel_block * a.pixels;         // of blocked
    if (from == Layout::nchw && to == Layout::blocked) {
      for (std::int64_t p = 0; p < a.pixels; ++p) {
        for (std::int64_t c = 0; c < channel_block; ++c) {
          output[block + p * channel_block + c] = c < channels ? input[plane + c * a.pixels + p] : 0.0f;
        }
      }
    } else {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t p = 0; p < a.pixels; ++p) {
          output[plane + c * a.pixels + p] = input[block + p * channel_block + c];
        }
      }
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_conversion(const Preparation& preparation) {
  const Activation a = activation_of(preparation.inputs[0]);
  const Format from = preparation.input, to = preparation.output;
  const std::string description = concat("conversion from ", from, " to ", to);
  switch (preparation.device.type) {
    case DeviceType::cpu:
      return make_operator(
          description, [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
            convert_on_cpu(a, from.layout, to.layout, floats(inputs[0]), floats(output), *execution.pool);
          });
    case DeviceType::cuda:
      return make_operator(description,
                           [=, device = preparation.device.index](std::span<const Tensor> inputs, Tensor& output,
                                                                  const Execution& execution) {
                             cuda::convert(device, a, from, inputs[0].raw(), to, output.raw(), execution.stream);
                           });
  }
  fail("conversion: unknown device");
}

}  // namespace lamina::detail
