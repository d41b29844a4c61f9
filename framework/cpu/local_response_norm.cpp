#include "lamina/cpu/images.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/eigen.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu {
namespace {

using namespace tables;

constexpr int strip = 256;  // pixels: what one task keeps in L1 for a window of channels

using Strip = Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, strip, 1>;
using Pixels = Eigen::Map<const Eigen::ArrayXf>;

/// Pixels [first, first + count) of all channels of one image.
void normalize_strip(const LocalResponse& s, const float* image, float* out, std::int64_t first, std::int64_t count) {
  const float share = s.alpha / static_cast<float>(s.size);
  for (int c = 0; c < s.channels; ++c) {
    const int begin = std::max(0, c - s.size / 2);
    const auto end = static_cast<int>(std::min<std::int64_t>(s.channels, std::int64_t{c} + (s.size - 1) / 2 + 1));
    Strip divisor = Strip::Zero(count);
    for (int other = begin; other < end; ++other) divisor += Pixels(image + other * s.pixels + first, count).square();
    divisor = divisor * share + s.k;
    // Square roots for AlexNet's exponent: a general power costs several times as much. Eigen's of infinity is NaN.
    if (s.beta == 0.75f && divisor.allFinite()) {
      divisor = divisor.sqrt() * divisor.sqrt().sqrt();
    } else {
      divisor = divisor.pow(s.beta);
    }
    Eigen::Map<Eigen::ArrayXf>(out + c * s.pixels + first, count) =
        Pixels(image + c * s.pixels + first, count) / divisor;
  }
}

}  // namespace

std::unique_ptr<Operator> prepare_local_response(const LocalResponseProblem& problem, const Preparation&) {
  return make_operator(
      "strips of pixels", [s = problem.settings](Inputs inputs, Outputs outputs, const Execution& execution) {
        const std::int64_t strips = detail::ceil_div<std::int64_t>(s.pixels, strip), image_size = s.channels * s.pixels;
        execution.pool->parallel_for(s.images * strips, [&](std::int64_t task, int) {
          const std::int64_t image = task / strips * image_size, first = task % strips * strip;
          normalize_strip(s, floats(inputs[0]) + image, floats(outputs[0]) + image, first,
                          std::min<std::int64_t>(strip, s.pixels - first));
        });
      });
}

}  // namespace lamina::cpu
