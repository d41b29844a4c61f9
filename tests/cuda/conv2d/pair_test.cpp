// A 1x1 convolution and the depthwise one behind it: the bits of one after the other, and the contract.

#include "cuda/conv2d/family.h"
#include "lamina/kernel/conv_pair.h"

namespace lamina::test::pair_test {
namespace {

struct PairCase {
  Case first, second;
};

/// From `in` channels of height x width to `wide`, and a filter for each of those.
PairCase pair_of(std::int64_t batch, int in, int height, int width, int wide, int kernel, int stride, int padding) {
  return {{.batch = batch, .in = in, .height = height, .width = width, .out = wide},
          {.batch = batch,
           .in = wide,
           .height = height,
           .width = width,
           .out = wide,
           .kernel = {kernel, kernel},
           .stride = {stride, stride},
           .padding = {padding, padding},
           .groups = wide}};
}

/// Tiles that are cut both ways, odd sizes, channels that fill no step of 16, copies of 4, 8 and 16 bytes.
const PairCase cases[] = {
    pair_of(2, 16, 23, 18, 40, 3, 1, 1),  pair_of(1, 24, 17, 16, 36, 3, 2, 1),   pair_of(2, 160, 7, 7, 960, 3, 1, 1),
    pair_of(1, 40, 14, 14, 240, 5, 1, 2), pair_of(3, 72, 15, 13, 132, 5, 2, 2),  pair_of(2, 58, 9, 10, 58, 3, 1, 1),
    pair_of(1, 58, 29, 28, 58, 3, 2, 1),  pair_of(40, 96, 14, 14, 200, 3, 1, 1), pair_of(9, 16, 60, 57, 96, 3, 2, 1),
    pair_of(1, 8, 1, 1, 8, 3, 1, 1),      pair_of(1, 20, 6, 70, 12, 3, 1, 0),    pair_of(1, 34, 5, 4, 20, 5, 1, 4),
    pair_of(2, 8, 3, 3, 16, 3, 2, 7),     pair_of(1, 6, 40, 3, 14, 3, 1, 2),     pair_of(7, 24, 33, 35, 72, 5, 2, 2),
};

struct Drawn {
  ConvGeometry first, second;
  ConvData a, b;
};

Drawn draw_pair(const PairCase& c, unsigned seed, const Draw& x = normal) {
  Drawn drawn = {.first = geometry_of(c.first), .second = geometry_of(c.second), .a = {}, .b = {}};
  drawn.a = draw(drawn.first, x, normal, seed), drawn.b = draw(drawn.second, normal, normal, seed + 1);
  for (float& w : drawn.a.w) w *= 0.25f;  // sums of 960 products stay within f16
  return drawn;
}

class ConvPair : public OnAmpere {
 protected:
  /// The two as one problem, prepared.
  static Prepared prepare_pair(const Drawn& d, Precision precision, const PointwiseChain& between,
                               const PointwiseChain& last, const Tuning& tuning, int multiprocessors = 0) {
    Task one(d.first, channels_last_options({}, precision, false, between)),
        two(d.second, channels_last_options({}, precision, false, last));
    const auto fill = [](ConvProblem& problem, const ConvData& data) {
      const ConvGeometry& g = problem.geometry;
      problem.weight = Tensor::from(data.w, {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width});
      problem.bias = Tensor::from(data.b, {g.out_channels});
    };
    fill(one.problem, d.a), fill(two.problem, d.b);
    const ConvPairProblem problem = {one.problem, two.problem};
    Preparation preparation = one.preparation;
    preparation.outputs = {&two.views[2], 1};
    preparation.tuning = tuning;
    if (multiprocessors > 0) preparation.device.multiprocessors = multiprocessors;
    const Kernel<ConvPairProblem>& kernel = kernels<ConvPairProblem>(DeviceType::cuda)[0];  // whether it pays or not
    return {kernel.prepare(problem, preparation), one.views[0], two.views[2]};
  }

