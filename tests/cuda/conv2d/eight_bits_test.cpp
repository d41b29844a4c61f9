// Convolutions of codes on a GPU beside the CPU's plain loops: the same bits, whichever kernel, tile and batch.

#include <limits>
#include <map>

#include "support/conv_cases.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test {
namespace {

enum class End { codes, float_bias, floats, halves, sums };

struct Made {
  ConvProblem problem;
  Tensor x;
  Shape output;
  DType type;
  RunOptions options;
};

Made make(const ConvCase& l, DType input, End end, bool weight_zeros = false) {
  Made made;
  const ConvGeometry& g = made.problem.geometry = geometry_of(l);
  EightBitWeights& eight = made.problem.eight;
  eight.weight = random_codes({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, 1);
  eight.scale = Tensor({l.out_channels});
  const float input_scale = 0.02f;
  int f = 0;
  for (float& scale : eight.scale.values<float>()) scale = 0.0013f + 0.0001f * static_cast<float>(f++ % 7);
  if (weight_zeros) {
    eight.zero_point = Tensor({l.out_channels}, DType::i32);
    for (std::int32_t& zero : eight.zero_point.values<std::int32_t>()) zero = f++ % 9 - 4;
  }
  if (end == End::float_bias || end == End::floats || end == End::halves) {
    made.problem.bias = Tensor({l.out_channels});
    for (float& b : made.problem.bias.values<float>()) b = 0.37f * static_cast<float>(f++ % 13 - 6);
  } else {
    eight.bias = Tensor({l.out_channels}, DType::i32), eight.bias_scale = Tensor({l.out_channels});
    for (int i = 0; i < l.out_channels; ++i) {
      eight.bias.values<std::int32_t>()[static_cast<std::size_t>(i)] = i * 911 % 40001 - 20000;
      eight.bias_scale.values<float>()[static_cast<std::size_t>(i)] =
          input_scale * eight.scale.values<float>()[static_cast<std::size_t>(i)];
    }
  }
  eight.whole = end == End::sums;
  if (!eight.whole) made.problem.epilogue.chain = {{Pointwise::relu}};
  made.x = random_codes({l.batch, l.in_channels, l.height, l.width}, input, 2);
  made.output = {l.batch, l.out_channels, g.out_height, g.out_width};
  made.type = end == End::sums     ? DType::i32
              : end == End::floats ? DType::f32
              : end == End::halves ? DType::bf16
                                   : input;
  // 0 is what surrounds an image that TMA reads.
  const std::int32_t zero = l.padding_height > 0 && l.height % 2 == 0 ? 0 : input == DType::u8 ? 119 : -11;
  made.options = {.inputs = {Layout::nhwc},
                  .output = eight.whole ? Layout::nchw : Layout::nhwc,
                  .quantizations = {{input_scale, zero}}};
  if (made.type == input) made.options.quantizations.push_back({0.3f, input == DType::u8 ? 9 : -20});
  return made;
}

const ConvCase layers[] = {square(2, 64, 6, 7, 64, 1, 1, 0, 1, 1),       square(2, 64, 28, 27, 256, 1, 1, 0, 1, 1),
                           square(2, 256, 9, 9, 48, 1, 2, 0, 1, 1),      square(2, 130, 5, 9, 34, 1, 1, 0, 1, 1),
                           square(2, 3, 33, 34, 64, 7, 2, 3, 1, 1),      square(2, 3, 16, 15, 16, 3, 2, 1, 1, 1),
                           square(2, 36, 7, 6, 20, 3, 1, 1, 1, 1),       square(2, 128, 10, 8, 64, 3, 2, 1, 1, 1),
                           square(2, 64, 14, 14, 64, 3, 1, 1, 1, 1),     square(1, 512, 8, 7, 512, 3, 1, 1, 1, 1),
                           square(2, 32, 9, 9, 32, 3, 1, 2, 2, 1),       square(2, 48, 6, 6, 24, 3, 1, 1, 1, 3),
                           square(2, 5, 8, 4, 7, 5, 1, 2, 1, 1),         square(2, 96, 15, 14, 96, 3, 1, 1, 1, 96),
                           square(2, 40, 13, 12, 40, 5, 2, 2, 1, 40),    square(2, 9, 8, 8, 9, 3, 1, 1, 1, 9),
                           square(2, 132, 29, 30, 132, 3, 2, 1, 1, 132), square(2, 64, 16, 15, 64, 7, 1, 3, 1, 64),
                           square(3, 256, 1, 1, 1000, 1, 1, 0, 1, 1),    square(9, 1024, 14, 14, 256, 1, 1, 0, 1, 1),
                           square(5, 128, 28, 28, 128, 3, 1, 1, 1, 1),   square(40, 2048, 1, 1, 1000, 1, 1, 0, 1, 1),
                           square(2, 192, 8, 8, 192, 3, 1, 1, 1, 8),     square(2, 120, 12, 14, 120, 3, 1, 1, 1, 5),
                           square(2, 168, 10, 9, 168, 3, 2, 1, 1, 7),    square(2, 36, 12, 9, 68, 3, 1, 1, 1, 1),
                           square(2, 96, 14, 8, 192, 3, 1, 1, 1, 4),     square(2, 264, 7, 7, 112, 1, 1, 0, 1, 1),
                           square(3, 24, 9, 5, 8, 1, 1, 0, 1, 1),        square(5, 16, 31, 33, 40, 1, 1, 0, 1, 1),
                           square(1, 960, 7, 7, 160, 1, 1, 0, 1, 1),     square(2, 120, 28, 27, 144, 1, 1, 0, 1, 1)};

/// Those that divide K.
bool splits_sums(std::string_view kernel) { return kernel == "int8_wgmma" || kernel == "narrow"; }

class EightBitConvolutions : public OnGpu {
 protected:
  static void expect_alike(const Made& made, const std::string& what) {
    const Tensor expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(),
                                       [&] {
                                         RunOptions options = made.options;
                                         options.kernel = "int8_direct";
                                         return options;
                                       }())
                                .run();
    int kernels = 0;
    for (const std::string_view kernel :
         {"int8_stem", "int8_depthwise", "narrow", "int8_mma", "int8_wgmma", "int8_direct"}) {
      for (const int splits : {0, 1, 2}) {
        RunOptions options = made.options;
        options.kernel = kernel, options.tuning.splits = splits;
        if (splits > 1 && kernel == "int8_wgmma" && made.problem.geometry.reduction() <= 256) continue;
        const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), options);
        if (!run.taken() || (splits > 0 && !splits_sums(kernel))) continue;
        ++kernels;
        const Tensor actual = run.run();
        const auto* const a = static_cast<const std::byte*>(actual.raw());
        const auto* const e = static_cast<const std::byte*>(expected.raw());
        const auto differs = std::mismatch(a, a + actual.bytes(), e).first - a;
        EXPECT_EQ(differs, static_cast<std::ptrdiff_t>(actual.bytes()))
            << kernel << ", " << splits << " splits, " << what << ": first byte that differs";
      }
    }
    EXPECT_GE(kernels, 1) << what;
  }
};

