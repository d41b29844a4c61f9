// What of codes is one kernel, a 1x1 convolution and the depthwise one behind it, squeeze and excitation: the bits of
// one after the other on a CPU.

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/squeeze_excite.h"
#include "support/conv_cases.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test::eight_bits_pair_test {
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

/// Of images, by the CPU; `codes`: of the operands and the result.
template <class Problem>
Tensor on_cpu(const Problem& problem, const std::vector<Tensor>& from, const Shape& to,
              const std::vector<Quantization>& codes) {
  const RunOptions options = {
      .inputs = std::vector(from.size(), Layout::nhwc), .output = Layout::nhwc, .quantizations = codes};
  return run_problem(problem, from, to, from[0].dtype(), Device::cpu(), options);
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
      for (const bool looks_up : {false, true}) {
        Quantization first = between, second = output;
        if (looks_up) {
          first = {0.13f, is_signed ? 9 : 140}, second = {0.08f, is_signed ? -2 : 110};
          pair.first.epilogue = pair.second.epilogue = {};
        }
        Tensor expected = on_cpu(pair.first, {x}, of_map, {input, first});
        if (looks_up) expected = looked_up(expected, *random_table(1));
        expected = on_cpu(pair.second, {expected}, to, {between, second});
        if (looks_up) expected = looked_up(expected, *random_table(2));
        ConvPairProblem problem = pair;
        if (looks_up) {
          problem.first.epilogue.chain = {to_codes(type, first), look_up(random_table(1))};
          problem.second.epilogue.chain = {to_codes(type, second), look_up(random_table(2))};
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

class EightBitGates : public OnGpu {
 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static std::span<const std::uint8_t> bytes_of(const Tensor& codes) {
    return {static_cast<const std::uint8_t*>(codes.raw()), codes.bytes()};
  }
  static void expect_slopes(const Tensor& found, const Tensor& factor, const std::vector<float>& of_byte) {
    for (std::size_t i = 0; i < factor.bytes(); ++i)
      ASSERT_EQ(found.values<float>()[i], of_byte[bytes_of(factor)[i]]) << i;
  }
};

/// Fewer pixels than blocks, hidden values and channels that eight blocks do not share out evenly; the clusters that
/// the rule believes in make for one image of each, and several.
TEST_P(EightBitGates, HaveTheBitsOfOneAfterTheOther) {
  struct Case {
    int batch, channels, height, width, hidden;
  };
  const Case cases[] = {{1, 32, 112, 112, 8}, {3, 96, 28, 27, 4},  {2, 1152, 7, 7, 48}, {5, 8, 1, 1, 1},
                        {2, 120, 1, 3, 10},   {1, 4096, 3, 2, 17}, {33, 888, 7, 7, 222}};
  if (describe(gpu()).architecture < 90) GTEST_SKIP() << "needs compute capability 9.0";
  for (const Case& c : cases) {
    for (const DType type : {DType::u8, DType::i8}) {
      const std::int32_t middle = type == DType::u8 ? 128 : 0;
      const Quantization image = {0.021f, middle + 9}, means = {0.0031f, middle - 20}, hidden = {0.05f, middle - 90},
                         logits = {0.02f, middle}, factors = {0.003917f, middle - 128}, output = {0.01117f, middle + 3};
      SqueezeExciteProblem gate = {
          .squeeze = draw_codes(square(c.batch, c.channels, 1, 1, c.hidden, 1), means.scale, {Pointwise::relu}, 1),
          .excite = draw_codes(square(c.batch, c.hidden, 1, 1, c.channels, 1), hidden.scale, {}, 2),
          .means = means,
          .between = hidden,
          .factors = factors};
      gate.excite.epilogue = {};
      const Shape whole = {c.batch, c.channels, c.height, c.width}, pixel = {c.batch, c.channels, 1, 1};
      const Tensor x = random_codes(whole, type, 5);
      const PoolProblem mean = {PoolKind::adaptive, {x.numel() / c.height / c.width, c.height, c.width, 1, 1}};
      Tensor factor =
          on_cpu(gate.squeeze, {on_cpu(mean, {x}, pixel, {image, means})}, {c.batch, c.hidden, 1, 1}, {means, hidden});
      factor = looked_up(on_cpu(gate.excite, {factor}, pixel, {hidden, logits}), *random_table(3));
      gate.excite.epilogue.chain = {to_codes(type, logits), look_up(random_table(3))};
      const PointwiseProblem product = {.chain = {{.function = Pointwise::mul, .operand = 1}}};
      const Tensor expected = on_cpu(product, {x, factor}, whole, {image, factors, output});
      for (const int clusters : {0, 1, 3}) {
        RunOptions options = {.inputs = {Layout::nhwc}, .output = Layout::nhwc, .quantizations = {image, output}};
        options.description = describe(gpu());
        if (clusters > 0) options.description->clusters.fill(clusters);
        const Tensor found = run_problem(gate, {x}, whole, type, gpu(), options);
        EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), found.bytes()), 0) << whole << ", " << type << clusters;
        SqueezeExciteProblem alone = gate;
        alone.multiplies = false, alone.product = output;
        options.quantizations.pop_back();
        const Tensor slopes = run_problem(alone, {x}, pixel, DType::f32, gpu(), options);
        expect_slopes(slopes, factor, *detail::product_slopes(type, image, factors, output));
      }
    }
  }
}

