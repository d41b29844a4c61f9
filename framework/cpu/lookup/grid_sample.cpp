#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <bit>
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

/// Pixels of an item of work, whose corners are found once for all channels.
constexpr std::int64_t strip = 256;

void pad(float* x, std::int64_t count, std::int64_t size, const GridSampleProblem& problem) {
  if (problem.padding == GridPadding::reflection) {
    for (std::int64_t i = 0; i < count; ++i) {
      x[i] = problem.align_corners ? reflected(x[i], 0, 2 * (size - 1)) : reflected(x[i], -1, 2 * size - 1);
    }
  }
  const auto last = static_cast<float>(size - 1);
  for (std::int64_t i = 0; i < count && problem.padding != GridPadding::zeros; ++i) {
    const float positive = x[i] > 0 ? x[i] : 0;  // NaN too becomes 0
    x[i] = positive < last ? positive : last;
  }
  for (std::int64_t i = 0; i < count; ++i) x[i] = std::fabs(x[i]) < 0x1p30f ? x[i] : -100.0f;
}

/// The pixels along one dimension that the positions of a strip are made of.
struct Taps {
  int count;
  std::int32_t place[4][strip];  // -1: outside
  float weight[4][strip];
};

/// What one of the input's pixels gives to each output pixel of a strip.
struct Corner {
  std::int64_t place[strip];  // -1: outside, which counts as 0 whatever its weight
  float weight[strip];
};

struct Strip {
  Taps taps[3];  // x, the last dimension, first
  Corner corners[16];
};

/// Keys' cubic, a = -0.75.
float near(float x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; }
float far(float x) { return ((-0.75f * x - 5 * -0.75f) * x + 8 * -0.75f) * x - 4 * -0.75f; }

/// `grid`: the number of the first pixel; the next one's is `dims` further.
void find_taps(const GridSampleProblem& problem, const float* grid, int dims, std::int64_t size, std::int64_t count,
               Taps& taps) {
  const bool cubic = problem.mode == GridMode::cubic, nearest = problem.mode == GridMode::nearest;
  float x[strip], at[strip];
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = position_of(grid[i * dims], size, problem.align_corners);
    if (cubic) x[i] = std::fabs(x[i]) < 0x1p30f ? x[i] : -100.0f;
    if (nearest) x[i] = std::nearbyint(x[i]);  // rounded first: ties go before they are mirrored
  }
  if (!cubic) pad(x, count, size, problem);
  taps.count = cubic ? 4 : nearest ? 1 : 2;
  for (int tap = 0; tap < taps.count; ++tap) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float low = std::floor(x[i]), t = x[i] - low;
      at[i] = low + static_cast<float>(cubic ? tap - 1 : tap);
      const float away = std::fabs(t - static_cast<float>(tap - 1));
      const float keys = tap == 1 || tap == 2 ? near(away) : far(away), linear = tap == 0 ? low + 1 - x[i] : t;
      taps.weight[tap][i] = cubic ? keys : nearest ? 1 : linear;
    }
    if (cubic) pad(at, count, size, problem);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<std::int32_t>(at[i]);
      taps.place[tap][i] = place >= 0 && place < size ? place : -1;
    }
  }
}

/// Makes corners of the taps of all dimensions; of x next to each other.
void put_corners(Strip& s, std::int64_t row, std::int64_t plane, std::int64_t count) {
  Corner* corner = s.corners;
  const auto& [x, y, z] = s.taps;
  for (int tz = 0; tz < z.count; ++tz) {
    for (int ty = 0; ty < y.count; ++ty) {
      for (int tx = 0; tx < x.count; ++tx, ++corner) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t px = x.place[tx][i], py = y.place[ty][i], pz = z.place[tz][i];
          const bool inside = (px | py | pz) >= 0;
          corner->place[i] = inside ? px + py * row + pz * plane : -1;
          corner->weight[i] = inside ? z.weight[tz][i] * y.weight[ty][i] * x.weight[tx][i] : 0;
        }
      }
    }
  }
}

