#include "lamina/cpu/conv2d/unfold.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

/// A stretch of output pixels in one output row: columns [begin, end) of row `row`, at tile position `at`.
struct Run {
  int row, begin, end;
  std::int64_t at;
};

/// Copies source[i * stride] for i in [0, count).
template <int fixed_stride>
void gather(const float* source, int stride, int count, float* destination) {
  const int step = fixed_stride > 0 ? fixed_stride : stride;
  for (int i = 0; i < count; ++i) destination[i] = source[static_cast<std::ptrdiff_t>(i) * step];
}

void gather_strided(const float* source, int stride, int count, float* destination) {
  // A stride known to the compiler turns the loop into vector permutes; these are the ones networks use.
  switch (stride) {
    case 1: std::memcpy(destination, source, static_cast<std::size_t>(count) * sizeof(float)); break;
    case 2: gather<2>(source, stride, count, destination); break;
    case 4: gather<4>(source, stride, count, destination); break;
    default: gather<0>(source, stride, count, destination);
  }
}

/// One weight's row of the columns, for one run of pixels.
void unfold_run(const ConvGeometry& g, const float* channel, int kh, int kw, const Run& run, float* out) {
  const int ih = run.row * g.stride_height - g.padding_height + kh * g.dilation_height;
  float* const first = out + run.at;
  float* const last = first + (run.end - run.begin);
  if (ih < 0 || ih >= g.in_height) {
    std::fill(first, last, 0.0f);
    return;
  }
  // iw = ow * stride + shift lies inside the image exactly for ow in [low, high).
  const int shift = kw * g.dilation_width - g.padding_width;
  const int low = shift >= 0 ? 0 : detail::ceil_div(-shift, g.stride_width);
  const int high = shift >= g.in_width ? 0 : detail::ceil_div(g.in_width - shift, g.stride_width);
  const int begin = std::clamp(low, run.begin, run.end);
  const int end = std::clamp(high, begin, run.end);
  float* const inside = first + (begin - run.begin);
  std::fill(first, inside, 0.0f);
  const std::int64_t start = std::int64_t{ih} * g.in_width + std::int64_t{begin} * g.stride_width + shift;
  if (end > begin) gather_strided(channel + start, g.stride_width, end - begin, inside);
  std::fill(inside + (end - begin), last, 0.0f);
}

}  // namespace

void unfold(const ConvGeometry& g, const float* image, std::int64_t first, int count, float* columns,
            std::int64_t pitch) {
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t pixel = first + at;
    Run run{};
    run.row = static_cast<int>(pixel / g.out_width);
    run.begin = static_cast<int>(pixel % g.out_width);
    run.end = static_cast<int>(std::min<std::int64_t>(g.out_width, run.begin + (count - at)));
    run.at = at;
    float* row = columns;
    for (int c = 0; c < g.group_in_channels(); ++c) {
      const float* channel = image + c * g.in_pixels();
      for (int kh = 0; kh < g.kernel_height; ++kh) {
        for (int kw = 0; kw < g.kernel_width; ++kw, row += pitch) unfold_run(g, channel, kh, kw, run, row);
      }
    }
    at += run.end - run.begin;
  }
}

}  // namespace lamina::cpu
