#pragma once

// What the tests of the Hopper convolution share: cases, a fixture that runs them between guards, and what the contract
// says of every output, pooled or not.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lamina/cuda/conv2d/first_layer/first_layer.h"
#include "lamina/cuda/runtime/buffer.h"
#include "support/reference.h"

namespace lamina::test {

inline constexpr float inf = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

inline ConvGeometry geometry(int batch, int height, int width, int filters, int kernel = 11, int stride = 4,
                             int padding = 2, int channels = 3) {
  ConvGeometry g;
  g.batch = batch;
  g.in_channels = channels, g.in_height = height, g.in_width = width;
  g.out_channels = filters;
  g.kernel_height = g.kernel_width = kernel;
  g.stride_height = g.stride_width = stride;
  g.padding_height = g.padding_width = padding;
  g.out_height = (height + 2 * padding - kernel) / stride + 1;
  g.out_width = (width + 2 * padding - kernel) / stride + 1;
  return g;
}

inline std::string describe(const ConvGeometry& g) {
  return std::to_string(g.batch) + "x" + std::to_string(g.in_channels) + "x" + std::to_string(g.in_height) + "x" +
         std::to_string(g.in_width) + " to " + std::to_string(g.out_channels) + ", " + std::to_string(g.kernel_height) +
         "x" + std::to_string(g.kernel_width) + "/" + std::to_string(g.stride_height) + " padding " +
         std::to_string(g.padding_height);
}

/// Input, weights and bias of one case.
struct Data {
  std::vector<float> x, w, b;
};

inline Data random_data(const ConvGeometry& g, unsigned seed, const std::function<float(std::mt19937&)>& pixel,
                        const std::function<float(std::mt19937&)>& weight) {
  std::mt19937 random(seed);
  Data d;
  d.x.resize(static_cast<std::size_t>(g.input_size()));
  d.w.resize(static_cast<std::size_t>(g.weight_size()));
  d.b.resize(static_cast<std::size_t>(g.out_channels));
  for (float& v : d.x) v = pixel(random);
  for (float& v : d.w) v = weight(random);
  for (float& v : d.b) v = weight(random);
  return d;
}

inline float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
inline float positive(std::mt19937& random) { return std::uniform_real_distribution<float>(0.5f, 1.0f)(random); }
/// Any sign, any magnitude from 1e-18 to 1e18.
inline float wild(std::mt19937& random) {
  const float magnitude = std::pow(10.0f, std::uniform_real_distribution<float>(-18.0f, 18.0f)(random));
  return random() % 2 == 0 ? magnitude : -magnitude;
}

/// What the precision makes of an operand before the arithmetic starts.
inline float rounded(Precision precision, float value) {
  if (precision == Precision::fp16) return to_float(to_half(value));
  if (precision == Precision::bf16) return to_float(to_bfloat16(value));
  return value;
}

struct Kind {
  Precision precision;
  DType output;
  Layout layout = Layout::nchw;
  bool pooled = false;  // by windows of 3x3, stride 2, where the map is large enough
};

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

class Sm90 : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    if (!cuda::implicit_gemm_sm90_supports(geometry(1, 32, 32, 8), options())) {
      GTEST_SKIP() << "no device of compute capability 9.0, or no sm_90a code in this binary";
    }
  }

  cuda::Conv2dOptions options() const {
    cuda::Conv2dOptions o;
    o.precision = GetParam().precision;
    o.output = GetParam().output;
    o.output_layout = GetParam().layout;
    return o;
  }

  cuda::Conv2dOptions options(const ConvGeometry& g) const {
    cuda::Conv2dOptions o = options();
    if (GetParam().pooled) o.pool = pool_geometry(g);
    return o;
  }

  /// The shape that comes out.
  static ConvGeometry output_shape(const ConvGeometry& g, const cuda::Conv2dOptions& o) {
    ConvGeometry out = g;
    if (o.pool) out.out_height = o.pool->out_height, out.out_width = o.pool->out_width;
    return out;
  }

  /// Raw bytes of the output. The device buffer starts as NaN and stands between guards, which must survive.
  static std::vector<unsigned char> run_raw(const ConvGeometry& g, const Data& d, const cuda::Conv2dOptions& o,
                                            bool bias = true) {
    EXPECT_TRUE(cuda::implicit_gemm_sm90_supports(g, o)) << describe(g);
    const auto kernel = cuda::make_implicit_gemm_sm90(g, o, d.w.data(), bias ? d.b.data() : nullptr);
    const std::size_t bytes = static_cast<std::size_t>(output_shape(g, o).output_size()) * size_of(o.output);
    constexpr std::size_t guard = 4096;
    std::vector<unsigned char> poison(bytes + 2 * guard, 0xFF);
    const cuda::Buffer input(0, d.x.data(), d.x.size() * sizeof(float));
    const cuda::Buffer output(0, poison.data(), poison.size());
    kernel->run(input.data(), output.as<unsigned char>() + guard, nullptr, nullptr);
    std::vector<unsigned char> result(poison.size());
    detail::copy_bytes(result.data(), Device::cpu(), output.data(), Device::cuda(0), result.size());
    EXPECT_EQ(0, std::memcmp(result.data(), poison.data(), guard)) << "written before the output";
    EXPECT_EQ(0, std::memcmp(result.data() + guard + bytes, poison.data(), guard)) << "written behind the output";
    return {result.begin() + guard, result.end() - guard};
  }

  /// [N, OC, OH, OW]
  static std::vector<float> run(const ConvGeometry& g, const Data& d, const cuda::Conv2dOptions& o, bool bias) {
    const std::vector<unsigned char> raw = run_raw(g, d, o, bias);
    const ConvGeometry shape = output_shape(g, o);
    std::vector<float> y(static_cast<std::size_t>(shape.output_size()));
    const auto channels = static_cast<std::size_t>(g.out_channels),
               pixels = static_cast<std::size_t>(shape.out_pixels());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t image = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;
      const std::size_t at = o.output_layout == Layout::nchw ? i : (image * pixels + pixel) * channels + channel;
      if (o.output == DType::f32) {
        std::memcpy(&y[i], &raw[4 * at], 4);
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &raw[2 * at], 2);
        y[i] = o.output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
      }
    }
    return y;
  }

  /// What the contract says of one output: its value, how far from it, and whether it says anything.
  struct Expected {
    double value = 0, bound = 0;
    bool overflows = false;
  };

  static Expected expected(const ConvGeometry& g, const cuda::Conv2dOptions& o, double value, double scale) {
    // 16-bit outputs may add half a unit of their last place, and overflow to Inf.
    const double last_place = o.output == DType::f16 ? 0x1p-11 : o.output == DType::bf16 ? 0x1p-8 : 0;
    const double tiny = o.output == DType::f16 ? 0x1p-25 : 0;
    const double largest = o.output == DType::f16 ? 65504 : 3.4028234e38;
    const double y = o.relu && value < 0 ? 0 : value;
    return {y, error_bound(g, o.precision, scale) + last_place * std::abs(y) + tiny,
            std::isfinite(y) && std::abs(y) > 0.99 * largest};
  }

  /// The largest of a window is off by no more than the worst of it; NaN wins.
  static std::vector<Expected> pooled(const ConvGeometry& g, const PoolGeometry& pool,
                                      const std::vector<Expected>& map) {
    std::vector<Expected> result;
    for (std::int64_t plane = 0; plane < g.batch * g.out_channels; ++plane) {
      for (int oh = 0; oh < pool.out_height; ++oh) {
        for (int ow = 0; ow < pool.out_width; ++ow) {
          Expected most{-std::numeric_limits<double>::infinity(), 0, false};
          for (int i = 0; i < pool.kernel_height * pool.kernel_width; ++i) {
            const int ih = oh * pool.stride_height - pool.padding_height + i / pool.kernel_width;
            const int iw = ow * pool.stride_width - pool.padding_width + i % pool.kernel_width;
            if (ih < 0 || ih >= g.out_height || iw < 0 || iw >= g.out_width) continue;
            const Expected& e = map[static_cast<std::size_t>((plane * g.out_height + ih) * g.out_width + iw)];
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

  /// Every output against the contract.
  static void expect_contract(const ConvGeometry& g, const Data& d, const cuda::Conv2dOptions& o, bool bias) {
    Data seen = d;
    for (float& v : seen.x) v = rounded(o.precision, v);
    for (float& v : seen.w) v = rounded(o.precision, v);
    const ConvReference reference = reference_conv2d(g, seen.x.data(), seen.w.data(), bias ? d.b.data() : nullptr);
    std::vector<Expected> want;
    for (std::size_t i = 0; i < reference.value.size(); ++i) {
      want.push_back(expected(g, o, reference.value[i], reference.scale[i]));
    }
    if (o.pool) want = pooled(g, *o.pool, want);
    const std::vector<float> got = run(g, d, o, bias);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto [y, bound, overflows] = want[i];
      if (overflows) continue;
      if (!std::isfinite(y)) {
        ASSERT_TRUE(std::isnan(y) ? std::isnan(got[i]) : got[i] == static_cast<float>(y))
            << describe(g) << ", output " << i << ": got " << got[i] << ", want " << y;
        continue;
      }
      ASSERT_LE(std::abs(got[i] - y), bound) << describe(g) << ", output " << i << ": got " << got[i] << ", want " << y;
    }
  }

  void expect_contract(const ConvGeometry& g, const Data& d, bool relu = false, bool bias = true) const {
    cuda::Conv2dOptions o = options(g);
    o.relu = relu;
    if (GetParam().pooled && !cuda::implicit_gemm_sm90_supports(g, o)) return;  // Pooling says what it must take
    expect_contract(g, d, o, bias);
  }
};

}  // namespace lamina::test
