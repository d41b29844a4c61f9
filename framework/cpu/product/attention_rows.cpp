// The rows of attention, written once and compiled for each instruction set by Highway.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/product/attention_rows.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cpu/product/attention_rows.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

constexpr int step_size = 32, half = 16;
static_assert(half % lanes == 0, "halves of a step are whole vectors");
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// 2^x, or e^x if it is to be `exact`, for x <= 0, else as exact as a weight of bf16; NaN stays.
template <bool exact>
HWY_INLINE Vector weight_of(Vector x) {
  const Tag d;
  if constexpr (exact) return exp_below_89(d, x);
  const Vector low = hn::Set(d, -160.0f);  // 2 to that is 0
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return rough_exp2(d, hn::Max(low, x));  // x86's gives the second operand if either is NaN
#else
  return rough_exp2(d, hn::IfThenElse(hn::Lt(x, low), low, x));
#endif
}

HWY_INLINE void store_weights(Vector first, Vector second, float* to, int i) {
  hn::Store(first, Tag(), to + i);
  hn::Store(second, Tag(), to + half + i);
}
/// Rounded to nearest, of equals away from zero.
HWY_INLINE void store_weights(Vector first, Vector second, bfloat16* to, int i) {
  const hn::RebindToUnsigned<Tag> words;
  const auto rounded = [&](Vector v) HWY_ATTR { return hn::Add(hn::BitCast(words, v), hn::Set(words, 0x8000u)); };
  const auto upper = hn::And(rounded(second), hn::Set(words, 0xffff0000u));
  hn::Store(hn::Or(hn::ShiftRight<16>(rounded(first)), upper), words, reinterpret_cast<std::uint32_t*>(to) + i);
}

template <class T, bool exact>
float weigh_as(const float* scores, std::int64_t seen, std::int64_t count, float scale, T* weights, std::int64_t step,
               float& largest, float& sum) {
  const Tag d;
  const Vector factor = hn::Set(d, scale);
  const std::int64_t whole = seen / step_size * step_size;
  HWY_ALIGN float rest[step_size];
  std::fill_n(rest, step_size, lowest);
  for (std::int64_t i = whole; i < seen; ++i) rest[i - whole] = scores[i] * scale;
  Vector most[2] = {hn::Set(d, largest), hn::Set(d, largest)};
  for (std::int64_t i = 0; i < whole; i += step_size) {
#pragma GCC unroll 8
    for (int k = 0; k < step_size; k += 2 * lanes) {
      most[0] = hn::Max(most[0], hn::Mul(hn::LoadU(d, scores + i + k), factor));
      most[1] = hn::Max(most[1], hn::Mul(hn::LoadU(d, scores + i + k + lanes), factor));
    }
  }
  for (int k = 0; k < step_size; k += lanes) most[0] = hn::Max(most[0], hn::Load(d, rest + k));
  const float now = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most[0], most[1])));
  // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything. Powers are of 2; scores
  // that its logarithm would make infinite have nothing else beside them that weighs anything.
  constexpr float log2_e = 1.44269504f, max_finite = 1e38f;
  const float largest_here = now == lowest ? 0.0f : now;
  const float unit = exact || std::abs(largest_here) > max_finite ? 1.0f : log2_e;
  const Vector base = hn::Set(d, largest_here * unit);
  Vector totals[2] = {hn::Zero(d), hn::Zero(d)};
  // A product that is not rounded is off the largest, which was, by up to hundreds if that is large.
  const bool rounds = std::abs(largest_here) > 16384.0f;
  const auto weigh_step = [&](const float* from, float by, T* to) HWY_ATTR {
    const Vector plain = hn::Set(d, by), times = hn::Set(d, by * unit);
    const auto power = [&](const float* at) HWY_ATTR {
      if (!rounds) return hn::MulSub(hn::LoadU(d, at), times, base);
      return hn::Mul(hn::Sub(hn::Mul(hn::LoadU(d, at), plain), hn::Set(d, largest_here)), hn::Set(d, unit));
    };
#pragma GCC unroll 8
    for (int i = 0; i < half; i += lanes) {
      const Vector first = weight_of<exact>(power(from + i)), second = weight_of<exact>(power(from + half + i));
      totals[0] = hn::Add(totals[0], first), totals[1] = hn::Add(totals[1], second);
      store_weights(first, second, to, i);
    }
  };
  for (std::int64_t i = 0; i < whole; i += step_size, weights += step) {
    weigh_step(scores + i, scale, weights);
  }
  std::int64_t done = whole;
  if (done < seen) {
    weigh_step(rest, 1.0f, weights);
    weights += step, done += step_size;
  }
  for (; done < count; done += step_size, weights += step) std::fill_n(weights, step_size, T());
  // Before there was anything, sum and values are 0, or NaN, and stay so.
  const float scaled = largest == lowest || largest == now ? 1.0f : std::exp(largest - now);
  sum = sum * scaled + hn::GetLane(hn::SumOfLanes(d, hn::Add(totals[0], totals[1])));
  largest = now;
  return scaled;
}

float weigh(const float* scores, std::int64_t seen, std::int64_t count, float scale, void* weights, std::int64_t step,
            AttentionRows::Weights kind, float& largest, float& sum) {
  using enum AttentionRows::Weights;
  if (kind == bf16) {
    return weigh_as<bfloat16, false>(scores, seen, count, scale, static_cast<bfloat16*>(weights), step, largest, sum);
  }
  const auto wide = kind == f32 ? weigh_as<float, true> : weigh_as<float, false>;
  return wide(scores, seen, count, scale, static_cast<float*>(weights), step, largest, sum);
}

void add(float* values, float factor, const float* more, std::int64_t count) {
  each_once(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, values + i), hn::Set(d, factor), hn::LoadU(d, more + i)), d, values + i);
  });
}

template <class T>
void divide(const float* values, float divisor, std::int64_t count, T* out) {
  const float factor = 1.0f / divisor;
  each_once(count, [&](auto d, std::int64_t i)
                       HWY_ATTR { store_floats(d, hn::Mul(hn::LoadU(d, values + i), hn::Set(d, factor)), out + i); });
}

constexpr AttentionRows kernel = {LAMINA_SIMD_SET, weigh, add, divide<bfloat16>, divide<float>};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const AttentionRows> attention_rows_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
