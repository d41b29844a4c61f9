#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lamina/base/math.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu {
namespace {

using namespace tables;

/// A grid's number as a position among `size` pixels; what no pixel is near becomes -100, a safe way outside.
float position_of(float x, std::int64_t size, bool align_corners) {
  const auto pixels = static_cast<float>(size);
  return align_corners ? (x + 1) / 2 * (pixels - 1) : ((x + 1) * pixels - 1) / 2;
}

/// Back and forth between low and high, both times two.
float reflected(float x, std::int64_t twice_low, std::int64_t twice_high) {
  if (twice_low == twice_high) return 0;
  const float low = static_cast<float>(twice_low) / 2, span = static_cast<float>(twice_high - twice_low) / 2;
  x = std::fabs(x - low);
  const float extra = std::fmod(x, span);
  return std::fmod(std::floor(x / span), 2.0f) == 0 ? extra + low : span - extra + low;
}

float padded(float x, std::int64_t size, const GridSampleProblem& problem) {
  if (problem.padding == GridPadding::reflection) {
    x = problem.align_corners ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1);
  }
  // fmax gives 0 for NaN
  if (problem.padding != GridPadding::zeros) x = std::fmin(static_cast<float>(size - 1), std::fmax(x, 0.0f));
  return std::fabs(x) < 0x1p30f ? x : -100.0f;
}

/// The pixels along one dimension that a position is made of.
struct Taps {
  static constexpr int most = 4;
  int count = 0;
  std::array<std::int64_t, most> place{};  // -1: outside
  std::array<float, most> weight{};

  void add(float x, std::int64_t size, float w) {
    const auto at = static_cast<std::size_t>(count++);
    const auto i = static_cast<std::int64_t>(x);
    place[at] = i >= 0 && i < size ? i : -1;
    weight[at] = w;
  }
};

/// Keys' cubic, a = -0.75.
float near(float x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; }
float far(float x) { return ((-0.75f * x - 5 * -0.75f) * x + 8 * -0.75f) * x - 4 * -0.75f; }

Taps taps_of(const GridSampleProblem& problem, float coordinate, std::int64_t size) {
  Taps taps;
  float x = position_of(coordinate, size, problem.align_corners);
  if (problem.mode == GridMode::cubic) {
    if (!(std::fabs(x) < 0x1p30f)) x = -100;
    const float low = std::floor(x), t = x - low;
    const float weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int i = 0; i < 4; ++i) taps.add(padded(low + static_cast<float>(i - 1), size, problem), size, weights[i]);
    return taps;
  }
  if (problem.mode == GridMode::nearest) {
    taps.add(padded(std::nearbyint(x), size, problem), size, 1);  // rounded first: ties go before they are mirrored
  } else {
    x = padded(x, size, problem);
    const float low = std::floor(x);
    taps.add(low, size, low + 1 - x);
    taps.add(low + 1, size, x - low);
  }
  return taps;
}

/// The sum of what lies inside of the image: what is outside counts as 0, whatever its weight.
template <int dims>
float sum_of(const std::array<Taps, 3>& taps, const float* channel, const std::array<std::int64_t, 3>& steps) {
  const auto along = [&](const auto& self, int d, const float* from, float weight) -> float {
    const Taps& t = taps[static_cast<std::size_t>(d)];
    float sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.count); ++i) {
      if (t.place[i] < 0) continue;
      const float* const at = from + t.place[i] * steps[static_cast<std::size_t>(d)];
      sum += d == 0 ? weight * t.weight[i] * *at : self(self, d - 1, at, weight * t.weight[i]);
    }
    return sum;
  };
  return along(along, dims - 1, channel, 1.0f);
}

}  // namespace

std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation&) {
  return make_operator("pixel by pixel", [problem](Inputs inputs, Outputs outputs, const Execution& execution) {
    const Shape &in = inputs[0].shape(), &out = outputs[0].shape();
    const float *const input = floats(inputs[0]), *const grid = floats(inputs[1]);
    float* const output = floats(outputs[0]);
    const int dims = static_cast<int>(in.rank()) - 2;
    const std::int64_t channels = in[1];
    std::array<std::int64_t, 3> sizes{1, 1, 1}, steps{};
    std::int64_t in_pixels = 1, out_pixels = 1;
    for (int d = 0; d < dims; ++d) {  // x, the last dimension, first
      const auto at = static_cast<std::size_t>(d);
      sizes[at] = in[-1 - d], steps[at] = in_pixels;
      in_pixels *= in[-1 - d], out_pixels *= out[-1 - d];
    }
    constexpr std::int64_t strip = 64;  // pixels of an item of work
    const std::int64_t pieces = detail::ceil_div(out_pixels, strip);
    execution.pool->parallel_for(in[0] * pieces, [&](std::int64_t item, int) {
      const std::int64_t n = item / pieces, first = item % pieces * strip, last = std::min(out_pixels, first + strip);
      for (std::int64_t pixel = first; pixel < last; ++pixel) {
        const float* const at = grid + (n * out_pixels + pixel) * dims;
        std::array<Taps, 3> taps;
        for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) taps[d] = taps_of(problem, at[d], sizes[d]);
        for (std::int64_t c = 0; c < channels; ++c) {
          const float* const channel = input + (n * channels + c) * in_pixels;
          output[(n * channels + c) * out_pixels + pixel] =
              dims == 2 ? sum_of<2>(taps, channel, steps) : sum_of<3>(taps, channel, steps);
        }
      }
    });
  });
}

}  // namespace lamina::cpu
