// bf16 in vectors of f32: the upper halves. Compiled once for each instruction set.

#if defined(LAMINA_CPU_CONV2D_BF16_WORDS) == defined(HWY_TARGET_TOGGLE)
#ifdef LAMINA_CPU_CONV2D_BF16_WORDS
#undef LAMINA_CPU_CONV2D_BF16_WORDS
#else
#define LAMINA_CPU_CONV2D_BF16_WORDS
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu::bf16 {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

HWY_INLINE Vector load(const std::uint16_t* from) {
  const hn::RebindToUnsigned<Tag> words;
  const hn::Rebind<std::uint16_t, Tag> halves;
  return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from))));
}
HWY_INLINE Vector load(const float* from) { return hn::LoadU(Tag(), from); }

/// Rounds to nearest even; NaN stays NaN: as to_bfloat16().
HWY_INLINE void store(Vector value, std::uint16_t* to) {
  const Tag d;
  const hn::RebindToUnsigned<Tag> words;
  const hn::Rebind<std::uint16_t, Tag> halves;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40u));
  const auto nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto chosen = hn::BitCast(hn::RebindToSigned<Tag>(), hn::IfThenElse(nan, quiet, rounded));
  (void)d;
  hn::StoreU(hn::DemoteTo(halves, chosen), halves, to);
}
HWY_INLINE void store(Vector value, float* to) { hn::StoreU(value, Tag(), to); }

/// The first `count` elements, zeros behind them.
template <class T>
HWY_INLINE Vector load_some(const T* from, int count) {
  HWY_ALIGN T some[lanes] = {};
  std::memcpy(some, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(some);
}
template <class T>
HWY_INLINE void store_some(Vector value, T* to, int count) {
  HWY_ALIGN T some[lanes];
  store(value, some);
  std::memcpy(to, some, static_cast<std::size_t>(count) * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu::bf16
HWY_AFTER_NAMESPACE();
#endif
