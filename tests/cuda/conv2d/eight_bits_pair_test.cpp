// A 1x1 convolution of codes and the depthwise one behind it in one kernel: the bits of one after the other on a CPU.

#include "lamina/kernel/conv_pair.h"
#include "support/conv_cases.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test {
namespace {

/// Draws weights, scales and biases for codes of that scale.
ConvProblem draw_codes(const ConvCase& layer, float input_scale, const PointwiseStep& end, unsigned seed) {
  ConvProblem problem;
  const ConvGeometry& g = problem.geometry = geometry_of(layer);
  const auto channels = std::int64_t{g.out_channels};
  EightBitWeights& eight = problem.eight;
  eight.weight = random_codes({channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, seed);
  eight.scale = Tensor({channels}), eight.bias_scale = Tensor({channels});
  eight.bias = draw_whole({channels}, seed + 1, -9000, 9000, DType::i32);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    eight.scale.values<float>()[c] = 0.002f + 0.0003f * static_cast<float>(c % 5);
    eight.bias_scale.values<float>()[c] = input_scale * eight.scale.values<float>()[c];
  }
  problem.epilogue.chain = {end};
  return problem;
}

class EightBitPairs : public OnGpu {};

TEST_P(EightBitPairs, HaveTheBitsOfOneAfterTheOther) {
  struct Case {
    int batch, in, height, width, filters, kernel, stride;
  };
  const Case cases[] = {{2, 16, 14, 13, 96, 3, 1},  {2, 24, 29, 28, 144, 3, 2}, {1, 32, 15, 15, 192, 5, 1},
                        {3, 40, 9, 8, 240, 5, 2},   {2, 64, 7, 7, 384, 3, 1},   {1, 4, 6, 5, 8, 3, 2},
                        {2, 100, 17, 3, 36, 3, 1},  {1, 160, 7, 7, 960, 3, 1},  {5, 36, 1, 1, 40, 3, 1},
                        {2, 12, 56, 57, 136, 3, 1}, {2, 192, 20, 21, 60, 5, 2}};
  int taken = 0;
  for (const Case& c : cases) {
    for (const DType type : {DType::u8, DType::i8}) {
      const bool is_signed = type == DType::i8;
      const Quantization input = {0.021f, is_signed ? -7 : 131}, between = {0.11f, is_signed ? -128 : 3},
                         output = {0.09f, is_signed ? 5 : 120};
      ConvPairProblem pair;
      pair.first =
          draw_codes(square(c.batch, c.in, c.height, c.width, c.filters, 1), input.scale, {Pointwise::relu}, 1);
      pair.second = draw_codes(
          square(c.batch, c.filters, c.height, c.width, c.filters, c.kernel, c.stride, c.kernel / 2, 1, c.filters),
          between.scale, {.function = Pointwise::clip, .a = -2.5, .b = 6}, 3);
      pair.between = between;
      const ConvGeometry& g = pair.second.geometry;
      const Tensor x = random_codes({c.batch, c.in, c.height, c.width}, type, 5);
      const Shape of_map = {c.batch, c.filters, c.height, c.width},
                  to = {c.batch, c.filters, g.out_height, g.out_width};
      const auto alone = [&](const ConvProblem& problem, const Tensor& of, const Shape& shape, Quantization from,
                             Quantization codes) {
        const RunOptions plain = {
            .inputs = {Layout::nhwc}, .output = Layout::nhwc, .kernel = "int8_direct", .quantizations = {from, codes}};
        return ProblemRun(problem, {of}, shape, type, Device::cpu(), plain).run();
      };
      for (const bool looks_up : {false, true}) {
        Quantization first = between, second = output;
        if (looks_up) {
          first = {0.13f, is_signed ? 9 : 140}, second = {0.08f, is_signed ? -2 : 110};
          pair.first.epilogue = pair.second.epilogue = {};
        }
        Tensor expected = alone(pair.first, x, of_map, input, first);
        if (looks_up) expected = looked_up(expected, *random_table(1));
        expected = alone(pair.second, expected, to, between, second);
        if (looks_up) expected = looked_up(expected, *random_table(2));
        ConvPairProblem problem = pair;
        if (looks_up) {
          problem.first.eight.codes = first, problem.first.eight.table = random_table(1);
          problem.second.eight.codes = second, problem.second.eight.table = random_table(2);
          problem.first.eight.codes_type = problem.second.eight.codes_type = type;
        }
        for (const int outputs : {0, 1, 2}) {
          RunOptions options = {.inputs = {Layout::nhwc}, .output = Layout::nhwc, .kernel = "depthwise"};
          options.quantizations = {input, output}, options.tuning.outputs = outputs;
          const ProblemRun run(problem, {x}, to, type, gpu(), options);
          if (!run.taken()) continue;
          ++taken;
          const Tensor actual = run.run();
          EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
              << describe(pair.first.geometry) << " and " << describe(g) << ", " << type << ", " << outputs;
        }
      }
    }
  }
  EXPECT_GE(taken, describe(gpu()).architecture >= 80 ? 80 : 0);
}

LAMINA_ON_GPUS(EightBitPairs);

}  // namespace
}  // namespace lamina::test