  /// Of one kernel after the other, which add up in the same order.
  static std::vector<unsigned char> one_by_one(const Drawn& d, Precision precision, const PointwiseChain& between,
                                               const PointwiseChain& last) {
    ConvData second = d.b;
    second.x = run(d.first, channels_last_options("mma", precision, false, between), d.a, true);
    return run_bytes(d.second, channels_last_options("depthwise", precision, false, last), second, true);
  }

  static void expect_same_bits(const Drawn& d, Precision precision, const PointwiseChain& between,
                               const PointwiseChain& last, const Tuning& tuning = {}, int multiprocessors = 0) {
    const Prepared pair = prepare_pair(d, precision, between, last, tuning, multiprocessors);
    const auto actual = to_values(run_bytes(pair, d.a.x), pair.output.shape, pair.output.format);
    const auto expected = to_values(one_by_one(d, precision, between, last), pair.output.shape, pair.output.format);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_TRUE(actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])))
          << describe(d.first) << ", " << describe(d.second) << ", " << pair.op->description() << ": output " << i
          << " is " << actual[i] << ", one by one " << expected[i];
    }
  }
};

const PointwiseChain clamp = {{.function = Pointwise::clip, .a = 0, .b = 6}};

TEST_F(ConvPair, HasTheBitsOfOneAfterTheOther) {
  unsigned seed = 1;
  for (const Precision precision : of_16_bits) {
    for (const PairCase& c : cases) {
      const Drawn drawn = draw_pair(c, seed += 2);
      for (const int rows : {1, 2}) {
        expect_same_bits(drawn, precision, clamp, clamp, {.outputs = rows});
        // Of a device that few blocks fill, which are as large as they get.
        expect_same_bits(drawn, precision, clamp, clamp, {.outputs = rows}, 1);
      }
    }
  }
}

TEST_F(ConvPair, Chains) {
  unsigned seed = 200;
  for (const Precision precision : of_16_bits) {
    for (const std::size_t i : {1u, 3u, 5u}) {
      for (const Pointwise function : {Pointwise::relu, Pointwise::silu, Pointwise::hard_swish}) {
        expect_same_bits(draw_pair(cases[i], seed += 2), precision, {{function}}, {});
      }
      for (const PointwiseChain& chain : chains) {
        if (!reads_residual(chain)) expect_same_bits(draw_pair(cases[i], seed += 2), precision, {}, chain);
      }
    }
    expect_same_bits(draw_pair(cases[0], seed += 2), precision, clamp, {{.function = Pointwise::elu, .a = 1}});
  }
}

TEST_F(ConvPair, WhatIsNotFiniteReachesItsWindowsAlone) {
  for (const Precision precision : of_16_bits) {
    for (const std::size_t i : {0u, 1u, 3u, 5u, 8u}) {
      Drawn drawn = draw_pair(cases[i], 300);
      std::vector<float>& x = drawn.a.x;
      x[0] = infinity, x[17] = -infinity, x[40] = std::nanf(""), x[x.size() - 1] = infinity;
      expect_same_bits(drawn, precision, {}, {});
      expect_same_bits(drawn, precision, {{Pointwise::relu}}, clamp);
    }
  }
}

/// Against doubles: what lies between may be off by its own bound, which the second's weights carry on.
TEST_F(ConvPair, MeetsTheContract) {
  for (const Precision precision : of_16_bits) {
    for (const PairCase& c : cases) {
      const Drawn drawn = draw_pair(c, 400);
      const KernelOptions first = channels_last_options({}, precision, false, clamp),
                          second = channels_last_options({}, precision, false, {});
      ConvData between = drawn.b, errors = drawn.b;
      between.x.clear(), errors.x.clear();
      for (const Expected& e :
           expected_outputs(drawn.first, first, reference_of(drawn.first, precision, drawn.a, true))) {
        between.x.push_back(static_cast<float>(e.value)), errors.x.push_back(static_cast<float>(e.bound));
      }
      for (float& w : errors.w) w = std::abs(w);
      ConvData seen = rounded(between, precision);
      seen.x = between.x;
      const ConvReference reference = reference_conv2d(drawn.second, seen.x.data(), seen.w.data(), seen.b.data());
      const ConvReference off = reference_conv2d(drawn.second, errors.x.data(), errors.w.data(), nullptr);
      auto expected = expected_outputs(drawn.second, second, reference);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i].bound += 1.01 * off.value[i];
      const Prepared pair = prepare_pair(drawn, precision, clamp, {}, {});
      expect_outputs(expected, run(pair, drawn.a.x), describe(drawn.first) + ", " + describe(drawn.second));
    }
  }
}

