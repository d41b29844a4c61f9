#pragma once

// What one output of a pooling is: its window's cells, and what they come to. pool2d.cu has the kernels.

#include <cmath>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"
#include "lamina/kernel/problems.h"

namespace lamina::cuda::pooling {

/// The cells of one output's window: [begin, end) in steps, clipped to the image; and what a sum is divided by.
struct Span {
  int begin, end, step;
  float cells;
};

template <PoolKind kind>
__device__ Span span_of(int index, int in, int out, int kernel, int stride, int padding, int dilation,
                        bool count_padding) {
  if constexpr (kind == PoolKind::adaptive) {
    const auto begin = static_cast<int>(std::int64_t{index} * in / out);
    const auto end = static_cast<int>((std::int64_t{index + 1} * in + out - 1) / out);
    return {begin, end, 1, static_cast<float>(end - begin)};
  }
  const std::int64_t first = std::int64_t{index} * stride - padding;
  if constexpr (kind == PoolKind::largest) {
    const std::int64_t skipped = first < 0 ? (-first + dilation - 1) / dilation : 0;
    const std::int64_t last = min(first + std::int64_t{kernel - 1} * dilation + 1, std::int64_t{in});
    return {static_cast<int>(first + skipped * dilation), static_cast<int>(last), dilation, 1};
  }
  const std::int64_t last = min(first + kernel, std::int64_t{in} + padding);
  const std::int64_t begin = max(first, std::int64_t{0}), end = min(last, std::int64_t{in});
  return {static_cast<int>(begin), static_cast<int>(end), 1,
          static_cast<float>(count_padding ? last - first : end - begin)};
}

// The largest, NaN if one is NaN.
__device__ inline float larger(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return ptx::max_nan(a, b);
#else
  return a >= b || a != a ? a : b;
#endif
}
__device__ inline __half larger(__half a, __half b) { return __hmax_nan(a, b); }
__device__ inline __nv_bfloat16 larger(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmax_nan(a, b); }
__device__ inline __half2 larger(__half2 a, __half2 b) { return __hmax2_nan(a, b); }
__device__ inline __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmax2_nan(a, b); }

/// What two neighbouring 16-bit elements are handled as; f32 goes alone.
template <class T>
struct Pair {
  using type = T;
};
template <>
struct Pair<__half> {
  using type = __half2;
};
template <>
struct Pair<__nv_bfloat16> {
  using type = __nv_bfloat162;
};

/// What N neighbouring elements of some cells have come to.
template <PoolKind kind, int N, class T>
struct Pooled {
  float sum[N] = {};

  __device__ void add(const Pack<T, N>& cell) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += to_f32(cell.values[i]);
  }
  __device__ void add(const Pooled& row) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += row.sum[i];
  }
  /// Where all cells lie on the padding there is nothing to divide. One division, and a quotient's remainder brings
  /// each product with the reciprocal to what a division gives (Markstein, "Computation of elementary functions on the
  /// IBM RISC System/6000 processor", 1990); that of an infinite sum has none.
  __device__ Pack<T, N> result(float cells) const {
    Pack<T, N> mean;
    const float reciprocal = cells > 0 ? 1.0f / cells : 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float near = sum[i] * reciprocal, exact = fmaf(fmaf(-near, cells, sum[i]), reciprocal, near);
      mean.values[i] = from_f32<T>(isnan(exact) ? near : exact);
    }
    return mean;
  }
};

template <int N, class T>
struct Pooled<PoolKind::largest, N, T> {
  Pack<T, N> best;

  __device__ Pooled() {
#pragma unroll
    for (T& x : best.values) x = from_f32<T>(-INFINITY);
  }
  __device__ void add(const Pack<T, N>& cell) {
    using Unit = std::conditional_t<N % 2 == 0, typename Pair<T>::type, T>;
    auto* units = reinterpret_cast<Unit*>(best.values);
    const auto* others = reinterpret_cast<const Unit*>(cell.values);
#pragma unroll
    for (int i = 0; i < N * static_cast<int>(sizeof(T)) / static_cast<int>(sizeof(Unit)); ++i) {
      units[i] = larger(units[i], others[i]);
    }
  }
  __device__ void add(const Pooled& row) { add(row.best); }
  __device__ Pack<T, N> result(float) const { return best; }
};

/// Cells of a window that a thread asks for before it looks at the first: a whole small window, or a piece of a row.
template <int row_count, int column_count>
struct Batch {
  static constexpr int rows = row_count, columns = column_count;
};
using AnyWindow = Batch<1, 4>;

/// The window of output (oh, ow).
struct Window {
  Span rows, columns;

  /// That its sum is divided by; 0 where all lie on the padding.
  __device__ float cells() const {
    return rows.begin >= rows.end || columns.begin >= columns.end ? 0.0f : rows.cells * columns.cells;
  }
};

template <PoolKind kind>
__device__ Window window_of(const PoolGeometry& g, int oh, int ow) {
  return {span_of<kind>(oh, g.in_height, g.out_height, g.kernel_height, g.stride_height, g.padding_height,
                        g.dilation_height, g.count_padding),
          span_of<kind>(ow, g.in_width, g.out_width, g.kernel_width, g.stride_width, g.padding_width, g.dilation_width,
                        g.count_padding)};
}

/// Adds the batch of a window's cells that begins at (ih, iw) to its rows, each apart: no long chain of additions.
template <PoolKind kind, class Batch, int N, class T>
__device__ void add_batch(const Window& window, int ih, int iw, int in_width, const T* image, std::int64_t pitch,
                          Pooled<kind, N, T> (&of_row)[Batch::rows]) {
  const auto& [rows, columns] = window;
  Pack<T, N> cells[Batch::rows][Batch::columns];
  const auto inside = [&](int r, int c) {
    return ih + r * rows.step < rows.end && iw + c * columns.step < columns.end;
  };
#pragma unroll
  for (int r = 0; r < Batch::rows; ++r) {
#pragma unroll
    for (int c = 0; c < Batch::columns; ++c) {
      const std::int64_t pixel = std::int64_t{ih + r * rows.step} * in_width + iw + c * columns.step;
      if (inside(r, c)) cells[r][c] = *reinterpret_cast<const Pack<T, N>*>(image + pixel * pitch);
    }
  }
#pragma unroll
  for (int r = 0; r < Batch::rows; ++r) {
#pragma unroll
    for (int c = 0; c < Batch::columns; ++c) {
      if (inside(r, c)) of_row[r].add(cells[r][c]);
    }
  }
}

/// The pooled values of N neighbouring elements in a window. `image` points at the first of them at input pixel (0, 0);
/// pixels are `pitch` elements apart.
template <PoolKind kind, class Batch, int N, class T>
__device__ Pack<T, N> pool(const PoolGeometry& g, const Window& window, const T* image, std::int64_t pitch) {
  const auto& [rows, columns] = window;
  Pooled<kind, N, T> total;
  for (int ih = rows.begin; ih < rows.end; ih += Batch::rows * rows.step) {
    Pooled<kind, N, T> of_row[Batch::rows];
    for (int iw = columns.begin; iw < columns.end; iw += Batch::columns * columns.step) {
      add_batch<kind, Batch, N>(window, ih, iw, g.in_width, image, pitch, of_row);
    }
#pragma unroll
    for (const auto& row : of_row) total.add(row);
  }
  return total.result(window.cells());
}

}  // namespace lamina::cuda::pooling
