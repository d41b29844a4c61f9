// Scale and shift, written once and compiled for each instruction set by Highway.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/affine.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/affine.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

template <class T>
void affine(const AffineKernel::Rows& r) {
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const T* in = static_cast<const T*>(r.input) + row * r.input_pitch;
    T* out = static_cast<T*>(r.output) + row * r.output_pitch;
    const auto at = [&](auto d, std::int64_t i) {
      const auto scale = r.one_for_row ? hn::Set(d, r.scale[row]) : hn::LoadU(d, r.scale + i);
      const auto shift = r.one_for_row ? hn::Set(d, r.shift[row]) : hn::LoadU(d, r.shift + i);
      auto y = hn::MulAdd(load_floats(d, in + i), scale, shift);
      if (r.relu) y = hn::IfThenElse(hn::Lt(y, hn::Zero(d)), hn::Zero(d), y);
      store_floats(d, y, out + i);
    };
    each_once(r.length, at);  // the output may be the input
  }
}

constexpr AffineKernel kernel = {LAMINA_SIMD_SET, affine<float>, affine<bfloat16>};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const AffineKernel> affine_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

void scale_and_shift(const AffineKernel& kernel, Format format, const Activation& a, PixelPitches pitches,
                     const void* input, const float* scale, const float* shift, void* output, bool relu,
                     ThreadPool& pool) {
  // Elements of a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t chunk = 16384;
  const auto run = format.dtype == DType::bf16 ? kernel.bf16 : kernel.f32;
  const auto size = static_cast<std::int64_t>(size_of(format.dtype));
  const bool planes = format.layout == Layout::nchw;
  const std::int64_t length = planes ? a.pixels : a.channels, rows = a.size() / std::max<std::int64_t>(length, 1);
  const std::int64_t from = pitches.input == 0 ? length : pitches.input;
  const std::int64_t to = pitches.output == 0 ? length : pitches.output;
  const std::int64_t step = std::max<std::int64_t>(chunk / std::max<std::int64_t>(length, 1), 1);
  pool.parallel_for(detail::ceil_div(rows, step), [=](std::int64_t task, int) {
    const std::int64_t last = std::min(rows, (task + 1) * step);
    for (std::int64_t row = task * step; row < last;) {
      // Rows of planes up to the last channel.
      const std::int64_t channel = planes ? row % a.channels : 0;
      const std::int64_t count = planes ? std::min(last - row, a.channels - channel) : last - row;
      run({.input = static_cast<const std::byte*>(input) + row * from * size,
           .scale = scale + channel,
           .shift = shift + channel,
           .output = static_cast<std::byte*>(output) + row * to * size,
           .rows = count,
           .length = length,
           .input_pitch = from,
           .output_pitch = to,
           .one_for_row = planes,
           .relu = relu});
      row += count;
    }
  });
}

}  // namespace lamina::cpu
#endif