TEST_P(EightBitConvolutions, HaveTheBitsOfThePlainLoops) {
  for (const ConvCase& l : layers) {
    for (const DType input : {DType::u8, DType::i8}) {
      for (const End end : {End::codes, End::float_bias, End::floats, End::halves, End::sums}) {
        expect_alike(make(l, input, end),
                     detail::concat(describe(geometry_of(l)), ", ", input, ", end ", static_cast<int>(end)));
      }
    }
  }
}

TEST_P(EightBitConvolutions, OfWeightsWithZeroPoints) {
  for (const ConvCase& l : layers) {
    if (l.in_channels > 256) continue;
    expect_alike(make(l, DType::u8, End::codes, true),
                 detail::concat(describe(geometry_of(l)), ", weights with zero points"));
  }
}

TEST_P(EightBitConvolutions, OfEveryTile) {
  for (int tile = 0; tile < 26; ++tile) {
    const bool narrow = tile >= 13;
    const ConvCase l = narrow ? square(3, 184, 14, 3, 200, 1, 1, 0) : square(3, 192, 14, 14, 200, 3, 1, 1);
    for (const int multicast : {1, 2}) {
      Made made = make(l, tile % 2 == 0 ? DType::u8 : DType::i8, End::codes);
      made.options.tuning = {.tile = tile % 13, .splits = narrow ? multicast : 1, .multicast = multicast};
      made.options.kernel = narrow ? "narrow" : "int8_wgmma";
      const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), made.options);
      if (!run.taken()) continue;
      RunOptions plain = made.options;
      plain.kernel = "int8_direct", plain.tuning = {};
      const Tensor actual = run.run(),
                   expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(), plain).run();
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0) << "tile " << tile << ", " << multicast;
    }
  }
}

