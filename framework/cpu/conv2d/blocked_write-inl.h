// From sums, which hold filters side by side, to the output, which holds pixels side by side: a finished tile is
// transposed in blocks of 4 pixels, with a quarter of the shuffles and stores that single values would take. Compiled
// once for each instruction set.

#if defined(LAMINA_CPU_CONV2D_BLOCKED_WRITE) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_CONV2D_BLOCKED_WRITE
#undef LAMINA_CPU_CONV2D_BLOCKED_WRITE
#else
#define LAMINA_CPU_CONV2D_BLOCKED_WRITE
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// Writes 4 pixels of as many filters as `d` has lanes: a 4 x 4 transposition in each 128 bits.
template <class D>
HWY_INLINE void write_pixels(D d, const float* sums, std::ptrdiff_t pitch, float* output, std::int64_t plane) {
  const hn::RepartitionToWide<D> pairs;
  const auto a = hn::Load(d, sums), b = hn::Load(d, sums + pitch);
  const auto c = hn::Load(d, sums + 2 * pitch), e = hn::Load(d, sums + 3 * pitch);
  const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab23 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce01 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             ce23 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  const decltype(a) filters[4] = {
      hn::BitCast(d, hn::InterleaveLower(pairs, ab01, ce01)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab01, ce01)),
      hn::BitCast(d, hn::InterleaveLower(pairs, ab23, ce23)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab23, ce23))};
#pragma GCC unroll 4
  for (int f = 0; f < 4; ++f) {
    if constexpr (hn::MaxLanes(D()) == 8) {
      const hn::Half<D> half;
      hn::StoreU(hn::LowerHalf(half, filters[f]), half, output + f * plane);
      hn::StoreU(hn::UpperHalf(half, filters[f]), half, output + (4 + f) * plane);
    } else {
      hn::StoreU(filters[f], d, output + f * plane);
    }
  }
}
#endif

/// Copies sums [pixels, pitch], 64-byte aligned, to output [filters, plane].
template <int pixels, int pitch>
void write_tile(const float* sums, float* output, std::int64_t plane, int filters) {
  int f = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (pixels >= 4) {
    // Of 256 bits at most: halves of those are stored without a shuffle.
    const hn::CappedTag<float, 8> d;
    constexpr int step = static_cast<int>(hn::MaxLanes(d));
    for (; f + step <= filters; f += step, sums += step, output += step * plane) {
#pragma GCC unroll 4
      for (int p = 0; p + 4 <= pixels; p += 4) write_pixels(d, sums + p * pitch, pitch, output + p, plane);
      // The last pixels, with some of those before once more.
      constexpr int last = pixels - 4;
      if constexpr (last % 4 != 0) write_pixels(d, sums + last * pitch, pitch, output + last, plane);
    }
  }
#endif
  for (; f < filters; ++f, ++sums, output += plane) {
#pragma GCC unroll 16
    for (int p = 0; p < pixels; ++p) output[p] = sums[p * pitch];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();
#endif
