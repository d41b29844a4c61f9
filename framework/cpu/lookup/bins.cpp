// Means, or the largest, of pixels between pixels in the bins of boxes; a box is one thread's.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/cpu/lookup/lookup.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup/bin_side.h"

namespace lamina::cpu {
namespace {

using detail::larger;

/// Some samples of a bin: the places of four pixels, and how much of each.
struct Samples {
  static constexpr int most = 32;
  int count = 0;
  std::int64_t place[most][4];
  float weight[most][4];
};

void align(const Bins& how, std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) {
  const Tensor &x = inputs[0], &boxes = inputs[1], &images = inputs[2], &count = inputs[3];
  const bool max = how.max;
  const Shape &from = x.shape(), &to = output.shape();
  const std::int64_t channels = from[1], row = from[3], plane = from[2] * row, bins = to[2] * to[3];
  pool.parallel_for(to[0], [&](std::int64_t r, int) {
    float* const out = static_cast<float*>(output.raw()) + r * channels * bins;
    std::fill_n(out, channels * bins, 0.0F);
    if (r >= static_cast<const std::int64_t*>(count.raw())[0]) return;
    const std::int64_t image = static_cast<const std::int64_t*>(images.raw())[r];
    if (image < 0 || image >= from[0]) detail::fail("box ", r, " is of image ", image, " of ", from[0]);
    const float* const in = static_cast<const float*>(x.raw()) + image * channels * plane;
    const float* const box = static_cast<const float*>(boxes.raw()) + 4 * r;
    const detail::BinSide across(box[0], box[2], how, to[3], row), down(box[1], box[3], how, to[2], from[2]);
    const float all = std::max(across.grid * down.grid, 1.0F);
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      Samples some;
      bool begun = false;
      const auto add_up = [&] {
        for (std::int64_t c = 0; c < channels; ++c) {
          const float* const pixels = in + c * plane;
          float& result = out[c * bins + bin];
          for (int i = 0; i < some.count; ++i) {
            const auto part = [&](int corner) { return some.weight[i][corner] * pixels[some.place[i][corner]]; };
            if (max) {
              const float value = larger(larger(part(0), part(1)), larger(part(2), part(3)));
              result = begun || i > 0 ? larger(result, value) : value;
            } else {
              result += part(0) + part(1) + part(2) + part(3);
            }
          }
        }
        begun = true, some.count = 0;
      };
      float inside = 0;
      down.each(bin / to[3], [&](std::int64_t y0, std::int64_t y1, float dy) {
        inside += across.each(bin % to[3], [&](std::int64_t x0, std::int64_t x1, float dx) {
          const int i = some.count++;
          const std::int64_t places[] = {y0 * row + x0, y0 * row + x1, y1 * row + x0, y1 * row + x1};
          const float weights[] = {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx};
          std::copy_n(places, 4, some.place[i]), std::copy_n(weights, 4, some.weight[i]);
          if (some.count == Samples::most) add_up();
        });
      });
      if (some.count > 0) add_up();
      for (std::int64_t c = 0; c < channels; ++c) {
        float& result = out[c * bins + bin];
        result = !max ? result / all : inside < across.grid * down.grid ? larger(result, 0.0F) : result;
      }
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_bins(const GridSampleProblem& problem, const Preparation&) {
  return tables::make_operator("a box for each thread at a time",
                               [how = *problem.bins](auto inputs, auto outputs, const Execution& execution) {
                                 align(how, inputs, outputs[0], *execution.pool);
                               });
}

}  // namespace lamina::cpu