TEST_P(EightBitConvolutions, OfEveryTileOfMma) {
  const ConvCase cases[] = {square(2, 104, 9, 11, 104, 3, 1, 1, 1, 13), square(2, 168, 14, 9, 168, 3, 2, 1, 1, 7),
                            square(3, 96, 7, 8, 64, 3, 1, 1, 1, 2),     square(2, 324, 9, 10, 140, 3, 1, 2, 2, 1),
                            square(2, 60, 12, 13, 150, 1, 2, 0, 1, 3),  square(5, 58, 3, 4, 250, 1, 1, 0, 1, 1),
                            square(1, 48, 15, 8, 336, 5, 3, 2, 1, 2),   square(2, 24, 20, 21, 26, 2, 1, 0, 1, 1)};
  std::map<int, int> taken;
  for (const ConvCase& l : cases) {
    for (const DType type : {DType::u8, DType::i8}) {
      Made made = make(l, type, End::codes);
      RunOptions plain = made.options;
      plain.kernel = "int8_direct", made.options.kernel = "int8_mma";
      const Tensor expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(), plain).run();
      for (int tile = 0; tile < 9; ++tile) {
        made.options.tuning.tile = tile;
        const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), made.options);
        if (!run.taken()) continue;
        ++taken[tile];
        const Tensor actual = run.run();
        EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
            << describe(geometry_of(l)) << ", " << type << ", tile " << tile;
      }
    }
  }
  for (int tile = 0; tile < 9; ++tile) EXPECT_GE(taken[tile], describe(gpu()).architecture >= 80 ? 6 : 0) << tile;
}

TEST_P(EightBitConvolutions, AddTheirCodesToOthers) {
  const PointwiseStep add = {.function = Pointwise::add, .operand = 1};
  const PointwiseChain chains[] = {
      {add}, {add, {Pointwise::relu}}, {add, {.function = Pointwise::clip, .a = -1.5, .b = 9}}};
  int taken = 0;
  for (const ConvCase& l : layers) {
    if (l.groups != 1 || l.out_channels % 16 != 0) continue;
    for (const DType type : {DType::u8, DType::i8}) {
      Made made = make(l, type, End::codes);
      made.problem.epilogue = {};
      const Quantization input = made.options.quantizations[0], addend = made.options.quantizations[1],
                         other = {0.11f, type == DType::u8 ? 130 : 4}, to = {0.37f, type == DType::u8 ? 7 : -31};
      const Tensor others = random_codes(made.output, type, 3);
      RunOptions plain = made.options;
      plain.kernel = "int8_direct";
      const Tensor alone = ProblemRun(made.problem, {made.x}, made.output, type, Device::cpu(), plain).run();
      made.problem.eight.codes = addend, made.problem.eight.codes_type = type;
      for (const PointwiseChain& chain : chains) {
        made.problem.epilogue.chain = chain;
        const Tensor expected = run_problem(PointwiseProblem{.chain = chain}, {alone, others}, made.output, type,
                                            Device::cpu(), {.quantizations = {addend, other, to}});
        for (int tile = -1; tile < 13; ++tile) {
          for (const int splits : {1, 2}) {
            if (tile >= 0 && &chain != &chains[2]) continue;
            // What is split has several steps.
            if (splits > 1 && made.problem.geometry.reduction() <= 256) continue;
            RunOptions options = made.options;
            options.inputs = {Layout::nhwc, Layout::nhwc}, options.quantizations = {input, other, to};
            options.tuning = {.tile = tile, .splits = splits};
            for (const std::string_view kernel : {"int8_wgmma", "int8_mma", "narrow"}) {
              if (kernel == "int8_mma" && splits > 1) continue;
              options.kernel = kernel;
              const ProblemRun run(made.problem, {made.x, others}, made.output, type, gpu(), options);
              if (!run.taken()) continue;
              ++taken;
              const Tensor actual = run.run();
              EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
                  << kernel << ", " << describe(geometry_of(l)) << ", " << type << ", chain of " << chain.size()
                  << ", tile " << tile << ", " << splits << " splits";
            }
          }
        }
      }
    }
  }
  EXPECT_GE(taken, describe(gpu()).wgmma ? 100 : 0);
}

TEST_P(EightBitConvolutions, LookUpTheirCodes) {
  int taken = 0;
  for (const ConvCase& l : layers) {
    for (const DType type : {DType::u8, DType::i8}) {
      Made made = make(l, type, End::codes);
      made.problem.epilogue = {};
      RunOptions options = made.options;
      options.kernel = "int8_direct";
      const Tensor alone = ProblemRun(made.problem, {made.x}, made.output, type, Device::cpu(), options).run();
      made.problem.eight.codes = options.quantizations[1], made.problem.eight.codes_type = type;
      made.problem.eight.table = random_table(7);
      const Tensor expected = looked_up(alone, *made.problem.eight.table);
      options.quantizations[1] = {0.7f, 3};
      for (const std::string_view kernel : {"int8_stem", "int8_depthwise", "narrow", "int8_mma", "int8_wgmma"}) {
        for (const int splits : {1, 2}) {
          if (splits > 1 && (!splits_sums(kernel) || made.problem.geometry.reduction() <= 256)) continue;
          options.kernel = kernel, options.tuning.splits = splits;
          const ProblemRun run(made.problem, {made.x}, made.output, type, gpu(), options);
          if (!run.taken()) continue;
          ++taken;
          const Tensor actual = run.run();
          EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
              << kernel << ", " << describe(geometry_of(l)) << ", " << type << ", " << splits << " splits";
        }
      }
    }
  }
  EXPECT_GE(taken, describe(gpu()).wgmma ? 40 : 0);
}

