#include "lamina/cpu/elementwise.h"

#include <algorithm>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;

// Not std::max: it would turn NaN into 0 or keep it depending on the order of its arguments.
inline float positive_part(float x) { return x < 0.0f ? 0.0f : x; }

}  // namespace

void scale_and_shift(const float* input, const float* scale, const float* shift, float* output, std::int64_t images,
                     std::int64_t channels, std::int64_t pixels, bool relu, ThreadPool& pool) {
  pool.parallel_for(images * channels, [=](std::int64_t plane, int) {
    const float factor = scale[plane % channels];
    const float offset = shift[plane % channels];
    const float* in = input + plane * pixels;
    float* out = output + plane * pixels;
    for (std::int64_t i = 0; i < pixels; ++i) out[i] = in[i] * factor + offset;
    if (!relu) return;
    for (std::int64_t i = 0; i < pixels; ++i) out[i] = positive_part(out[i]);
  });
}

void copy_rows(const std::byte* input, std::byte* output, std::int64_t rows, std::int64_t width, std::int64_t pitch,
               ThreadPool& pool) {
  const std::int64_t pieces = detail::ceil_div(width, chunk);
  pool.parallel_for(rows * pieces, [=](std::int64_t task, int) {
    const std::int64_t first = task % pieces * chunk;
    const std::int64_t row = task / pieces;
    std::copy_n(input + row * width + first, std::min(chunk, width - first), output + row * pitch + first);
  });
}

}  // namespace lamina::cpu
