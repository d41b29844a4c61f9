// Many floats become one: along a row, in four vectors at a time, or for neighbouring columns side by side.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/array/fold.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "lamina/cpu/array/fold.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

constexpr int halves = lanes / lanes_of(Wide());
constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr double identity_of(Fold fold) {
  return fold == Fold::largest ? -infinity : fold == Fold::least ? infinity : fold == Fold::product ? 1 : 0;
}

/// As many results as a vector has elements. NaN must win, whichever side it is on: Max does not promise that, and so
/// it is looked for beside.
template <Fold fold>
class Folded {
 public:
  static constexpr bool ordered = fold == Fold::largest || fold == Fold::least;

  HWY_INLINE Folded() {
    for (auto& half : wide_) half = hn::Set(Wide(), identity_of(fold));
  }
  HWY_INLINE explicit Folded(const double* value) {
    for (int h = 0; h < halves; ++h) wide_[h] = hn::LoadU(Wide(), value + h * lanes_of(Wide()));
  }

  HWY_INLINE void add(Vector x, Vector below) {
    if constexpr (ordered) nan_ = hn::Or(nan_, hn::IsNaN(x));
    if constexpr (fold == Fold::absolute) x = hn::Abs(x);
    if constexpr (fold == Fold::squares) x = hn::Sub(x, below);
    if constexpr (fold == Fold::powers) x = exp_below_89(Tag(), hn::Sub(x, below));
    each_half(x, [&](int half, auto v) HWY_ATTR {
      wide_[half] = fold == Fold::squares ? hn::MulAdd(v, v, wide_[half]) : joined(v, wide_[half]);
    });
  }
  HWY_INLINE void add(const Folded& other) {
    for (int h = 0; h < halves; ++h) wide_[h] = joined(wide_[h], other.wide_[h]);
    nan_ = hn::Or(nan_, other.nan_);
  }

  HWY_INLINE void store(double* value) {
    if constexpr (ordered) {
      each_half(hn::IfThenElseZero(nan_, hn::NaN(Tag())),
                [&](int h, auto v) HWY_ATTR { wide_[h] = hn::Add(wide_[h], v); });
    }
    for (int h = 0; h < halves; ++h) hn::StoreU(wide_[h], Wide(), value + h * lanes_of(Wide()));
  }
  HWY_INLINE double all() {
    for (int h = 1; h < halves; ++h) wide_[0] = joined(wide_[0], wide_[h]);
    if (fold != Fold::product) return hn::GetLane(hn::SumOfLanes(Wide(), wide_[0]));
    HWY_ALIGN double value[lanes];
    hn::Store(wide_[0], Wide(), value);
    return std::accumulate(value, value + lanes_of(Wide()), 1.0, std::multiplies<>());
  }

 private:
  static HWY_INLINE hn::Vec<Wide> joined(hn::Vec<Wide> a, hn::Vec<Wide> b) {
    if constexpr (ordered) return fold == Fold::largest ? vector_max(a, b) : vector_min(a, b);  // b, if that is NaN
    return fold == Fold::product ? hn::Mul(a, b) : hn::Add(a, b);
  }

  hn::Mask<Tag> nan_ = hn::IsNaN(hn::Zero(Tag()));
  hn::Vec<Wide> wide_[halves];
};

/// What an element is that changes nothing.
template <Fold fold>
HWY_INLINE Vector nothing(Vector below) {
  if constexpr (fold == Fold::squares) return below;
  return hn::Set(Tag(), static_cast<float>(fold == Fold::powers ? -infinity : identity_of(fold)));
}

/// Calls f(place, function that loads of a line what stands there, or something instead) for vectors that cover
/// [0, count), each element once.
template <class F>
HWY_INLINE void each_vector(std::int64_t count, const F& f) {
  const Tag d;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) f(i, [i, d](const float* x, Vector) HWY_ATTR { return hn::LoadU(d, x + i); });
  if (i == count) return;
  if (i > 0) {
    const auto known = hn::FirstN(d, static_cast<std::size_t>(i + lanes - count));
    return f(count - lanes, [=](const float* x, Vector instead)
                                HWY_ATTR { return hn::IfThenElse(known, instead, hn::LoadU(d, x + count - lanes)); });
  }
  f(0, [=](const float* x, Vector instead) HWY_ATTR {
    HWY_ALIGN float some[lanes];
    hn::Store(instead, d, some);
    std::copy_n(x, count, some);
    return hn::Load(d, some);
  });
}

