// Pooling windows of images stored channels last, written once and compiled for each instruction set by Highway: lanes
// are channels, so that windows of any size, stride and dilation are the same loop.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/pool2d/channel_windows.cpp"
#include "lamina/cpu/simd_targets.h"

#include <limits>

#include "lamina/cpu/pool2d/channels.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

/// Of n neighbouring vectors of channels: many short chains of operations, and whole cache lines.
template <class T, int n, class D>
HWY_INLINE void largest_at(D d, const PixelWindow& w, std::int64_t channel) {
  // NaN must win, whichever side it is on: Max does not promise that, and so it is looked for beside. One comparison
  // that chose in its place would have every element wait for the one before it.
  hn::Vec<D> total[n];
  hn::Mask<D> nan[n];
  for (int i = 0; i < n; ++i) {
    total[i] = hn::Neg(hn::Inf(d));
    nan[i] = hn::IsNaN(total[i]);
  }
  const T* row = static_cast<const T*>(w.first) + channel;
  for (std::int64_t r = 0; r < w.rows; ++r, row += w.row) {
    const T* pixel = row;
    for (std::int64_t c = 0; c < w.columns; ++c, pixel += w.column) {
      for (int i = 0; i < n; ++i) {
        const auto x = load_floats(d, pixel + i * lanes_of(d));
        total[i] = hn::Max(total[i], x);
        nan[i] = hn::Or(nan[i], hn::IsNaN(x));
      }
    }
  }
  for (int i = 0; i < n; ++i) {
    const auto y = hn::IfThenElse(nan[i], hn::NaN(d), total[i]);
    store_floats(d, y, static_cast<T*>(w.output) + channel + i * lanes_of(d));
  }
}

/// The same of bf16 without widening it: as whole numbers its bits are in order once those behind the sign of a
/// negative number are turned round, and a NaN is larger than infinity whatever its sign.
template <int n, class D>
HWY_INLINE void largest_bits_at(D d, const PixelWindow& w, std::int64_t channel) {
  const auto size = hn::Set(d, std::int16_t{0x7fff}), infinity = hn::Set(d, std::int16_t{0x7f80});
  const auto turned = [&](auto bits) HWY_ATTR { return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), size)); };
  hn::Vec<D> total[n], sizes[n];
  for (int i = 0; i < n; ++i) {
    total[i] = turned(hn::Set(d, static_cast<std::int16_t>(0xff80)));  // -infinity
    sizes[i] = hn::Zero(d);
  }
  const auto* row = static_cast<const std::int16_t*>(w.first) + channel;
  for (std::int64_t r = 0; r < w.rows; ++r, row += w.row) {
    const std::int16_t* pixel = row;
    for (std::int64_t c = 0; c < w.columns; ++c, pixel += w.column) {
      for (int i = 0; i < n; ++i) {
        const auto x = hn::LoadU(d, pixel + i * lanes_of(d));
        total[i] = hn::Max(total[i], turned(x));
        sizes[i] = hn::Max(sizes[i], hn::And(x, size));
      }
    }
  }
  for (int i = 0; i < n; ++i) {
    const auto nan = hn::Gt(sizes[i], infinity);
    hn::StoreU(hn::IfThenElse(nan, sizes[i], turned(total[i])), d,
               static_cast<std::int16_t*>(w.output) + channel + i * lanes_of(d));
  }
}

template <class T, int n, class D>
HWY_INLINE void mean_at(D d, const PixelWindow& w, std::int64_t channel) {
  hn::Vec<D> total[n];
  for (auto& v : total) v = hn::Zero(d);
  const T* row = static_cast<const T*>(w.first) + channel;
  for (std::int64_t r = 0; r < w.rows; ++r, row += w.row) {
    hn::Vec<D> sum[n];
    for (auto& v : sum) v = hn::Zero(d);
    const T* pixel = row;
    for (std::int64_t c = 0; c < w.columns; ++c, pixel += w.column) {
      for (int i = 0; i < n; ++i) sum[i] = hn::Add(sum[i], load_floats(d, pixel + i * lanes_of(d)));
    }
    for (int i = 0; i < n; ++i) total[i] = hn::Add(total[i], sum[i]);
  }
  const auto divisor = hn::Set(d, w.divisor);
  for (int i = 0; i < n; ++i) {
    store_floats(d, hn::Div(total[i], divisor), static_cast<T*>(w.output) + channel + i * lanes_of(d));
  }
}