/// Every tile, with sums and without: the bits of the product and the convolution on a CPU.
TEST_P(EightBitGates, AreMultipliedByTheLayerBehindThem) {
  struct Case {
    int batch, channels, height, width, filters;
  };
  const Case cases[] = {{2, 72, 7, 7, 24},   {1, 40, 13, 5, 16},  {3, 184, 14, 3, 80},   {5, 8, 1, 1, 8},
                        {9, 264, 7, 7, 112}, {1, 960, 7, 7, 160}, {33, 1152, 7, 7, 320}, {4, 16, 31, 33, 40}};
  int taken = 0;
  for (const Case& c : cases) {
    for (const DType type : {DType::u8, DType::i8}) {
      const std::int32_t middle = type == DType::u8 ? 128 : 0;
      const Quantization image = {0.021f, middle + 9}, factors = {0.003917f, middle - 120},
                         product = {0.01117f, middle + 3}, codes = {0.13f, middle + 5}, other = {0.11f, middle - 8},
                         to = {0.17f, middle - 31};
      const Shape whole = {c.batch, c.channels, c.height, c.width}, narrow = {c.batch, c.filters, c.height, c.width};
      const Tensor x = random_codes(whole, type, 5), factor = random_codes({c.batch, c.channels, 1, 1}, type, 6),
                   others = random_codes(narrow, type, 7);
      const PointwiseProblem times = {.chain = {{.function = Pointwise::mul, .operand = 1}}};
      ConvProblem conv =
          draw_codes(square(c.batch, c.channels, c.height, c.width, c.filters, 1), product.scale, {Pointwise::relu}, 1);
      conv.epilogue = {};
      const Tensor alone =
          on_cpu(conv, {on_cpu(times, {x, factor}, whole, {image, factors, product})}, narrow, {product, codes});
      const auto of_byte = *detail::product_slopes(type, image, factors, product);
      Tensor slopes(factor.shape());
      std::ranges::transform(bytes_of(factor), slopes.values<float>().begin(),
                             [&](int byte) { return of_byte[index(byte)]; });
      conv.prologue = {{.function = Pointwise::mul, .operand = 1}, to_codes(type, product)};
      for (const bool adds : {false, true}) {
        Tensor expected = alone;
        std::vector<Tensor> inputs = {x, slopes};
        RunOptions options = {.inputs = {Layout::nhwc, Layout::nhwc}, .output = Layout::nhwc, .kernel = "narrow"};
        options.quantizations = {image, {}, codes};
        if (adds) {
          const PointwiseProblem sum = {.chain = {{.function = Pointwise::add, .operand = 1}}};
          expected = on_cpu(sum, {alone, others}, narrow, {codes, other, to});
          conv.epilogue.chain = {to_codes(type, codes), {.function = Pointwise::add, .operand = 2}};
          inputs.push_back(others), options.inputs.push_back(Layout::nhwc);
          options.quantizations = {image, {}, other, to};
        }
        for (int tile = -1; tile < 6; ++tile) {
          for (const int splits : {0, 1, 2, 4, 8}) {
            options.tuning = {.tile = tile, .splits = splits};
            const ProblemRun run(conv, inputs, narrow, type, gpu(), options);
            if (!run.taken()) continue;
            ++taken;
            const Tensor found = run.run();
            EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), found.bytes()), 0)
                << whole << " to " << c.filters << ", " << type << ", tile " << tile << ", " << splits << ", " << adds;
          }
        }
      }
    }
  }
  EXPECT_GE(taken, describe(gpu()).architecture >= 80 ? 200 : 0);
}

LAMINA_ON_GPUS(EightBitGates);

}  // namespace
}  // namespace lamina::test::eight_bits_pair_test
