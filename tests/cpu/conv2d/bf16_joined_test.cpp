// Small groups, several of which are computed as one: the bits of each by itself, and no infinity or NaN in another.

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/kernel/kernel.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::bf16_joined_test {
namespace {

using test::square;

constexpr Format narrow = {DType::bf16, Layout::nhwc};

View view_of(const ConvGeometry& g, bool output) {
  return {.shape = output ? Shape{g.batch, g.out_channels, g.out_height, g.out_width}
                          : Shape{g.batch, g.in_channels, g.in_height, g.in_width},
          .format = narrow};
}

ConvProblem problem_of(const ConvGeometry& g, const test::ConvData& data) {
  return {.geometry = g,
          .weight = Tensor::from(data.w, {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}),
          .bias = Tensor::from(data.b, {g.out_channels}),
          .epilogue = {.chain = {{Pointwise::relu}}}};
}

/// By the kernel that the table has for it.
std::vector<float> run(const ConvGeometry& g, const test::ConvData& data, int unit, int threads) {
  const View from = view_of(g, false), to = view_of(g, true);
  Preparation p = {.inputs = {&from, 1},
                   .outputs = {&to, 1},
                   .device = describe(Device::cpu()),
                   .precision = Precision::bf16,
                   .threads = threads};
  if (unit > 0) p.device.amx_bf16 = false;
  if (unit > 1) p.device.avx512_bf16 = false;
  if (unit > 2) p.device.instructions = InstructionSet::scalar;
  const ConvProblem problem = problem_of(g, data);
  const auto op = choose(problem, p).prepare(problem, p);
  EXPECT_NE(op->description().find("groups joined"), std::string::npos) << op->description();
  cpu::Guarded<unsigned char> x(test::to_bytes(data.x, from.shape, from.format));
  cpu::Guarded<unsigned char> y(static_cast<std::int64_t>(detail::bytes_of(to.shape, to.format)));
  cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op->workspace_bytes() / 4)));
  const Tensor operand = Tensor::borrow(x.data(), from.shape, DType::bf16, Device::cpu());
  Tensor result = Tensor::borrow(y.data(), to.shape, DType::bf16, Device::cpu());
  ThreadPool pool(threads);
  op->run({&operand, 1}, {&result, 1}, {.pool = &pool, .workspace = workspace.data()});
  return test::to_values({y.span().begin(), y.span().end()}, to.shape, to.format);
}

/// Group by group.
std::vector<float> one_by_one(const ConvGeometry& g, const test::ConvData& data, int unit) {
  DeviceDescription device = describe(Device::cpu());
  if (unit > 0) device.amx_bf16 = false;
  if (unit > 1) device.avx512_bf16 = false;
  if (unit > 2) device.instructions = InstructionSet::scalar;
  const cpu::bf16::Layer layer(g, cpu::bf16::best_engine(device), narrow, 1);
  cpu::Guarded<std::uint16_t> weight(layer.packed_size());
  cpu::Guarded<float> bias(layer.bias_size()), workspace(static_cast<std::int64_t>(layer.workspace(1) / 4));
  cpu::bf16::pack_weights(layer, data.w.data(), weight.data());
  cpu::bf16::pack_bias(layer, data.b.data(), bias.data());
  const View from = view_of(g, false), to = view_of(g, true);
  cpu::Guarded<unsigned char> x(test::to_bytes(data.x, from.shape, narrow));
  cpu::Guarded<unsigned char> y(static_cast<std::int64_t>(detail::bytes_of(to.shape, narrow)));
  ThreadPool pool(1);
  cpu::bf16::convolve(layer, {.input = x.data(), .weight = weight.data(), .bias = bias.data(), .output = y.data()},
                      cpu::row_epilogue({.chain = {{Pointwise::relu}}}, device), pool,
                      reinterpret_cast<std::byte*>(workspace.data()));
  return test::to_values({y.span().begin(), y.span().end()}, to.shape, narrow);
}

std::vector<ConvGeometry> geometries() {
  return {geometry_of(square(2, 64, 9, 11, 64, 3, 1, 1, 1, 16)), geometry_of(square(1, 96, 8, 7, 96, 3, 2, 1, 1, 12)),
          geometry_of(square(3, 32, 5, 6, 32, 1, 1, 0, 1, 2)), geometry_of(square(1, 64, 7, 7, 64, 2, 1, 1, 2, 32)),
          // and channels that are left: of two groups, of one, of more than the pixels of a tile
          geometry_of(square(1, 48, 9, 8, 48, 3, 1, 1, 1, 6)), geometry_of(square(2, 104, 5, 6, 104, 3, 2, 1, 1, 13)),
          geometry_of(square(1, 80, 6, 9, 80, 1, 1, 0, 1, 5)), geometry_of(square(1, 36, 4, 4, 36, 3, 1, 1, 1, 9))};
}

TEST(CpuBf16Joined, HasTheBitsOfEachGroupByItself) {
  for (const ConvGeometry& g : geometries()) {
    test::ConvData data = test::draw(g, test::Values::mixed);
    for (const int unit : {0, 1, 2, 3}) {
      for (const int threads : {1, 3}) {
        EXPECT_EQ(run(g, data, unit, threads), one_by_one(g, data, unit)) << test::describe(g) << ", unit " << unit;
      }
    }
  }
}

TEST(CpuBf16Joined, NanAndInfinityStayInTheirGroup) {
  for (const ConvGeometry& g : geometries()) {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), -test::infinity, test::infinity}) {
      test::ConvData data = test::draw(g, test::Values::positive);
      data.x[data.x.size() - 2] = poison;
      const test::ConvData seen = test::rounded(data, Precision::bf16);
      const auto truth = test::reference_conv2d(g, seen.x.data(), seen.w.data(), data.b.data());
      const auto found = run(g, data, 0, 2);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool finite = std::isfinite(std::max(truth.value[i], 0.0)) && !std::isnan(truth.value[i]);
        ASSERT_EQ(std::isfinite(found[i]), finite) << test::describe(g) << ": output " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::bf16_joined_test
