// Norms of rows, written once and compiled for each instruction set by Highway. In floats, and as exact as in doubles
// to a few units: the mean is found twice, the second time from differences to the first, which have no leading digits
// in common; and it is these differences that are scaled.
//
// Source: Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance", 1983 (the corrected two-pass
// algorithm).

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/array/norm_rows.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "lamina/base/math.h"
#include "lamina/cpu/array/norm_rows.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

/// body(d, i, sum index) for all elements, each once: whole vectors, in turns for several sums, and then one by one.
template <class Body>
HWY_INLINE void in_turns(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) body(Tag(), i + k * lanes, k);
  }
  for (; i + lanes <= count; i += lanes) body(Tag(), i, 0);
  for (; i < count; ++i) body(hn::CappedTag<float, 1>(), i, 0);
}

/// Four sums of vectors, and one of single elements.
struct Sums {
  Vector whole[4];
  float rest = 0;

  Sums() {
    for (Vector& v : whole) v = hn::Zero(Tag());
  }
  HWY_INLINE void add(Tag, Vector x, int k) { whole[k] = hn::Add(whole[k], x); }
  template <class D>
  HWY_INLINE void add(D d, hn::Vec<D> x, int) {
    float one[1];
    hn::StoreU(x, d, one);
    rest += one[0];
  }
  HWY_INLINE float total() const {
    const Vector sum = hn::Add(hn::Add(whole[0], whole[1]), hn::Add(whole[2], whole[3]));
    return hn::GetLane(hn::SumOfLanes(Tag(), sum)) + rest;
  }
};

/// What a row is normalised with: y = (scale x - mean - rest) factor.
struct Moments {
  float scale = 1, mean = 0, rest = 0, factor = 0;
  float squares = 0;  // the sum of those of scale x - mean
};

template <class T>
HWY_INLINE Moments moments(const NormRowsKernel::Rows& r, const T* in, float scale) {
  Moments m = {.scale = scale};
  const auto count = static_cast<float>(r.length);
  const auto load = [&](auto d, std::int64_t i) { return hn::Mul(load_floats(d, in + i), hn::Set(d, scale)); };
  if (r.centred) {
    Sums sums;
    in_turns(r.length, [&](auto d, std::int64_t i, int k) { sums.add(d, load(d, i), k); });
    m.mean = sums.total() / count;
  }
  Sums differences, squares;
  in_turns(r.length, [&](auto d, std::int64_t i, int k) {
    const auto x = hn::Sub(load(d, i), hn::Set(d, m.mean));
    differences.add(d, x, k);
    squares.add(d, hn::Mul(x, x), k);
  });
  if (r.centred) m.rest = differences.total() / count;
  m.squares = squares.total();
  m.factor = 1.0f / std::sqrt(m.squares / count - m.rest * m.rest + r.eps * scale * scale);
  return m;
}

template <class T>
void norm(const NormRowsKernel::Rows& r) {
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const T* in = static_cast<const T*>(r.input) + row * r.length;
    T* out = static_cast<T*>(r.output) + row * r.length;
    // Squares of what is beyond 1e19 overflow, of what is below 1e-19 vanish: beside an eps that would not hide them.
    constexpr float far = 0x1p70f;
    Moments m = moments(r, in, 1);
    if (!std::isfinite(m.squares)) m = moments(r, in, 1 / far);
    if (m.squares < 1e-20f && r.eps < 1e-20f) m = moments(r, in, far);
    // Stretches of one channel each, or of one element of each channel after the other.
    for (std::int64_t first = 0, run = 0; first < r.length; first += run) {
      const std::int64_t element = (r.first + row) * r.length + first, channel = element / r.inner % r.channels;
      run = std::min(r.length - first, r.inner > 1 ? r.inner - element % r.inner : r.channels - channel);
      const auto finish = [&](auto planes) {
        const auto of_channel = [&](auto d, const float* numbers, std::int64_t i) {
          return planes ? hn::Set(d, numbers[channel]) : hn::LoadU(d, numbers + channel + i);
        };
        in_turns(run, [&](auto d, std::int64_t i, int) {
          const auto x = hn::Mul(load_floats(d, in + first + i), hn::Set(d, m.scale));
          auto y = hn::Mul(hn::Sub(hn::Sub(x, hn::Set(d, m.mean)), hn::Set(d, m.rest)), hn::Set(d, m.factor));
          if (r.scale != nullptr) y = hn::Mul(y, of_channel(d, r.scale, i));
          if (r.shift != nullptr) y = hn::Add(y, of_channel(d, r.shift, i));
          store_floats(d, y, out + first + i);
        });
      };
      r.inner > 1 ? finish(std::true_type()) : finish(std::false_type());
    }
  }
}

constexpr NormRowsKernel kernel = {LAMINA_SIMD_SET, norm<float>, norm<bfloat16>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const NormRowsKernel> norm_rows_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

void norm_rows(const NormRowsKernel& kernel, const NormProblem& problem, const Tensor& input, Tensor& output,
               ThreadPool& pool) {
  // Elements of a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t chunk = 8192;
  if (output.numel() == 0) return;
  const std::int64_t length = problem.length, rows = input.numel() / length;
  const std::int64_t step = std::max<std::int64_t>(chunk / length, 1);
  const auto values = [](const Tensor& tensor) {
    return tensor.defined() ? static_cast<const float*>(tensor.raw()) : nullptr;
  };
  pool.parallel_for(detail::ceil_div(rows, step), [&](std::int64_t task, int) {
    const std::int64_t first = task * step;
    const auto offset = static_cast<std::size_t>(first * length) * size_of(input.dtype());
    const NormRowsKernel::Rows some = {.input = static_cast<const std::byte*>(input.raw()) + offset,
                                       .scale = values(problem.scale),
                                       .shift = values(problem.shift),
                                       .output = static_cast<std::byte*>(output.raw()) + offset,
                                       .first = first,
                                       .rows = std::min(step, rows - first),
                                       .length = length,
                                       .inner = problem.inner,
                                       .channels = problem.channels,
                                       .eps = static_cast<float>(problem.eps),
                                       .centred = problem.centred};
    input.dtype() == DType::bf16 ? kernel.bf16(some) : kernel.f32(some);
  });
}

}  // namespace lamina::cpu
#endif
