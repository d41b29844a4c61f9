// A few columns of [extent, inner] at a time, side by side, so that vectors are of neighbours in memory; where there is
// but one, inner = 1, along the extent. A NaN in a column makes it NaN.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/softmax.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cpu/array/fold.h"
#include "lamina/cpu/softmax.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

constexpr std::int64_t width = 128;
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// Whole vectors, and the one that ends where the row does: of that, what the one before had counts once.
void row(SoftmaxKind kind, const float* x, float* y, std::int64_t extent) {
  const Tag d;
  if (extent < lanes) {
    HWY_ALIGN float few[lanes];
    std::fill_n(std::copy_n(x, extent, few), lanes - extent, lowest);
    row(kind, few, few, lanes);
    std::copy_n(few, extent, y);
    return;
  }
  const std::int64_t whole = extent / lanes * lanes, end = extent - lanes;
  const auto last = hn::LoadU(d, x + end);
  auto most = last;
  for (std::int64_t i = 0; i < whole; i += lanes) most = hn::Max(hn::LoadU(d, x + i), most);  // maybe without NaN
  const auto largest = hn::MaxOfLanes(d, most);
  hn::Vec<Wide> sums[] = {hn::Zero(Wide()), hn::Zero(Wide())};
  const auto add = [&](auto e) HWY_ATTR {
    each_half(e, [&](int half, auto numbers) HWY_ATTR { sums[half] = hn::Add(sums[half], numbers); });
    return e;
  };
  const auto power = [&](auto v) HWY_ATTR { return exp_below_89(d, hn::Sub(v, largest)); };
  const auto last_power = power(last);
  add(hn::IfThenZeroElse(hn::FirstN(d, static_cast<std::size_t>(whole - end)), last_power));
  const auto sum = [&]() HWY_ATTR { return hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(sums[0], sums[1]))); };
  if (kind == SoftmaxKind::softmax) {
    for (std::int64_t i = 0; i < whole; i += lanes) hn::StoreU(add(power(hn::LoadU(d, x + i))), d, y + i);
    const auto factor = hn::Set(d, static_cast<float>(1 / sum()));
    for (std::int64_t i = 0; i < whole; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), factor), d, y + i);
    hn::StoreU(hn::Mul(last_power, factor), d, y + end);
    return;
  }
  for (std::int64_t i = 0; i < whole; i += lanes) add(power(hn::LoadU(d, x + i)));
  const auto log = hn::Set(d, static_cast<float>(std::log(sum())));
  const auto below = [&](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, largest), log); };
  for (std::int64_t i = 0; i < whole; i += lanes) hn::StoreU(below(hn::LoadU(d, x + i)), d, y + i);
  hn::StoreU(below(last), d, y + end);
}

void columns(SoftmaxKind kind, const float* x, float* y, std::int64_t extent, std::int64_t pitch, std::int64_t count) {
  float largest[width + FoldKernel::slack] = {}, end[width];
  double value[width + FoldKernel::slack];
  static const FoldKernel& folds = *std::ranges::find(fold_kernels(), LAMINA_SIMD_SET, &FoldKernel::set);
  const auto fold = [&](Fold of) {
    std::ranges::fill(value, of == Fold::largest ? static_cast<double>(lowest) : 0);
    for (std::int64_t first = 0; first < extent; first += 8) {
      const float* lines[8];
      const auto some = static_cast<std::size_t>(std::min<std::int64_t>(8, extent - first));
      for (std::size_t k = 0; k < some; ++k) lines[k] = x + (first + static_cast<std::int64_t>(k)) * pitch;
      folds.columns[static_cast<int>(of)]({lines, some}, count, value, largest);
    }
  };
  fold(Fold::largest);
  std::copy_n(value, count, largest);
  fold(Fold::powers);
  const bool log = kind == SoftmaxKind::log_softmax;
  for (std::int64_t j = 0; j < count; ++j) end[j] = static_cast<float>(log ? std::log(value[j]) : 1 / value[j]);
  for (std::int64_t i = 0; i < extent * pitch; i += pitch) {
    for_vectors(count, [&](auto d, std::int64_t j) HWY_ATTR {
      const auto below = hn::Sub(hn::LoadU(d, x + i + j), hn::LoadU(d, largest + j)), e = hn::LoadU(d, end + j);
      hn::StoreU(log ? hn::Sub(below, e) : hn::Mul(exp_below_89(d, below), e), d, y + i + j);
    });
  }
}

void run(SoftmaxKind kind, const float* x, float* y, std::int64_t extent, std::int64_t pitch, std::int64_t count) {
  if (pitch != 1) return columns(kind, x, y, extent, pitch, count);
  for (std::int64_t i = 0; i < count * extent; i += extent) row(kind, x + i, y + i, extent);
}

constexpr SoftmaxKernel kernel = {LAMINA_SIMD_SET, run};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const SoftmaxKernel> softmax_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

void softmax(const SoftmaxKernel& kernel, SoftmaxKind kind, const float* input, float* output, std::int64_t outer,
             std::int64_t extent, std::int64_t inner, ThreadPool& pool) {
  // Elements of a task, or columns of one.
  const std::int64_t step = inner == 1 ? std::max<std::int64_t>(8192 / std::max<std::int64_t>(extent, 1), 1) : 128;
  const std::int64_t rows = inner == 1 ? 1 : outer, columns = inner == 1 ? outer : inner;
  const std::int64_t pieces = detail::ceil_div(columns, step);
  pool.parallel_for(extent == 0 ? 0 : rows * pieces, [=](std::int64_t task, int) {
    const std::int64_t column = task % pieces * step;
    const std::int64_t first = task / pieces * extent * inner + (inner == 1 ? column * extent : column);
    kernel.run(kind, input + first, output + first, extent, inner, std::min(step, columns - column));
  });
}

}  // namespace lamina::cpu
#endif
