#include "lamina/layers/normalization.h"

#include <algorithm>

#include "lamina/cpu/thread_pool.h"
#include "lamina/cuda/normalize.h"
#include "lamina/layers/make_operator.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/math.h"

namespace lamina::detail {
namespace {

constexpr std::int64_t pixels_per_task = 4096;

/// Pixels [first, last) of one image. In nchw channels lie a plane apart, in blocked side by side with zeros behind.
void normalize_on_cpu(const LevelTable& table, const std::uint8_t* rgb, std::int64_t first, std::int64_t last,
                      std::int64_t channel_stride, std::int64_t pixel_stride, float* output) {
  for (std::size_t c = 0; c < 3; ++c) {
    const std::uint8_t* level = rgb + table.source[c];
    const float* values = table.values.data() + c * LevelTable::levels;
    float* to = output + static_cast<std::int64_t>(c) * channel_stride;
    for (std::int64_t p = first; p < last; ++p) to[p * pixel_stride] = values[level[p * 3]];
  }
  for (std::int64_t p = first; p < last && pixel_stride > 1; ++p) {
    std::fill(output + p * pixel_stride + 3, output + (p + 1) * pixel_stride, 0.0f);
  }
}

std::unique_ptr<Operator> prepare_on_cpu(const std::string& description, const Activation& a, Layout layout,
                                         const LevelTable& table) {
  const bool planes = layout == Layout::nchw;
  const std::int64_t channel_stride = planes ? a.pixels : 1, pixel_stride = planes ? 1 : channel_block;
  const std::int64_t image_size = a.pixels * (planes ? 3 : channel_block);
  const std::int64_t tasks = ceil_div(a.pixels, pixels_per_task);
  return make_operator(description, {.parameters = sizeof(LevelTable)},
                       [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                         const auto* rgb = static_cast<const std::uint8_t*>(inputs[0].raw());
                         float* to = floats(output);
                         execution.pool->parallel_for(a.images * tasks, [&](std::int64_t index, int) {
                           const std::int64_t image = index / tasks, first = index % tasks * pixels_per_task;
                           normalize_on_cpu(table, rgb + image * a.pixels * 3, first,
                                            std::min(first + pixels_per_task, a.pixels), channel_stride, pixel_stride,
                                            to + image * image_size);
                         });
                       });
}

std::unique_ptr<Operator> prepare_on_gpu(const std::string& description, const Activation& a,
                                         const Preparation& preparation, const LevelTable& table) {
  const Device device = preparation.device;
  const Tensor values = Tensor::from(std::span<const float>(table.values), {3, LevelTable::levels}).to(device);
  return make_operator(description, {.parameters = values.bytes()},
                       [=, bgr = table.source[0] == 2, format = preparation.output](
                           std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                         cuda::normalize(device.index, a, inputs[0].raw(), floats(values), bgr, format, output.raw(),
                                         execution.stream);
                       });
}

}  // namespace

std::unique_ptr<Operator> prepare_normalization(const Preparation& preparation, const Preprocess& settings) {
  const Activation a = activation_of(preparation.inputs[0]);
  const LevelTable table = level_table(settings);
  const std::string description = concat("normalisation from ", preparation.input, " to ", preparation.output,
                                         settings.order == ChannelOrder::bgr ? ", bgr" : "");
  switch (preparation.device.type) {
    case DeviceType::cpu: return prepare_on_cpu(description, a, preparation.output.layout, table);
    case DeviceType::cuda: return prepare_on_gpu(description, a, preparation, table);
  }
  fail("normalisation: unknown device");
}

}  // namespace lamina::detail
