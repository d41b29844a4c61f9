// Pooling windows of planes, written once and compiled for each instruction set by Highway. What a row of outputs
// covers of each column becomes one number first, whatever the stride: the windows along the row are then of these.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/pool2d/plane_windows.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>

#include "lamina/cpu/pool2d/planes.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

template <class D>
struct Sum {
  hn::Vec<D> total;

  HWY_INLINE Sum() : total(hn::Zero(D())) {}
  HWY_INLINE void add(hn::Vec<D> x) { total = hn::Add(total, x); }
  HWY_INLINE hn::Vec<D> result() const { return total; }
  HWY_INLINE bool any_nan() const { return false; }
};

/// Of numbers none of which is NaN.
template <class D>
struct LargestNumber {
  hn::Vec<D> total;

  HWY_INLINE LargestNumber() : total(hn::Neg(hn::Inf(D()))) {}
  HWY_INLINE void add(hn::Vec<D> x) { total = hn::Max(total, x); }
  HWY_INLINE hn::Vec<D> result() const { return total; }
};

/// NaN must win, whichever side it is on: Max does not promise that, and so it is looked for beside.
template <class D>
struct Largest : LargestNumber<D> {
  hn::Mask<D> nan;

  HWY_INLINE Largest() : nan(hn::IsNaN(this->total)) {}
  HWY_INLINE void add(hn::Vec<D> x) {
    LargestNumber<D>::add(x);
    nan = hn::Or(nan, hn::IsNaN(x));
  }
  HWY_INLINE hn::Vec<D> result() const { return hn::IfThenElse(nan, hn::NaN(D()), this->total); }
  HWY_INLINE bool any_nan() const { return !hn::AllFalse(D(), nan); }
};

/// What is covered of each column. Whether a NaN is among it.
template <template <class> class Fold>
bool columns(const PlaneWindows& w, float* to) {
  bool nan = false;
  for_vectors(w.end - w.begin, [&](auto d, std::int64_t i) HWY_ATTR {
    Fold<decltype(d)> fold;
    const float* x = w.first + i;
    for (std::int64_t r = 0; r < w.rows; ++r, x += w.row) fold.add(hn::LoadU(d, x));
    hn::StoreU(fold.result(), d, to + i);
    nan |= fold.any_nan();
  });
  return nan;
}

/// The windows along the row, a lane each, `stride` columns apart; 0: as many as are said.
template <template <class> class Fold, int stride>
void along_row(const PlaneWindows& w, const float* of_columns) {
  for_vectors(w.outputs, [&](auto d, std::int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> whole;
    const auto places = hn::Mul(hn::Iota(whole, 0), hn::Set(whole, w.stride));
    Fold<decltype(d)> fold;
    const float* x = of_columns + i * w.stride;
    for (int k = 0; k < w.kernel; ++k, x += w.dilation) {
      if constexpr (stride == 1) {
        fold.add(hn::LoadU(d, x));
      } else if constexpr (stride == 2) {
        hn::Vec<decltype(d)> even, odd;
        hn::LoadInterleaved2(d, x, even, odd);
        fold.add(even);
      } else {
        fold.add(hn::GatherIndex(d, x, places));
      }
    }
    hn::StoreU(fold.result(), d, w.output + i);
  });
}

template <template <class> class Fold>
void along_row(const PlaneWindows& w, const float* of_columns) {
  (w.stride == 1 ? along_row<Fold, 1> : w.stride == 2 ? along_row<Fold, 2> : along_row<Fold, 0>)(w, of_columns);
}

template <template <class> class Fold, template <class> class OfNumbers>
void fold(const PlaneWindows& w) {
  if (w.kernel == 1 && w.stride == 1 && w.end - w.begin == w.width) {
    columns<Fold>(w, w.output);
    return;
  }
  alignas(64) float of_columns[PlaneWindows::most_columns + 1];  // every second column is read by twos
  const float nothing = hn::GetLane(OfNumbers<hn::CappedTag<float, 1>>().result());
  std::fill(of_columns, of_columns + w.begin, nothing);
  std::fill(of_columns + w.end, of_columns + w.width + 1, nothing);
  const bool nan = columns<Fold>(w, of_columns + w.begin);
  (nan ? along_row<Fold> : along_row<OfNumbers>)(w, of_columns);
}

void largest(const PlaneWindows& w) { fold<Largest, LargestNumber>(w); }

void mean(const PlaneWindows& w) {
  fold<Sum, Sum>(w);
  each_once(w.outputs, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto cells = hn::Mul(hn::Set(d, w.row_cells), hn::LoadU(d, w.cells + i));
    hn::StoreU(hn::Div(hn::LoadU(d, w.output + i), cells), d, w.output + i);
  });
}

constexpr PlanePoolKernel kernel = {LAMINA_SIMD_SET, largest, mean};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const PlanePoolKernel> plane_pool_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
