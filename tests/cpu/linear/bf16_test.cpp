

#include "support/contract.h"
#include "support/kernel_data.h"
#include "support/run_problem.h"

namespace lamina::bf16_test {
namespace {

struct Case {
  DType input = DType::bf16, output = DType::bf16;
  PointwiseChain chain = {};
  int threads = 2;
};

ConvGeometry rows_of(std::int64_t rows, int in, int out) { return geometry_of(test::square(rows, in, 1, 1, out, 1)); }

std::vector<float> run(const ConvGeometry& g, const test::ConvData& data, const std::vector<float>& residual,
                       const Case& c) {
  const LinearProblem problem = {.rows = g.batch,
                                 .in = g.in_channels,
                                 .out = g.out_channels,
                                 .weight = Tensor::from(data.w, {g.out_channels, g.in_channels}),
                                 .bias = Tensor::from(data.b, {g.out_channels}),
                                 .epilogue = {.chain = c.chain}};
  std::vector<Tensor> inputs = {Tensor::from(data.x, {g.batch, g.in_channels}).to(c.input)};
  const Shape shape = {g.batch, g.out_channels};
  if (!residual.empty()) inputs.push_back(Tensor::from(residual, shape).to(c.output));
  const Tensor y = test::run_problem(problem, inputs, shape, c.output, Device::cpu(),
                                     {.precision = Precision::bf16, .threads = c.threads})
                       .to(DType::f32);
  return {y.values<float>().begin(), y.values<float>().end()};
}

test::ConvReference reference(const ConvGeometry& g, const test::ConvData& data) {
  const test::ConvData seen = test::rounded(data, Precision::bf16);
  return test::reference_conv2d(g, seen.x.data(), seen.w.data(), data.b.data());
}

// Rows around those that stream the weights, and around tiles; features around vectors.
TEST(CpuBf16Linear, KeepsTheContract) {
  for (const std::int64_t rows : {1, 3, 4, 5, 16, 17, 33, 70}) {
    for (const int features : {1, 7, 32, 65, 300}) {
      const ConvGeometry g = rows_of(rows, features, 301 - features);
      const test::ConvData data = test::draw(g, test::Values::mixed);
      const auto truth = reference(g, data);
      for (const DType input : {DType::bf16, DType::f32}) {
        test::expect_contract(g, Precision::bf16, truth, run(g, data, {}, {.input = input}));
        if (input == DType::f32) continue;
        test::expect_contract(g, Precision::fp32, truth, run(g, data, {}, {.output = DType::f32}));
      }
    }
  }
}

TEST(CpuBf16Linear, EpiloguesAreComputedBeforeRounding) {
  for (const std::int64_t rows : {2, 9}) {
    const ConvGeometry g = rows_of(rows, 40, 37);
    const test::ConvData data = test::draw(g, test::Values::mixed);
    const auto truth = reference(g, data);
    std::vector<float> residual = test::draw(g.output_size(), test::Values::mixed, 4);
    for (float& x : residual) x = test::rounded(x, Precision::bf16);
    for (const bool sigmoid : {false, true}) {
      PointwiseChain chain = {{Pointwise::add, 1}, {Pointwise::relu}};
      if (sigmoid) chain.insert(chain.begin(), {Pointwise::sigmoid});
      const auto output = run(g, data, residual, {.chain = chain});
      for (std::size_t i = 0; i < output.size(); ++i) {
        const double sum = sigmoid ? 1 / (1 + std::exp(-truth.value[i])) : truth.value[i];
        const double y = std::max(sum + static_cast<double>(residual[i]), 0.0);
        ASSERT_NEAR(output[i], y, y / 256 + 1e-5 * truth.scale[i]) << rows << " rows, output " << i;
      }
    }
  }
}

TEST(CpuBf16Linear, ThreadsDoNotChangeABit) {
  for (const std::int64_t rows : {1, 50}) {
    const ConvGeometry g = rows_of(rows, 333, 222);
    const test::ConvData data = test::draw(g, test::Values::mixed);
    EXPECT_EQ(run(g, data, {}, {.threads = 1}), run(g, data, {}, {.threads = 6}));
  }
}

}  // namespace
}  // namespace lamina::bf16_test
