#include <gtest/gtest.h>

#include "cpu/pool2d/pool_reference.h"
#include "lamina/cpu/pool2d/channels.h"
#include "support/conv_cases.h"
#include "support/guarded.h"

namespace lamina::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// One plane, which is its own channels-last image, input and output between guard pages, `bad` among the values.
void check(const ChannelPoolKernel& kernel, const PoolGeometry& g, float bad) {
  ThreadPool pool(1);
  for (const auto at : {Guarded<float>::At::end, Guarded<float>::At::begin}) {
    Guarded<float> input(test::draw(g.in_pixels(), test::Values::mixed, static_cast<unsigned>(g.in_width)), at);
    for (std::size_t i = 3; i < input.span().size(); i += 11) input[i] = bad;
    Guarded<float> output(g.out_pixels(), at);
    for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
      if (kind == PoolKind::average && (!std::isfinite(bad) || g.dilation_width > 1)) continue;
      channel_pool2d(kind, kernel, g, {1, 1, 1}, DType::f32, input.data(), output.data(), pool);
      for (int oh = 0; oh < g.out_height; ++oh) {
        for (int ow = 0; ow < g.out_width; ++ow) {
          const float truth = test::pooled(kind, g, input.data(), oh, ow);
          const float found = output[static_cast<std::size_t>(std::int64_t{oh} * g.out_width + ow)];
          const float tolerance = kind == PoolKind::largest ? 0.0f : 1e-4f;
          ASSERT_TRUE(found == truth || (std::isnan(found) && std::isnan(truth)) ||
                      std::abs(found - truth) <= tolerance)
              << name(kernel.set) << " width " << g.in_width << " kernel " << g.kernel_width << " stride "
              << g.stride_width << " dilation " << g.dilation_width << ": [" << oh << ", " << ow << "] is " << found
              << ", expected " << truth;
        }
      }
    }
  }
}

TEST(CpuPool, EveryWidthStrideAndWindowOnEveryInstructionSet) {
  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
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