template <Fold fold>
double row(const float* x, std::int64_t count, double value, float below) {
  const Vector b = hn::Set(Tag(), below);
  if constexpr (Folded<fold>::ordered) {  // of floats, which needs no doubles
    Vector most = nothing<fold>(b);
    auto nan = hn::IsNaN(most);
    each_vector(count, [&](std::int64_t, auto load) HWY_ATTR {
      const Vector v = load(x, nothing<fold>(b));
      most = fold == Fold::largest ? hn::Max(v, most) : hn::Min(v, most), nan = hn::Or(nan, hn::IsNaN(v));
    });
    if (value != value || !hn::AllFalse(Tag(), nan)) return std::numeric_limits<double>::quiet_NaN();
    if (fold == Fold::largest) return std::max<double>(value, hn::GetLane(hn::MaxOfLanes(Tag(), most)));
    return std::min<double>(value, hn::GetLane(hn::MinOfLanes(Tag(), most)));
  }
  Folded<fold> all[4];
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) all[k].add(hn::LoadU(Tag(), x + i + k * lanes), b);
  }
  each_vector(count - i, [&](std::int64_t, auto load) HWY_ATTR { all[0].add(load(x + i, nothing<fold>(b)), b); });
  all[0].add(all[1]), all[2].add(all[3]), all[0].add(all[2]);
  const double result = all[0].all();
  return fold == Fold::product ? value * result : value + result;
}

template <Fold fold>
void columns(std::span<const float* const> lines, std::int64_t count, double* value, const float* below) {
  each_vector(count, [&](std::int64_t j, auto load) HWY_ATTR {
    Folded<fold> all(value + j);
    const Vector b = hn::LoadU(Tag(), below + j);
    for (const float* line : lines) all.add(load(line, nothing<fold>(b)), b);
    all.store(value + j);
  });
}

void scaled(const Scaling& scaling, std::int64_t rows, std::int64_t count, const float* x, std::int64_t x_pitch,
            float* y, std::int64_t y_pitch) {
  const auto run = [&](auto less, auto terms) HWY_ATTR {  // a loop for each form
    const Scaling s = scaling;                            // which no store changes
    for (; rows > 0; --rows, x += x_pitch, y += y_pitch) {
      const auto at = [&](auto d, std::int64_t i) HWY_ATTR {
        auto v = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, s.scale));
        if constexpr (less) v = hn::Sub(hn::Sub(v, hn::LoadU(d, s.less + i)), hn::LoadU(d, s.rest_of + i));
        if constexpr (!less) v = hn::Sub(hn::Sub(v, hn::Set(d, s.mean)), hn::Set(d, s.rest));
        v = hn::MulAdd(v, hn::Set(d, s.factor), hn::Set(d, s.shift));
        if constexpr (terms == 1) v = hn::Mul(v, hn::LoadU(d, s.by + i));
        if constexpr (terms == 2) v = hn::MulAdd(v, hn::LoadU(d, s.by + i), hn::LoadU(d, s.plus + i));
        return vector_max(hn::Set(d, s.low), v);
      };
      if (count < lanes) {
        each_once(count, [&](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(at(d, i), d, y + i); });
        continue;
      }
      const auto last = at(Tag(), count - lanes);  // before it is written over
      for (std::int64_t i = 0; i + lanes < count; i += lanes) hn::StoreU(at(Tag(), i), Tag(), y + i);
      hn::StoreU(last, Tag(), y + count - lanes);
    }
  };
  const std::integral_constant<int, 2> both;
  if (scaling.less != nullptr) return run(std::true_type(), both);
  if (scaling.plus != nullptr) return run(std::false_type(), both);
  scaling.by == nullptr ? run(std::false_type(), std::integral_constant<int, 0>())
                        : run(std::false_type(), std::integral_constant<int, 1>());
}

#define LAMINA_ALL_FOLDS(f)                                                                                 \
  {                                                                                                         \
    f<Fold::sum>, f<Fold::absolute>, f<Fold::squares>, f<Fold::powers>, f<Fold::product>, f<Fold::largest>, \
        f<Fold::least>                                                                                      \
  }
constexpr FoldKernel kernel = {LAMINA_SIMD_SET, LAMINA_ALL_FOLDS(row), LAMINA_ALL_FOLDS(columns), scaled};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const FoldKernel> fold_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
