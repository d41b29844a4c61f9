// A result may be written over the residual that is added to it: the same bits, on every instruction set.

#include "cpu/bf16_engines.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/conv2d/channels_last.h"
#include "support/contract.h"
#include "support/guarded.h"

namespace lamina::cpu::over_residual_test {
namespace {

using test::square;

std::vector<ConvGeometry> geometries() {
  return {geometry_of(square(2, 64, 7, 9, 70, 1)), geometry_of(square(2, 33, 5, 7, 37, 3, 1, 1)),
          geometry_of(square(1, 300, 4, 5, 67, 1)), geometry_of(square(2, 34, 9, 12, 40, 3, 1, 10, 10)),
          geometry_of(square(2, 16, 6, 5, 24, 3, 1, 1, 1, 2))};
}

std::vector<PointwiseChain> chains() {
  return {{{.function = Pointwise::add, .operand = 1}},
          {{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::relu}},
          {{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::sigmoid}}};
}

TEST(CpuOverResidual, ChannelsLast) {
  ThreadPool pool(3);
  for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
    for (const ConvGeometry& g : geometries()) {
      const test::ConvOperands c(g, test::Values::mixed);
      const std::vector<float> added = test::draw(g.output_size(), test::Values::mixed, 4);
      const ChannelsLastConv conv(g, kernel, pool.threads());
      Guarded<float> packed(whole_lines(conv.packed_size()));
      Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(conv.workspace() / sizeof(float))));
      conv.pack(c.weight.data(), c.bias.data(), packed.data());
      for (const PointwiseChain& chain : chains()) {
        const RowEpilogue epilogue = row_epilogue({.chain = chain}, describe(Device::cpu()));
        std::vector<float> apart(added.size()), over = added;
        conv.run({c.input.data(), packed.data(), added.data(), apart.data()}, epilogue, pool, workspace.data());
        conv.run({c.input.data(), packed.data(), over.data(), over.data()}, epilogue, pool, workspace.data());
        ASSERT_EQ(over, apart) << name(kernel.set) << ", " << test::describe(g);
      }
    }
  }
}

TEST(CpuOverResidual, Bf16) {
  ThreadPool pool(3);
  const auto narrow = [](const std::vector<float>& values) {
    std::vector<std::uint16_t> result;
    for (const float value : values) result.push_back(to_bfloat16(value).bits);
    return result;
  };
  for (const bf16::Engine& engine : test::all_bf16_engines()) {
    for (const ConvGeometry& g : geometries()) {
      const test::ConvOperands c(g, test::Values::mixed);
      const std::vector<std::uint16_t> x = narrow(c.input),
                                       added = narrow(test::draw(g.output_size(), test::Values::mixed, 4));
      for (const PointwiseChain& chain : chains()) {
        const RowEpilogue epilogue = row_epilogue({.chain = chain}, describe(Device::cpu()));
        std::vector<std::uint16_t> apart(added.size()), over = added;
        for (const bf16::Layer& layer : layers_of(g, engine, {DType::bf16, Layout::nhwc}, pool.threads())) {
          Guarded<std::uint16_t> weight((layer.packed_size() + 31) / 32 * 32);
          Guarded<float> bias(layer.bias_size());
          Guarded<float> workspace(static_cast<std::int64_t>(layer.workspace(pool.threads()) / sizeof(float)));
          pack_weights(layer, c.weight.data(), weight.data());
          pack_bias(layer, c.bias.data(), bias.data());
          const auto run = [&](const std::uint16_t* residual, std::uint16_t* output) {
            convolve(layer,
                     {.input = x.data(),
                      .weight = weight.data(),
                      .bias = bias.data(),
                      .residual = residual,
                      .output = output},
                     epilogue, pool, reinterpret_cast<std::byte*>(workspace.data()));
          };
          run(added.data(), apart.data());
          run(over.data(), over.data());
        }
        ASSERT_EQ(over, apart) << engine.what << ", " << test::describe(g);
      }
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::over_residual_test