/// A first layer that makes the codes of its pixels, finds the largest of its own, or both: as one step after the
/// other.
TEST_P(EightBitConvolutions, RoundTheirPixelsAndPool) {
  struct First {
    ConvCase conv;
    int around_rows, around_columns;  // the windows of the pooling
    bool up;
  };
  const First firsts[] = {
      {square(2, 3, 61, 64, 64, 7, 2, 3), 1, 1, false},     {square(1, 3, 250, 251, 64, 7, 2, 3), 1, 1, false},
      {square(200, 3, 32, 32, 64, 7, 2, 3), 1, 1, false},   {square(2, 3, 62, 75, 64, 3, 2, 0), 0, 0, true},
      {square(2, 1, 40, 47, 24, 3, 2, 1), 1, 1, true},      {{2, 4, 31, 28, 16, 5, 6, 1, 1, 2, 1}, 0, 1, true},
      {{1, 3, 129, 500, 96, 7, 7, 2, 2, 2, 3}, 1, 0, true}, {square(3, 3, 5, 4, 8, 3, 2, 1), 1, 1, false}};
  int taken = 0;
  for (const First& first : firsts) {
    const ConvGeometry g = geometry_of(first.conv);
    const auto pooled = [&](int in, int around) { return (in + 2 * around - 3 + (first.up ? 1 : 0)) / 2 + 1; };
    const PoolProblem pool = {.kind = PoolKind::largest,
                              .geometry = {.planes = g.batch * g.out_channels,
                                           .in_height = g.out_height,
                                           .in_width = g.out_width,
                                           .out_height = pooled(g.out_height, first.around_rows),
                                           .out_width = pooled(g.out_width, first.around_columns),
                                           .kernel_height = 3,
                                           .kernel_width = 3,
                                           .stride_height = 2,
                                           .stride_width = 2,
                                           .padding_height = first.around_rows,
                                           .padding_width = first.around_columns}};
    const Shape small = {g.batch, g.out_channels, pool.geometry.out_height, pool.geometry.out_width};
    for (const DType type : {DType::u8, DType::i8}) {
      const Made made = make(first.conv, type, End::codes);
      const Quantization in = made.options.quantizations[0], out = made.options.quantizations[1];
      Tensor pixels = draw_floats(made.x.shape(), 4);
      pixels.values<float>()[7] = std::numeric_limits<float>::quiet_NaN(), pixels.values<float>()[9] = 1e30f;
      const Tensor codes = run_problem(PointwiseProblem{.chain = {{Pointwise::identity}}}, {pixels}, pixels.shape(),
                                       type, Device::cpu(), {.quantizations = {{}, in}});
      RunOptions plain = made.options;
      plain.kernel = "int8_direct";
      const Tensor map = run_problem(made.problem, {codes}, made.output, type, Device::cpu(), plain);
      const Tensor largest =
          run_problem(pool, {map}, small, type, Device::cpu(),
                      {.inputs = {Layout::nhwc}, .output = Layout::nhwc, .quantizations = {out, out}});
      for (const bool rounds : {false, true}) {
        for (const bool pools : {false, true}) {
          ConvProblem problem = made.problem;
          RunOptions options = {.output = Layout::nhwc, .kernel = "int8_stem", .quantizations = {in, out}};
          if (rounds) problem.eight.input = in, problem.eight.input_type = type, options.quantizations[0] = {};
          if (pools) problem.epilogue.pool = pool.geometry;
          const ProblemRun run(problem, {rounds ? pixels : codes}, pools ? small : made.output, type, gpu(), options);
          if (!run.taken()) continue;
          ++taken;
          const Tensor actual = run.run(), &expected = pools ? largest : map;
          EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
              << describe(g) << ", " << type << (rounds ? ", rounds" : "") << (pools ? ", pools" : "");
        }
      }
    }
  }
  EXPECT_EQ(taken, describe(gpu()).architecture >= 80 ? 60 : 0);  // four channels of numbers are too many
}

LAMINA_ON_GPUS(EightBitConvolutions);

}  // namespace
}  // namespace lamina::test
