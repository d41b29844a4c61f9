#include "lamina/cpu/images.h"

#include <algorithm>
#include <new>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/images/preprocess.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using namespace tables;

constexpr std::int64_t pixels_per_task = 4096;

void store(float value, float& to) { to = value; }
void store(float value, bfloat16& to) { to = to_bfloat16(value); }

/// Pixels of one image, whose elements are `pixel` and `channel` apart in the output.
template <class T>
void normalize_to(const detail::LevelTable& table, const std::uint8_t* rgb, std::int64_t count, std::int64_t pixel,
                  std::int64_t channel, T* output) {
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t c = 0; c < 3; ++c) {
      const auto from = static_cast<std::int64_t>(table.source[static_cast<std::size_t>(c)]);
      const float value = table.values[static_cast<std::size_t>(256 * c + rgb[3 * p + from])];
      store(value, output[p * pixel + c * channel]);
    }
  }
}

/// In tasks of a few thousand pixels of one image.
void normalize(const Activation& a, const detail::LevelTable& table, const std::uint8_t* rgb, Format to, void* output,
               ThreadPool& pool) {
  const std::int64_t tasks = detail::ceil_div(a.pixels, pixels_per_task);
  pool.parallel_for(a.images * tasks, [&](std::int64_t index, int) {
    const std::int64_t image = index / tasks, first = index % tasks * pixels_per_task;
    const std::int64_t offset = image * a.pixels * 3, last = std::min(first + pixels_per_task, a.pixels);
    const bool planes = to.layout == Layout::nchw;
    if (planes && to.dtype == DType::f32) {
      return detail::normalize_pixels(table, first, last, a.pixels, rgb + offset, static_cast<float*>(output) + offset);
    }
    const std::int64_t pixel = planes ? 1 : 3, channel = planes ? a.pixels : 1;
    const auto run = [&](auto* out) {
      normalize_to(table, rgb + offset + 3 * first, last - first, pixel, channel, out + offset + first * pixel);
    };
    to.dtype == DType::f32 ? run(static_cast<float*>(output)) : run(static_cast<bfloat16*>(output));
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_normalization(const NormalizationProblem& problem, const Preparation& p) {
  using Table = detail::LevelTable;
  Tensor kept({sizeof(Table)}, DType::u8);
  Table& table = *new (kept.raw()) Table();
  std::copy_n(floats(problem.table), table.values.size(), table.values.begin());
  table.source = problem.bgr ? std::array{2, 1, 0} : std::array{0, 1, 2};
  return make_operator(
      detail::concat("normalisation from ", p.input().format, " to ", p.output().format, problem.bgr ? ", bgr" : ""),
      [kept = detail::constant(kept), to = p.output().format, a = detail::activation_of(p.input().shape)](
          Inputs inputs, Outputs outputs, const Execution& execution) {
        normalize(a, *static_cast<const Table*>(kept.raw()), static_cast<const std::uint8_t*>(inputs[0].raw()), to,
                  outputs[0].raw(), *execution.pool);
      });
}

}  // namespace lamina::cpu
