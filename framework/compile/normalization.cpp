#include "lamina/compile/normalization.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cuda/normalize.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/activation.h"

namespace lamina::detail {
namespace {

constexpr std::int64_t pixels_per_task = 4096;

/// In tasks of a few thousand pixels of one image.
void normalize_on_cpu(const Activation& a, const LevelTable& table,
                      const std::uint8_t* rgb,  // [images, pixels, 3]
                      float* output,            // [images, 3, pixels]
                      ThreadPool& pool) {
  const std::int64_t tasks = ceil_div(a.pixels, pixels_per_task);
  pool.parallel_for(a.images * tasks, [&](std::int64_t index, int) {
    const std::int64_t image = index / tasks, first = index % tasks * pixels_per_task;
    const std::int64_t offset = image * a.pixels * 3;
    normalize_pixels(table, first, std::min(first + pixels_per_task, a.pixels), a.pixels, rgb + offset,
                     output + offset);
  });
}

std::unique_ptr<Operator> prepare_on_cpu(const std::string& description, const Activation& a, Format to,
                                         const LevelTable& table) {
  if (to != Format{}) fail(description, ": the CPU normalises to ", Format{}, " only");
  return make_operator(description, {.parameters = sizeof(LevelTable)},
                       [=](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                         normalize_on_cpu(a, table, static_cast<const std::uint8_t*>(inputs[0].raw()), floats(output),
                                          *execution.pool);
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
    case DeviceType::cpu: return prepare_on_cpu(description, a, preparation.output, table);
    case DeviceType::cuda: return prepare_on_gpu(description, a, preparation, table);
  }
  fail("normalisation: unknown device");
}

}  // namespace lamina::detail