TEST_F(ConvPair, SameBitsEveryRunAndInEveryPlaceOfABatch) {
  for (const Precision precision : of_16_bits) {
    PairCase c = cases[7];
    const Drawn many = draw_pair(c, 500);
    const Prepared all = prepare_pair(many, precision, clamp, clamp, {});
    const auto expected = run_bytes(all, many.a.x);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run_bytes(all, many.a.x), expected);
    c.first.batch = c.second.batch = 1;
    Drawn one = many;
    one.first = geometry_of(c.first), one.second = geometry_of(c.second);
    const auto size = static_cast<std::ptrdiff_t>(one.first.input_size());
    one.a.x.assign(many.a.x.end() - size, many.a.x.end());
    const auto alone = run_bytes(prepare_pair(one, precision, clamp, clamp, {}), one.a.x);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), expected.end() - static_cast<std::ptrdiff_t>(alone.size())));
  }
}

TEST_F(ConvPair, NothingElse) {
  const auto taken = [](const PairCase& c, Precision precision, const auto& change) {
    Task one(geometry_of(c.first), channels_last_options({}, precision, false, clamp));
    Task two(geometry_of(c.second), channels_last_options({}, precision, false, clamp));
    ConvPairProblem problem = {one.problem, two.problem};
    Preparation preparation = one.preparation;
    preparation.outputs = {&two.views[2], 1};
    change(problem, preparation, two.views[2]);
    return paying_kernel(problem, preparation) != nullptr;
  };
  const auto nothing = [](auto&...) {};
  const PairCase usual = pair_of(1, 96, 14, 14, 576, 3, 1, 1);
  EXPECT_TRUE(taken(usual, Precision::fp16, nothing));
  EXPECT_TRUE(taken(usual, Precision::bf16, nothing));
  EXPECT_FALSE(taken(usual, Precision::fp32, nothing));
  EXPECT_FALSE(taken(usual, Precision::tf32, nothing));
  EXPECT_FALSE(taken(pair_of(1, 96, 14, 14, 576, 7, 1, 3), Precision::fp16, nothing));
  EXPECT_FALSE(taken(pair_of(1, 7, 14, 14, 36, 3, 1, 1), Precision::fp16, nothing));
  EXPECT_FALSE(taken(pair_of(1, 8, 14, 14, 35, 3, 1, 1), Precision::fp16, nothing));
  EXPECT_FALSE(taken(usual, Precision::fp16, [](auto& p, auto&...) { p.first.prologue = {{Pointwise::mul, 1}}; }));
  EXPECT_FALSE(taken(usual, Precision::fp16,
                     [](auto& problem, auto&...) { problem.first.epilogue.chain = {{Pointwise::gelu}}; }));
  EXPECT_FALSE(taken(usual, Precision::fp16, [](auto&, auto& p, auto&) { p.device.architecture = 75; }));
  EXPECT_FALSE(taken(usual, Precision::fp16, [](auto&, auto& p, auto&) { p.algorithm = "tiled"; }));
  EXPECT_FALSE(taken(usual, Precision::fp16, [](auto&, auto&, View& out) { out.format.layout = Layout::nchw; }));
}

}  // namespace
}  // namespace lamina::test::pair_test
