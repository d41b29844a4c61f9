#include <gtest/gtest.h>

#include "cpu/pool2d/pool_reference.h"
#include "lamina/cpu/pool2d/channels.h"
#include "lamina/cpu/pool2d/planes.h"
#include "support/conv_cases.h"
#include "support/guarded.h"

namespace lamina::cpu::pool2d_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void pool_plane(const ChannelPoolKernel& kernel, PoolKind kind, const PoolGeometry& g, const float* input,
                float* output, ThreadPool& pool) {
  channel_pool2d(kind, kernel, g, {1, 1, 1}, DType::f32, input, output, pool);
}
void pool_plane(const PlanePoolKernel& kernel, PoolKind kind, const PoolGeometry& g, const float* input, float* output,
                ThreadPool& pool) {
  ASSERT_TRUE(pools_planes(kind, g));
  plane_pool2d(kind, kernel, g, input, output, pool);
}

/// One plane, which is its own channels-last image, input and output between guard pages, `bad` among the values.
template <class Kernel>
void check(const Kernel& kernel, const PoolGeometry& g, float bad) {
  ThreadPool pool(1);
  for (const auto at : {Guarded<float>::At::end, Guarded<float>::At::begin}) {
    Guarded<float> input(test::draw(g.in_pixels(), test::Values::mixed, static_cast<unsigned>(g.in_width)), at);
    for (std::size_t i = 3; i < input.span().size(); i += 11) input[i] = bad;
    Guarded<float> output(g.out_pixels(), at);
    for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
      if (kind == PoolKind::average && (!std::isfinite(bad) || g.dilation_width > 1)) continue;
      pool_plane(kernel, kind, g, input.data(), output.data(), pool);
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

template <class Kernel>
void check_all(std::span<const Kernel> kernels) {
  for (const Kernel& kernel : kernels) {
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

TEST(CpuPool, EveryWidthStrideAndWindowOnEveryInstructionSet) {
  check_all(channel_pool_kernels());
  check_all(plane_pool_kernels());
}

/// Rows of several parts, and windows that reach beyond the padding, or that see nothing else.
TEST(CpuPool, LongRowsAndWindowsOfPaddingAlone) {
  const PoolGeometry long_rows = {.planes = 3,
                                  .in_height = 2,
                                  .in_width = 9001,
                                  .out_height = 2,
                                  .out_width = 3001,
                                  .kernel_width = 5,
                                  .stride_width = 3,
                                  .padding_width = 2};
  const PoolGeometry columns = {.planes = 2,
                                .in_height = 7,
                                .in_width = 4500,
                                .out_height = 3,
                                .out_width = 4500,
                                .kernel_height = 3,
                                .stride_height = 2};
  const PoolGeometry padding = {.planes = 2,
                                .in_height = 3,
                                .in_width = 3,
                                .out_height = 5,
                                .out_width = 5,
                                .kernel_height = 2,
                                .kernel_width = 2,
                                .stride_height = 2,
                                .stride_width = 2,
                                .padding_height = 3,
                                .padding_width = 3};
  for (PoolGeometry g : {long_rows, columns, padding}) {
    for (const bool count_padding : {false, true}) {
      g.count_padding = count_padding;
      for (const PlanePoolKernel& kernel : plane_pool_kernels()) {
        PoolGeometry one = g;
        one.planes = 1;
        ThreadPool pool(2);
        const std::vector<float> input = test::draw(g.planes * g.in_pixels(), test::Values::mixed, 5);
        std::vector<float> output(static_cast<std::size_t>(g.planes * g.out_pixels()));
        for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
          pool_plane(kernel, kind, g, input.data(), output.data(), pool);
          for (std::int64_t i = 0; i < g.planes * g.out_pixels(); ++i) {
            const std::int64_t plane = i / g.out_pixels(), pixel = i % g.out_pixels();
            const float truth =
                test::pooled(kind, one, input.data() + plane * g.in_pixels(), static_cast<int>(pixel / g.out_width),
                             static_cast<int>(pixel % g.out_width));
            const float found = output[static_cast<std::size_t>(i)];
            ASSERT_TRUE(found == truth || (kind == PoolKind::average && std::abs(found - truth) < 1e-5f))
                << name(kernel.set) << " width " << g.in_width << ", output " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::pool2d_test
