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

/// Pixels [first, last) of one image, into planes that lie `plane` elements apart.
void normalize_on_cpu(const LevelTable& table, const std::uint8_t* rgb, std::int64_t first, std::int64_t last,
                      std::int64_t plane, float* output) {
  for (std::size_t c = 0; c < 3; ++c) {
    const std::uint8_t* level = rgb + table.source[c];
    const float* values = table.values.data() + c * LevelTable::levels;
    float* to = output + static_cast<std::int64_t>(c) * plane;
    for (std::int64_t p = first; p < last; ++p) to[p] = values[level[p * 3]];
  }
}

std::unique_ptr<Operator> prepare_on_cpu(const std::string& description, const Activation& a, const LevelTable& table) {
  const std::int64_t tasks = ceil_div(a.pixels, pixels_per_task);
  return make_operator(description, {.parameters = sizeof(LevelTable)},
                       [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                         const auto* rgb = static_cast<const std::uint8_t*>(inputs[0].raw());
                         float* to = floats(output);
                         execution.pool->parallel_for(a.images * tasks, [&](std::int64_t index, int) {
                           const std::int64_t image = index / tasks, first = index % tasks * pixels_per_task;
                           normalize_on_cpu(table, rgb + image * a.pixels * 3, first,
                                            std::min(first + pixels_per_task, a.pixels), a.pixels,
                                            to + image * a.pixels * 3);
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
    case DeviceType::cpu: return prepare_on_cpu(description, a, table);
    case DeviceType::cuda: return prepare_on_gpu(description, a, preparation, table);
  }
  fail("normalisation: unknown device");
}

}  // namespace lamina::detail