/// Of u8 and i8: the largest, or the sums as f32.
template <class T>
void largest_code(const PixelWindow& w) {
  const hn::ScalableTag<T> full;
  const hn::CappedTag<T, 1> one;
  const auto at = [&](auto d, std::int64_t channel) HWY_ATTR {
    auto total = hn::Set(d, std::numeric_limits<T>::lowest());
    const T* row = static_cast<const T*>(w.first) + channel;
    for (std::int64_t r = 0; r < w.rows; ++r, row += w.row) {
      for (std::int64_t c = 0; c < w.columns; ++c) total = hn::Max(total, hn::LoadU(d, row + c * w.column));
    }
    hn::StoreU(total, d, static_cast<T*>(w.output) + channel);
  };
  std::int64_t channel = 0;
  for (; channel + lanes_of(full) <= w.channels; channel += lanes_of(full)) at(full, channel);
  if (channel < w.channels && w.channels >= lanes_of(full)) return at(full, w.channels - lanes_of(full));
  for (; channel < w.channels; ++channel) at(one, channel);
}

template <class T>
void sum_of_codes(const PixelWindow& w) {
  for_vectors(w.channels, [&](auto d, std::int64_t channel) HWY_ATTR {
    const hn::Rebind<T, decltype(d)> narrow;
    const hn::RebindToSigned<decltype(d)> wide;
    auto total = hn::Zero(wide);
    const T* row = static_cast<const T*>(w.first) + channel;
    for (std::int64_t r = 0; r < w.rows; ++r, row += w.row) {
      for (std::int64_t c = 0; c < w.columns; ++c) {
        total = hn::Add(total, hn::PromoteTo(wide, hn::LoadU(narrow, row + c * w.column)));
      }
    }
    hn::StoreU(hn::ConvertTo(d, total), d, static_cast<float*>(w.output) + channel);
  });
}

template <class T, bool mean>
void window(const PixelWindow& w) {
  const auto at = [&](auto d, auto n, std::int64_t channel) {
    if constexpr (mean) {
      mean_at<T, decltype(n)::value>(d, w, channel);
    } else if constexpr (sizeof(T) == 2) {
      constexpr int count = decltype(n)::value, width = count * lanes_of(d);
      const hn::ScalableTag<std::int16_t> whole;
      const hn::Rebind<std::int16_t, decltype(d)> part;
      if constexpr (count > 1) {
        largest_bits_at<width / lanes_of(whole)>(whole, w, channel);
      } else {
        largest_bits_at<1>(part, w, channel);
      }
    } else {
      largest_at<T, decltype(n)::value>(d, w, channel);
    }
  };
  const hn::ScalableTag<float> full;
  constexpr int four = 4 * lanes_of(full);
  std::int64_t channel = 0;
  for (; channel + four <= w.channels; channel += four) at(full, std::integral_constant<int, 4>(), channel);
  for_vectors(w.channels - channel,
              [&](auto d, std::int64_t i) { at(d, std::integral_constant<int, 1>(), channel + i); });
}

constexpr ChannelPoolKernel kernel = {LAMINA_SIMD_SET,
                                      {window<float, false>, window<float, true>},
                                      {window<bfloat16, false>, window<bfloat16, true>},
                                      {largest_code<std::uint8_t>, sum_of_codes<std::uint8_t>},
                                      {largest_code<std::int8_t>, sum_of_codes<std::int8_t>}};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const ChannelPoolKernel> channel_pool_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
