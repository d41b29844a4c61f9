// Scale and shift: of rows of pixels or, channels last, of the channels of each pixel.

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/fold.h"
#include "lamina/cpu/codes.h"
#include "lamina/cpu/images.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {

using namespace tables;

std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& p) {
  const auto run = [scale = detail::constant(problem.scale), shift = detail::constant(problem.shift),
                    low = problem.epilogue.relu() ? 0 : -std::numeric_limits<float>::infinity(), from = p.input(),
                    to = p.output(), a = detail::activation_of(p.input().shape),
                    &kernel = best_kernel(fold_kernels(), p.device), &codes = best_kernel(codes_kernels(), p.device)](
                       Inputs inputs, Outputs outputs, const Execution& execution) {
    const bool planes = from.format.layout == Layout::nchw;
    const bool plain = from.format.dtype == DType::f32 && to.format.dtype == DType::f32;
    const std::int64_t length = planes ? a.pixels : a.channels, rows = a.size() / std::max<std::int64_t>(length, 1);
    const std::int64_t x_pitch = planes ? length : from.pixel_pitch(), y_pitch = planes ? length : to.pixel_pitch();
    // Elements of a task: long enough to hide the hand-out, short enough to balance. Rows and elements of a step.
    const std::int64_t each = std::max<std::int64_t>(16384 / std::max<std::int64_t>(length, 1), 1);
    const std::int64_t most = plain ? length : block<float>;
    const bool dense = x_pitch == length && y_pitch == length && length > 0;
    const std::int64_t together = planes || !(plain || dense) ? 1
                                  : plain                     ? each
                                                              : std::max<std::int64_t>(most / length, 1);
    execution.pool->parallel_for(detail::ceil_div(rows, each), [&](std::int64_t task, int) {
      alignas(64) float before[block<float>], after[block<float>];
      const std::int64_t end = std::min(rows, (task + 1) * each);
      for (std::int64_t row = task * each; row < end; row += together) {
        for (std::int64_t i = 0; i < length; i += most) {
          const std::int64_t count = std::min(most, length - i), channel = planes ? row % a.channels : i;
          const float *const by = floats(scale) + channel, *const plus = floats(shift) + channel;
          const auto* const x = static_cast<const std::byte*>(inputs[0].raw()) +
                                (row * x_pitch + i) * static_cast<std::int64_t>(size_of(from.format.dtype));
          auto* const y = static_cast<std::byte*>(outputs[0].raw()) +
                          (row * y_pitch + i) * static_cast<std::int64_t>(size_of(to.format.dtype));
          const std::int64_t some = std::min(together, end - row), all = some * count;
          if (from.quantization.defined()) codes.read(from.format.dtype, x, from.quantization, before, all);
          if (!from.quantization.defined() && !plain) load(from.format.dtype, x, before, all);
          const Scaling scaling =
              planes ? Scaling{.factor = *by, .shift = *plus, .low = low} : Scaling{.by = by, .plus = plus, .low = low};
          kernel.scaled(scaling, some, count, plain ? reinterpret_cast<const float*>(x) : before,
                        plain ? x_pitch : count, plain ? reinterpret_cast<float*>(y) : after, plain ? y_pitch : count);
          if (to.quantization.defined()) codes.write(to.format.dtype, after, to.quantization, y, all);
          if (!to.quantization.defined() && !plain) store(to.format.dtype, after, y, all);
        }
      }
    });
  };
  return make_operator(p.has_codes() ? "scale and shift of codes" : "scale and shift", run);
}

}  // namespace lamina::cpu
