#include "lamina/cpu/pool2d/pool2d.h"

#include <gtest/gtest.h>

#include "lamina/cpu/pool2d/rows.h"
#include "support/conv_cases.h"
#include "support/guarded.h"

namespace lamina::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Window of output [oh, ow] by the plain loops: the largest value and the sum.
struct Window {
  float largest = -infinity;
  double sum = 0;

  Window(const PoolGeometry& g, const float* plane, int oh, int ow) {
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      for (int kw = 0; kw < g.kernel_width; ++kw) {
        const int ih = oh * g.stride_height - g.padding_height + kh * g.dilation_height;
        const int iw = ow * g.stride_width - g.padding_width + kw * g.dilation_width;
        if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
        const float value = plane[ih * g.in_width + iw];
        if (std::isnan(value) || value > largest) largest = std::isnan(largest) ? largest : value;
        sum += static_cast<double>(value);
      }
    }
  }
};

/// One plane, input and output between guard pages, `bad` among the input's values.
void check(const PoolKernel& kernel, const PoolGeometry& g, float bad) {
  for (const auto at : {Guarded<float>::At::end, Guarded<float>::At::begin}) {
    Guarded<float> input(test::draw(g.in_pixels(), test::Values::mixed, static_cast<unsigned>(g.in_width)), at);
    for (std::size_t i = 3; i < input.span().size(); i += 11) input[i] = bad;
    Guarded<float> rows(pool2d_rows * pool2d_row_length(g)), output(g.out_pixels(), at);
    const auto pooled = [&](int oh, int ow) {
      return output[static_cast<std::size_t>(std::int64_t{oh} * g.out_width + ow)];
    };
    std::fill(rows.span().begin(), rows.span().end(), -infinity);
    kernel.largest(g, input.data(), rows.data(), output.data());
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        const float truth = Window(g, input.data(), oh, ow).largest, found = pooled(oh, ow);
        ASSERT_TRUE(found == truth || (std::isnan(found) && std::isnan(truth)))
            << name(kernel.set) << " width " << g.in_width << " kernel " << g.kernel_width << " stride "
            << g.stride_width << " dilation " << g.dilation_width << ": [" << oh << ", " << ow << "] is " << found
            << ", expected " << truth;
      }
    }
    if (!std::isfinite(bad)) continue;
    std::fill(rows.span().begin(), rows.span().end(), 0.0f);
    kernel.sum(g, input.data(), rows.data(), output.data());
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        const double truth = Window(g, input.data(), oh, ow).sum;
        ASSERT_NEAR(static_cast<double>(pooled(oh, ow)), truth, 1e-4) << name(kernel.set);
      }
    }
  }
}

TEST(CpuPool, EveryWidthStrideAndWindowOnEveryInstructionSet) {
  for (const PoolKernel& kernel : pool_kernels()) {
    for (int width = 1; width <= 71; width += width < 40 ? 1 : 7) {
      for (const int size : {1, 2, 3, 5}) {
        for (const int stride : {1, 2, 3}) {
          for (const int dilation : {1, 2}) {
            const int padding = size / 2;
            const int window = dilation * (size - 1) + 1;
            if (width + 2 * padding < window) continue;
            const int out = (width + 2 * padding - window) / stride + 1;
            const int rows = (6 + 2 * padding - window) / stride + 1;
            if (6 + 2 * padding < window) continue;
            const PoolGeometry g = {.in_height = 6,
                                    .in_width = width,
                                    .out_height = rows,
                                    .out_width = out,
                                    .kernel_height = size,
                                    .kernel_width = size,
                                    .stride_height = stride,
                                    .stride_width = stride,
                                    .padding_height = padding,
                                    .padding_width = padding,
                                    .dilation_height = dilation,
                                    .dilation_width = dilation};
            for (const float bad : {1e-3f, std::numeric_limits<float>::quiet_NaN(), -infinity, infinity}) {
              check(kernel, g, bad);
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu
