#pragma once

#include <utility>

#include "support/kernel_harness.h"

/// What the tests of a GPU's families of convolutions share.
namespace lamina::test {

/// For a kernel between images in its precision's type, channels last.
inline KernelOptions channels_last_options(std::string_view kernel, Precision precision, bool relu = false,
                                           const PointwiseChain& chain = {}, const Tuning& tuning = {}) {
  const Format stored = {storage_type(precision), Layout::nhwc};
  return {.kernel = kernel,
          .precision = precision,
          .input = stored,
          .output = stored,
          .relu = relu,
          .chain = chain,
          .tuning = tuning};
}

/// What follows a convolution in networks: functions of one value, and sums with an operand before and behind them.
inline const PointwiseChain chains[] = {{{.function = Pointwise::silu}},
                                        {{.function = Pointwise::hard_swish}},
                                        {{.function = Pointwise::clip, .a = 0, .b = 6}},
                                        {{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::relu}},
                                        {{.function = Pointwise::gelu}},
                                        {{.function = Pointwise::sigmoid}, {.function = Pointwise::add, .operand = 1}}};

/// Pixels and weights that fp32 has to hold on: magnitudes from 1e-18 to 1e18 in one image or filter, sums of one sign,
/// and what is subnormal or nearly.
inline const std::pair<Draw, Draw> awkward_values[] = {{positive, positive},
                                                       {mixed, normal},
                                                       {normal, mixed},
                                                       {mixed, mixed},
                                                       {scaled(normal, 1e-38f), normal},
                                                       {scaled(normal, 1e-42f), scaled(normal, 1e20f)},
                                                       {normal, scaled(normal, 1e-36f)},
                                                       {scaled(normal, 1e36f), scaled(normal, 1e-36f)}};

/// Pixels some of which are no numbers.
inline ConvData draw_not_finite(const ConvGeometry& g, unsigned seed) {
  ConvData data = draw(g, normal, positive, seed);
  data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
  return data;
}

/// Sums beyond the format's largest number.
inline ConvData draw_overflow(const ConvGeometry& g, unsigned seed) {
  ConvData data = draw(g, positive, positive, seed);
  for (float& x : data.x) x *= 1e38f;
  for (float& w : data.w) w *= 100.0f;
  return data;
}

/// They are Inf, not NaN.
inline void expect_infinity(const ConvGeometry& g, const KernelOptions& options, const ConvData& overflow) {
  for (const float y : run(g, options, overflow, true)) ASSERT_EQ(y, infinity) << describe(g, options);
}

/// Max pooling of g's output as PyTorch does it.
inline PoolGeometry pool_geometry(const ConvGeometry& g, int kernel = 3, int stride = 2, int padding = 0,
                                  bool ceil = false) {
  PoolGeometry pool;
  pool.planes = g.batch * g.out_channels;
  pool.in_height = g.out_height, pool.in_width = g.out_width;
  pool.kernel_height = pool.kernel_width = kernel;
  pool.stride_height = pool.stride_width = stride;
  pool.padding_height = pool.padding_width = padding;
  const auto extent = [&](int in) {
    int out = (in + 2 * padding - kernel + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (out - 1) * stride >= in + padding) --out;
    return out;
  };
  pool.out_height = extent(g.out_height), pool.out_width = extent(g.out_width);
  return pool;
}

/// The largest of a window is off by no more than the worst of it; NaN wins.
inline std::vector<Expected> pooled(const PoolGeometry& pool, const std::vector<Expected>& map) {
  std::vector<Expected> result;
  for (std::int64_t plane = 0; plane < pool.planes; ++plane) {
    for (int oh = 0; oh < pool.out_height; ++oh) {
      for (int ow = 0; ow < pool.out_width; ++ow) {
        Expected most{-std::numeric_limits<double>::infinity(), 0, false};
        for (int i = 0; i < pool.kernel_height * pool.kernel_width; ++i) {
          const int ih = oh * pool.stride_height - pool.padding_height + i / pool.kernel_width;
          const int iw = ow * pool.stride_width - pool.padding_width + i % pool.kernel_width;
          if (ih < 0 || ih >= pool.in_height || iw < 0 || iw >= pool.in_width) continue;
          const Expected& e = map[static_cast<std::size_t>((plane * pool.in_height + ih) * pool.in_width + iw)];
          if (!(e.value <= most.value) && !std::isnan(most.value)) most.value = e.value;
          most.bound = std::max(most.bound, e.bound);
          most.overflows |= e.overflows;
        }
        result.push_back(most);
      }
    }
  }
  return result;
}

/// The first and the last image of a batch have the bits that they have alone.
inline void expect_bits_of_images_alone(Case c, const KernelOptions& options, unsigned seed) {
  const ConvGeometry many = geometry_of(c);
  c.batch = 1;
  const ConvGeometry one = geometry_of(c);
  const ConvData data = draw(many, normal, normal, seed);
  const auto all = run_bytes(many, options, data, true);
  EXPECT_EQ(run_bytes(many, options, data, true), all) << describe(many, options);
  for (const bool last : {false, true}) {
    ConvData alone = data;
    const auto size = static_cast<std::ptrdiff_t>(one.input_size());
    alone.x.assign(last ? data.x.end() - size : data.x.begin(), last ? data.x.end() : data.x.begin() + size);
    const auto bits = run_bytes(one, options, alone, true);
    const auto beside = last ? all.end() - static_cast<std::ptrdiff_t>(bits.size()) : all.begin();
    EXPECT_TRUE(std::equal(bits.begin(), bits.end(), beside)) << describe(one, options);
  }
}

}  // namespace lamina::test
