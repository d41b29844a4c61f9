// bf16 convolutions whose input is multiplied channel by channel, on every engine.

#include "cpu/bf16_engines.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::cpu::bf16::bf16_scaled_test {
namespace {

std::vector<bfloat16> narrowed(const std::vector<float>& values) {
  std::vector<bfloat16> result;
  for (const float value : values) result.push_back(to_bfloat16(value));
  return result;
}

/// The convolution of the rounded products: all but the last bit of it, for an input that is read where it lies may be
/// summed in another order.
TEST(CpuBf16Scaled, IsTheConvolutionOfTheProducts) {
  using test::square;
  for (const Engine& engine : test::all_bf16_engines()) {
    for (const ConvGeometry& g :
         {geometry_of(square(3, 64, 5, 7, 40, 1)), geometry_of(square(2, 37, 9, 8, 33, 1)),
          geometry_of(square(5, 6, 1, 2, 70, 1)), geometry_of(square(2, 40, 6, 5, 8, 1, 1, 0, 1, 2))}) {
      for (const int threads : {1, 3}) {
        const test::ConvData data = test::draw(g, test::Values::mixed);
        std::vector<bfloat16> products = narrowed(data.x);  // as the pixels that it is to be
        const std::vector<bfloat16> x = products;
        const std::vector<bfloat16> scales = narrowed(test::draw(g.batch * g.in_channels, test::Values::mixed, 4));
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto pixel = static_cast<std::int64_t>(i) / g.in_channels;
          const auto channel = static_cast<std::int64_t>(i) % g.in_channels;
          products[i] =
              to_bfloat16(to_float(x[i]) *
                          to_float(scales[static_cast<std::size_t>(pixel / g.in_pixels() * g.in_channels + channel)]));
        }
        ThreadPool pool(threads);
        const auto run = [&](bool scaled, const std::vector<bfloat16>& values) {
          const Layer layer(g, engine, {DType::bf16, Layout::nhwc}, threads, scaled);
          Guarded<std::uint16_t> weight((layer.packed_size() + 31) / 32 * 32);
          Guarded<float> bias(layer.bias_size());
          Guarded<float> workspace(static_cast<std::int64_t>(layer.workspace(threads) / sizeof(float)));
          pack_weights(layer, data.w.data(), weight.data());
          pack_bias(layer, data.b.data(), bias.data());
          Guarded<bfloat16> input(values), scale(scales);
          Guarded<float> output(g.output_size());
          convolve(layer,
                   {.input = input.data(),
                    .weight = weight.data(),
                    .bias = bias.data(),
                    .scale = scaled ? scale.data() : nullptr,
                    .output = output.data(),
                    .output_type = DType::f32},
                   {}, pool, reinterpret_cast<std::byte*>(workspace.data()));
          return std::vector<float>(output.span().begin(), output.span().end());
        };
        const std::vector<float> found = run(true, x), expected = run(false, products);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-6 * (std::abs(expected[i]) + 64)) << engine.what << ": output " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_scaled_test
