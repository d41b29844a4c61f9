// Rows of pooling windows, written once and compiled for each instruction set by Highway. Vectors get shorter with the
// row, down to one lane, and the last one of a row overlaps the one before it: nothing is read or written beyond a row.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/pool2d/rows.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/pool2d/rows.h"
#include "lamina/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

struct Largest {
  template <class D>
  static auto neutral(D d) {
    return hn::Neg(hn::Inf(d));
  }
  // NaN must win whichever side it is on, and comparisons with it are false.
  template <class V>
  static V combine(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
  }
};

struct Sum {
  template <class D>
  static auto neutral(D d) {
    return hn::Zero(d);
  }
  template <class V>
  static V combine(V a, V b) {
    return hn::Add(a, b);
  }
};

/// out[i] = the combination of row[i * stride + k * dilation] over k, for a stride of 1 or 2.
template <class Op, int stride, class D>
HWY_INLINE void combine_columns_at(D d, const PoolGeometry& g, const float* row, float* out) {
  auto total = Op::neutral(d);
  for (int k = 0; k < g.kernel_width; ++k, row += g.dilation_width) {
    if constexpr (stride == 1) {
      total = Op::combine(total, hn::LoadU(d, row));
    } else if constexpr (lanes_of(d) == 1) {
      total = Op::combine(total, hn::LoadU(d, row));
    } else {
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, row, even, odd);
      total = Op::combine(total, even);
      // A window's next column is at hand already.
      if (g.dilation_width == 1 && k + 1 < g.kernel_width) {
        total = Op::combine(total, odd);
        ++k, ++row;
      }
    }
  }
  hn::StoreU(total, d, out);
}

template <class Op>
HWY_INLINE void combine_rows(const PoolGeometry& g, const float* plane, int oh, float* row) {
  const std::int64_t top = std::int64_t{oh} * g.stride_height - g.padding_height;
  const std::int64_t dilation = g.dilation_height;
  const std::int64_t first = top >= 0 ? 0 : detail::ceil_div(-top, dilation);
  const std::int64_t inside_end = top >= g.in_height ? 0 : detail::ceil_div(g.in_height - top, dilation);
  const std::int64_t last = std::min<std::int64_t>(inside_end, g.kernel_height);
  float* const inside = row + g.padding_width;
  for_vectors(g.in_width, [&](auto d, std::int64_t i) {
    auto total = Op::neutral(d);
    for (std::int64_t k = first; k < last; ++k) {
      total = Op::combine(total, hn::LoadU(d, plane + (top + k * dilation) * g.in_width + i));
    }
    hn::StoreU(total, d, inside + i);
  });
}

template <class Op>
HWY_INLINE void combine_columns(const PoolGeometry& g, const float* row, float* out) {
  switch (g.stride_width) {
    case 1:
      for_vectors(g.out_width, [&](auto d, std::int64_t i) { combine_columns_at<Op, 1>(d, g, row + i, out + i); });
      break;
    case 2:
      for_vectors(g.out_width, [&](auto d, std::int64_t i) { combine_columns_at<Op, 2>(d, g, row + 2 * i, out + i); });
      break;
    default:
      for (int i = 0; i < g.out_width; ++i) {
        combine_columns_at<Op, 1>(hn::CappedTag<float, 1>(), g, row + std::int64_t{i} * g.stride_width, out + i);
      }
  }
}

/// Rows are written some time before their columns are read: a load right after the two stores that it touches would
/// wait until they have left for the cache.
template <class Op>
void windows(const PoolGeometry& g, const float* plane, float* rows, float* out) {
  const std::int64_t length = pool2d_row_length(g);
  const auto row = [&](int oh) { return rows + oh % pool2d_rows * length; };
  constexpr int ahead = pool2d_rows - 1;
  for (int oh = 0; oh < g.out_height + ahead; ++oh) {
    if (oh < g.out_height) combine_rows<Op>(g, plane, oh, row(oh));
    if (oh >= ahead) combine_columns<Op>(g, row(oh - ahead), out + std::int64_t{oh - ahead} * g.out_width);
  }
}

constexpr PoolKernel kernel = {LAMINA_SIMD_SET, windows<Largest>, windows<Sum>};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const PoolKernel> pool_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
