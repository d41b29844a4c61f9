// bf16 convolutions from channels of larger images to channels of larger images.

#include "cpu/bf16_engines.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::cpu::bf16::bf16_slices_test {
namespace {

using Numbers = std::vector<std::uint16_t>;
constexpr std::uint16_t nobody = 0x7fc1;  // a NaN

/// Pixels with `others` channels in front of each.
Numbers behind(const Numbers& values, std::int64_t channels, std::int64_t others) {
  Numbers result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % static_cast<std::size_t>(channels) == 0) {
      result.insert(result.end(), static_cast<std::size_t>(others), nobody);
    }
    result.push_back(values[i]);
  }
  return result;
}

Numbers numbers(const std::vector<float>& values) {
  Numbers result;
  for (const float value : values) result.push_back(to_bfloat16(value).bits);
  return result;
}

TEST(CpuBf16Slices, AreComputedAsWholeImagesAre) {
  using test::square;
  constexpr std::int64_t front = 6, out_front = 5;
  ThreadPool pool(2);
  for (const Engine& engine : test::all_bf16_engines()) {
    for (const ConvGeometry& g :
         {geometry_of(square(2, 64, 5, 7, 40, 1)), geometry_of(square(2, 6, 9, 8, 37, 3, 1, 1)),
          geometry_of(square(1, 40, 9, 7, 33, 3, 2, 1)), geometry_of(square(2, 8, 6, 5, 6, 3, 1, 1, 1, 2)),
          geometry_of(square(2, 34, 7, 9, 40, 3, 1, 8, 8))}) {
      const test::ConvData data = test::draw(g, test::Values::mixed);
      const Numbers x = numbers(data.x);  // as the pixels that it is to be
      const Numbers added = numbers(test::draw(g.output_size(), test::Values::mixed, 3));
      for (const PointwiseChain& chain : {PointwiseChain{{Pointwise::add, 1}, {Pointwise::relu}},
                                          PointwiseChain{{Pointwise::add, 1}, {Pointwise::sigmoid}}}) {
        const RowEpilogue epilogue = row_epilogue({.chain = chain}, describe(Device::cpu()));
        const auto run = [&](std::int64_t in, std::int64_t out) {
          Guarded<std::uint16_t> input(behind(x, g.in_channels, in)), residual(behind(added, g.out_channels, out));
          Guarded<std::uint16_t> output(Numbers((added.size() / static_cast<std::size_t>(g.out_channels)) *
                                                    static_cast<std::size_t>(g.out_channels + out),
                                                nobody));
          for (const Layer& layer : layers_of(g, engine, {DType::bf16, Layout::nhwc}, pool.threads())) {
            Guarded<std::uint16_t> weight((layer.packed_size() + 31) / 32 * 32);
            Guarded<float> bias(layer.bias_size()), workspace(static_cast<std::int64_t>(layer.workspace(2) / 4));
            pack_weights(layer, data.w.data(), weight.data());
            pack_bias(layer, data.b.data(), bias.data());
            convolve(layer,
                     {.input = input.data() + in,
                      .weight = weight.data(),
                      .bias = bias.data(),
                      .residual = residual.data() + out,
                      .output = output.data() + out,
                      .input_pitch = g.in_channels + in,
                      .output_pitch = g.out_channels + out},
                     epilogue, pool, reinterpret_cast<std::byte*>(workspace.data()));
          }
          return Numbers(output.span().begin(), output.span().end());
        };
        ASSERT_EQ(run(front, out_front), behind(run(0, 0), g.out_channels, out_front)) << engine.what;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_slices_test