/// Some channels of a strip: of each pixel the sum over `rows` of the sums of `columns` corners. Where the first pixel
/// is a finite number, it stands for what is outside.
template <int rows, int columns, int channels, bool finite>
void sum_corners(const Corner* corners, const float* input, std::int64_t in_step, float* output, std::int64_t out_step,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    float sums[channels] = {};
    for (int row = 0; row < rows; ++row) {
      float parts[channels] = {};
      for (int column = 0; column < columns; ++column) {
        const Corner& corner = corners[row * columns + column];
        const std::int64_t place = std::max<std::int64_t>(corner.place[i], 0);
        for (int c = 0; c < channels; ++c) {
          const bool counts = finite || corner.place[i] >= 0;
          parts[c] += corner.weight[i] * (counts ? input[c * in_step + place] : 0);
        }
      }
      for (int c = 0; c < channels; ++c) sums[c] += parts[c];
    }
    for (int c = 0; c < channels; ++c) output[c * out_step + i] = sums[c];
  }
}

template <int rows, int columns>
void sum_channels(const Corner* corners, std::int64_t channels, const float* input, std::int64_t in_step, float* output,
                  std::int64_t out_step, std::int64_t count) {
  const auto finite = [&](std::int64_t c) { return std::isfinite(input[c * in_step]); };
  for (std::int64_t c = 0; c < channels;) {  // four share what is read of the corners
    const bool four = channels - c >= 4 && finite(c) && finite(c + 1) && finite(c + 2) && finite(c + 3);
    const auto sum = four        ? sum_corners<rows, columns, 4, true>
                     : finite(c) ? sum_corners<rows, columns, 1, true>
                                 : sum_corners<rows, columns, 1, false>;
    sum(corners, input + c * in_step, in_step, output + c * out_step, out_step, count);
    c += four ? 4 : 1;
  }
}

}  // namespace

std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  const auto threads = static_cast<std::size_t>(p.threads);
  return make_operator("strips", {.workspace = threads * sizeof(Strip)},
                       [=](Inputs inputs, Outputs outputs, const Execution& execution) {
                         const Shape &in = inputs[0].shape(), &out = outputs[0].shape();
                         const float *const input = floats(inputs[0]), *const grid = floats(inputs[1]);
                         float* const output = floats(outputs[0]);
                         const int dims = static_cast<int>(in.rank()) - 2;
                         const std::int64_t channels = in[1], plane = in[-1] * in[-2],
                                            in_pixels = plane * (dims == 3 ? in[2] : 1);
                         const std::int64_t out_pixels = out[-1] * out[-2] * (dims == 3 ? out[2] : 1);
                         if (in_pixels == 0) return static_cast<void>(std::fill_n(output, outputs[0].numel(), 0.0f));
                         const auto sum = problem.mode == GridMode::nearest ? sum_channels<1, 1>
                                          : problem.mode == GridMode::cubic ? sum_channels<4, 4>
                                          : dims == 2                       ? sum_channels<2, 2>
                                                                            : sum_channels<4, 2>;
                         const std::int64_t pieces = detail::ceil_div(out_pixels, strip);
                         execution.pool->parallel_for(in[0] * pieces, [&](std::int64_t item, int worker) {
                           Strip& s = static_cast<Strip*>(execution.workspace)[worker];
                           const std::int64_t n = item / pieces, first = item % pieces * strip,
                                              count = std::min(strip, out_pixels - first);
                           const float* const at = grid + (n * out_pixels + first) * dims;
                           for (int d = 0; d < dims; ++d)
                             find_taps(problem, at + d, dims, in[-1 - d], count, s.taps[d]);
                           if (dims == 2) {
                             s.taps[2].count = 1;
                             std::fill_n(s.taps[2].place[0], count, 0);
                             std::fill_n(s.taps[2].weight[0], count, 1.0f);
                           }
                           put_corners(s, in[-1], plane, count);
                           sum(s.corners, channels, input + n * channels * in_pixels, in_pixels,
                               output + n * channels * out_pixels + first, out_pixels, count);
                         });
                       });
}

}  // namespace lamina::cpu
