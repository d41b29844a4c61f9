// Pooling in two passes over each output row: the window's rows are first combined into one padded row, which is plain
// vector work, and then that row's columns. No pass checks bounds.

#include "lamina/cpu/pool2d.h"

#include <algorithm>
#include <limits>

#include "lamina/tensor/math.h"

namespace lamina::cpu {
namespace {

struct Largest {
  static constexpr float neutral = -std::numeric_limits<float>::infinity();
  // NaN must win whichever side it is on, and comparisons with it are false.
  static float combine(float a, float b) { return b <= a || a != a ? a : b; }
};

struct Sum {
  static constexpr float neutral = 0;
  static float combine(float a, float b) { return a + b; }
};

/// Floats of the padded row: the windows of a row, and the whole input behind the padding.
std::int64_t row_length(const PoolGeometry& g) {
  const std::int64_t windows =
      std::int64_t{g.out_width - 1} * g.stride_width + std::int64_t{g.kernel_width - 1} * g.dilation_width + 1;
  return std::max(windows, std::int64_t{g.in_width} + g.padding_width);
}

/// out[i] = the combination of row[i * stride + k * dilation] over k.
template <class Op, class Stride>
void combine_columns(const PoolGeometry& g, const float* row, float* out, Stride stride) {
  std::fill_n(out, g.out_width, Op::neutral);
  for (int k = 0; k < g.kernel_width; ++k) {
    const float* from = row + std::int64_t{k} * g.dilation_width;
    for (int i = 0; i < g.out_width; ++i) out[i] = Op::combine(out[i], from[i * stride]);
  }
}

template <class Op>
void combine_windows(const PoolGeometry& g, const float* plane, int oh, float* row, float* out) {
  float* inside = row + g.padding_width;
  std::fill_n(inside, g.in_width, Op::neutral);
  for (int k = 0; k < g.kernel_height; ++k) {
    const std::int64_t ih = std::int64_t{oh} * g.stride_height - g.padding_height + std::int64_t{k} * g.dilation_height;
    if (ih < 0 || ih >= g.in_height) continue;
    const float* from = plane + ih * g.in_width;
    for (int i = 0; i < g.in_width; ++i) inside[i] = Op::combine(inside[i], from[i]);
  }
  // With the common strides known, the compiler makes vector code of these loops.
  if (g.stride_width == 1) return combine_columns<Op>(g, row, out, std::integral_constant<std::int64_t, 1>{});
  if (g.stride_width == 2) return combine_columns<Op>(g, row, out, std::integral_constant<std::int64_t, 2>{});
  combine_columns<Op>(g, row, out, std::int64_t{g.stride_width});
}

/// [begin, end) of the window of output `index` along one side of an average, cut at the input's edges. Its cells on
/// the padding count too, but none that ceil_mode lets it reach beyond: torch.nn.AvgPool2d's rule.
struct AverageWindow {
  std::int64_t begin = 0, end = 0;
  std::int64_t cells = 0;  // with those on the padding

  AverageWindow(int index, int extent, int kernel, int stride, int padding) {
    const std::int64_t first = std::int64_t{index} * stride - padding;
    const std::int64_t last = std::min(first + kernel, std::int64_t{extent} + padding);
    cells = last - first;
    begin = std::max<std::int64_t>(first, 0);
    end = std::min<std::int64_t>(last, extent);
  }
};

}  // namespace

std::size_t pool2d_workspace(const PoolGeometry& g, int threads) {
  return static_cast<std::size_t>(row_length(g) * threads) * sizeof(float);
}

void max_pool2d(const PoolGeometry& g, const float* input, float* output, ThreadPool& pool, float* workspace) {
  const std::int64_t length = row_length(g);
  pool.parallel_for(g.planes, [=, &g](std::int64_t plane, int worker) {
    float* row = workspace + worker * length;
    std::fill_n(row, length, Largest::neutral);
    float* out = output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      combine_windows<Largest>(g, input + plane * g.in_pixels(), oh, row, out);
    }
  });
}

void avg_pool2d(const PoolGeometry& g, const float* input, float* output, ThreadPool& pool, float* workspace) {
  const std::int64_t length = row_length(g);
  pool.parallel_for(g.planes, [=, &g](std::int64_t plane, int worker) {
    float* row = workspace + worker * length;
    std::fill_n(row, length, Sum::neutral);
    float* out = output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      combine_windows<Sum>(g, input + plane * g.in_pixels(), oh, row, out);
      const AverageWindow rows(oh, g.in_height, g.kernel_height, g.stride_height, g.padding_height);
      for (int ow = 0; ow < g.out_width; ++ow) {
        const AverageWindow columns(ow, g.in_width, g.kernel_width, g.stride_width, g.padding_width);
        const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
        const std::int64_t cells =
            g.count_padding ? rows.cells * columns.cells : (rows.end - rows.begin) * (columns.end - columns.begin);
        out[ow] = empty ? 0.0f : out[ow] / static_cast<float>(cells);
      }
    }
  });
}

void adaptive_avg_pool2d(const PoolGeometry& g, const float* input, float* output, ThreadPool& pool, float* workspace) {
  // Networks end in this so that other image sizes fit too; at the usual size each window is one pixel.
  if (g.in_height == g.out_height && g.in_width == g.out_width) {
    std::copy_n(input, g.planes * g.in_pixels(), output);
    return;
  }
  const std::int64_t length = row_length(g);
  const auto begin = [](std::int64_t i, std::int64_t in, std::int64_t out) { return i * in / out; };
  const auto end = [](std::int64_t i, std::int64_t in, std::int64_t out) {
    return detail::ceil_div((i + 1) * in, out);
  };
  pool.parallel_for(g.planes, [=, &g](std::int64_t plane, int worker) {
    const float* image = input + plane * g.in_pixels();
    float* row = workspace + worker * length;
    float* out = output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      const std::int64_t first = begin(oh, g.in_height, g.out_height);
      const std::int64_t last = end(oh, g.in_height, g.out_height);
      std::fill_n(row, g.in_width, 0.0f);
      for (std::int64_t ih = first; ih < last; ++ih) {
        for (int i = 0; i < g.in_width; ++i) row[i] += image[ih * g.in_width + i];
      }
      for (int ow = 0; ow < g.out_width; ++ow) {
        const std::int64_t left = begin(ow, g.in_width, g.out_width);
        const std::int64_t right = end(ow, g.in_width, g.out_width);
        float sum = 0;
        for (std::int64_t iw = left; iw < right; ++iw) sum += row[iw];
        out[ow] = sum / static_cast<float>((last - first) * (right - left));
      }
    }
  });
}

}  // namespace lamina::cpu
