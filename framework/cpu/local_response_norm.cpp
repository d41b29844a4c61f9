#include "lamina/cpu/local_response_norm.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/eigen.h"

namespace lamina::cpu {
namespace {

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

void local_response_norm(const LocalResponse& s, const float* input, float* output, ThreadPool& pool) {
  const std::int64_t strips = detail::ceil_div<std::int64_t>(s.pixels, strip);
  const std::int64_t image_size = s.channels * s.pixels;
  pool.parallel_for(s.images * strips, [=](std::int64_t task, int) {
    const std::int64_t image = task / strips;
    const std::int64_t first = task % strips * strip;
    normalize_strip(s, input + image * image_size, output + image * image_size, first,
                    std::min<std::int64_t>(strip, s.pixels - first));
  });
}

}  // namespace lamina::cpu
