

#include "lamina/cpu/simd.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/kernel_data.h"
#include "support/run_problem.h"

namespace lamina::bf16_depthwise_test {
namespace {

using test::ConvCase;
using test::square;

std::vector<ConvGeometry> depthwise_geometries() {
  std::vector<ConvCase> cases = {square(1, 1, 1, 1, 1, 1),
                                 square(2, 32, 9, 9, 32, 3, 1, 1, 1, 32),
                                 square(1, 33, 7, 7, 33, 3, 1, 1, 1, 33),
                                 square(1, 5, 8, 11, 5, 3, 2, 1, 1, 5),
                                 square(2, 70, 5, 6, 70, 5, 1, 2, 1, 70),
                                 square(1, 96, 14, 14, 96, 7, 1, 3, 1, 96),
                                 square(1, 4, 23, 29, 4, 3, 2, 6, 5, 4),
                                 square(1, 3, 4, 4, 3, 3, 1, 3, 1, 3),
                                 square(1, 40, 3, 3, 40, 2, 5, 2, 1, 40)};
  for (int width = 1; width <= 19; ++width) cases.push_back(square(1, 3, 2, width, 3, 1, 1, 0, 1, 3));
  cases.push_back({2, 7, 11, 17, 7, 3, 5, 2, 1, 0, 3, 1, 2, 7});
  std::vector<ConvGeometry> result;
  for (const ConvCase& c : cases) result.push_back(geometry_of(c));
  return result;
}

struct Case {
  DType output = DType::bf16;
  PointwiseChain chain = {};
  int threads = 2;
  InstructionSet set = InstructionSet::avx512;
};

/// The output as [N, C, OH, OW]; the input ends where memory does.
std::vector<float> run(const ConvGeometry& g, const test::ConvData& data, const std::vector<float>& residual,
                       const Case& c) {
  const View input = {.shape = {g.batch, g.in_channels, g.in_height, g.in_width},
                      .format = {DType::bf16, Layout::nhwc}};
  const View output = {.shape = {g.batch, g.out_channels, g.out_height, g.out_width},
                       .format = {c.output, Layout::nhwc}};
  const View inputs[] = {input, output};
  ConvProblem problem = {.geometry = g,
                         .weight = Tensor::from(data.w, {g.out_channels, 1, g.kernel_height, g.kernel_width}),
                         .bias = Tensor::from(data.b, {g.out_channels}),
                         .epilogue = {.chain = c.chain}};
  Preparation p = {.inputs = std::span(inputs).first(residual.empty() ? 1 : 2),
                   .outputs = {&output, 1},
                   .device = describe(Device::cpu()),
                   .precision = Precision::bf16,
                   .threads = c.threads};
  p.device.instructions = std::max(c.set, p.device.instructions);
  const Kernel<ConvProblem>& kernel = choose(problem, p);
  EXPECT_EQ(kernel.name, "bf16_lanes");
  const auto op = kernel.prepare(problem, p);
  cpu::Guarded<unsigned char> x(test::to_bytes(data.x, input.shape, input.format));
  cpu::Guarded<unsigned char> other(residual.empty() ? std::vector<unsigned char>()
                                                     : test::to_bytes(residual, output.shape, output.format));
  cpu::Guarded<unsigned char> y(static_cast<std::int64_t>(detail::bytes_of(output.shape, output.format)));
  cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op->workspace_bytes() / 4)));
  const Tensor operands[] = {Tensor::borrow(x.data(), input.shape, DType::bf16, Device::cpu()),
                             Tensor::borrow(other.data(), output.shape, c.output, Device::cpu())};
  Tensor result = Tensor::borrow(y.data(), output.shape, c.output, Device::cpu());
  ThreadPool pool(c.threads);
  op->run(std::span(operands).first(p.inputs.size()), {&result, 1}, {.pool = &pool, .workspace = workspace.data()});
  return test::to_values({y.span().begin(), y.span().end()}, output.shape, output.format);
}

test::ConvReference reference(const ConvGeometry& g, const test::ConvData& data) {
  const test::ConvData seen = test::rounded(data, Precision::bf16);
  return test::reference_conv2d(g, seen.x.data(), seen.w.data(), data.b.data());
}

TEST(CpuBf16Depthwise, KeepsTheContractWithEachInstructionSet) {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::scalar}) {
    for (const ConvGeometry& g : depthwise_geometries()) {
      const test::ConvData data = test::draw(g, test::Values::mixed);
      const auto truth = reference(g, data);
      test::expect_contract(g, Precision::bf16, truth, run(g, data, {}, {.set = set}));
      const auto sums = run(g, data, {}, {.output = DType::f32, .set = set});
      test::expect_contract(g, Precision::fp32, truth, sums);
    }
  }
}

TEST(CpuBf16Depthwise, ClampsAddsAndKeepsNanWhereItIs) {
  const ConvGeometry g = geometry_of(square(1, 37, 9, 10, 37, 3, 1, 1, 1, 37));
  test::ConvData data = test::draw(g, test::Values::mixed);
  data.x[95] = NAN;  // channel 1, row 0, column 5
  const auto truth = reference(g, data);
  std::vector<float> residual = test::draw(g.output_size(), test::Values::mixed, 9);
  for (float& x : residual) x = test::rounded(x, Precision::bf16);
  const auto output =
      run(g, data, residual, {.chain = {{Pointwise::add, 1}, {.function = Pointwise::clip, .a = 0, .b = 6}}});
  for (std::size_t i = 0; i < output.size(); ++i) {
    ASSERT_EQ(std::isnan(output[i]), std::isnan(truth.value[i])) << i;
    if (std::isnan(output[i])) continue;
    const double y = std::clamp(truth.value[i] + static_cast<double>(residual[i]), 0.0, 6.0);
    ASSERT_NEAR(output[i], y, y / 256 + 1e-5 * truth.scale[i]) << i;
  }
}

TEST(CpuBf16Depthwise, ThreadsDoNotChangeABit) {
  const ConvGeometry g = geometry_of(square(3, 70, 31, 29, 70, 5, 2, 2, 1, 70));
  const test::ConvData data = test::draw(g, test::Values::mixed);
  EXPECT_EQ(run(g, data, {}, {.threads = 1}), run(g, data, {}, {.threads = 5}));
}

}  // namespace
}  // namespace lamina::bf16_depthwise_test
