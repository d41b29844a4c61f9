// The exponentials of attention, written once and compiled for each instruction set by Highway.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/product/online_softmax.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>

#include "lamina/cpu/product/attention.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));
static_assert(OnlineSoftmax::block % lanes == 0, "blocks are whole vectors");

void weigh(float* scores, float& largest, float& sum, float* values, std::int64_t width) {
  const Tag d;
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  Vector most = hn::Set(d, largest);
  for (int i = 0; i < OnlineSoftmax::block; i += lanes) most = hn::Max(most, hn::Load(d, scores + i));
  const float now = hn::GetLane(hn::MaxOfLanes(d, most));
  // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything.
  const Vector base = hn::Set(d, now == lowest ? 0.0f : now);
  Vector total = hn::Zero(d);
  for (int i = 0; i < OnlineSoftmax::block; i += lanes) {
    const Vector x = hn::Sub(hn::Load(d, scores + i), base);
    const Vector e = hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
    hn::Store(e, d, scores + i);
    total = hn::Add(total, e);
  }
  const float added = hn::GetLane(hn::SumOfLanes(d, total));
  // Before there was anything, sum and values are 0, or NaN, and stay so.
  const float scale = largest == lowest || largest == now ? 1.0f : std::exp(largest - now);
  sum = sum * scale + added;
  largest = now;
  if (scale == 1.0f) return;
  const Vector factor = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, values + i), factor), d, values + i);
  for (; i < width; ++i) values[i] *= scale;
}

constexpr OnlineSoftmax kernel = {LAMINA_SIMD_SET, weigh};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const OnlineSoftmax> online_softmax_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
