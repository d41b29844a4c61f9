// Channels-last convolutions whose input is multiplied channel by channel, for every instruction set of the machine.

#include "lamina/cpu/conv2d/channels_last.h"
#include "support/contract.h"
#include "support/guarded.h"

namespace lamina::cpu::channels_last_scaled_test {
namespace {

using test::ConvOperands;
using test::Values;

/// The bits of a convolution of the products.
TEST(CpuChannelsLastScaled, IsTheConvolutionOfTheProducts) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
      for (const ConvGeometry& g : test::awkward_geometries()) {
        const ConvOperands c(g, Values::mixed);
        const std::vector<float>& x = c.input;  // as the rows of pixels that it is to be
        const std::vector<float> scales = test::draw(g.batch * g.in_channels, Values::mixed, 4);
        std::vector<float> products = x;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto pixel = static_cast<std::int64_t>(i) / g.in_channels;
          products[i] *= scales[static_cast<std::size_t>(pixel / g.in_pixels() * g.in_channels) +
                                i % static_cast<std::size_t>(g.in_channels)];
        }
        const std::vector<float> added = test::draw(g.output_size(), Values::mixed, 5);
        const RowEpilogue epilogue = {.adds = true, .low = 0};
        const auto run = [&](bool scaled, const std::vector<float>& values) {
          const ChannelsLastConv conv(g, kernel, threads, scaled);
          Guarded<float> packed(whole_lines(conv.packed_size()));
          Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(conv.workspace() / sizeof(float))));
          conv.pack(c.weight.data(), c.bias.data(), packed.data());
          Guarded<float> input(values), scale(scales), residual(added), output(g.output_size());
          conv.run({.input = input.data(),
                    .packed = packed.data(),
                    .residual = residual.data(),
                    .output = output.data(),
                    .scale = scaled ? scale.data() : nullptr},
                   epilogue, pool, workspace.data());
          return std::vector<float>(output.span().begin(), output.span().end());
        };
        ASSERT_EQ(run(true, x), run(false, products)) << name(kernel.set);
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::channels_last_scaled_test
