// Convolutions of codes on a GPU beside the CPU's plain loops: the same bits, whichever kernel, tile and batch.

#include <map>

#include "cuda/conv2d/eight_bits.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test::eight_bits_test {
namespace {

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
    for (const auto& [multicast, end] :
         {std::pair(1, End::codes), std::pair(2, End::codes), std::pair(1, End::halves)}) {
      Made made = make(l, tile % 2 == 0 ? DType::u8 : DType::i8, end);
      made.options.tuning = {.tile = tile % 13, .splits = narrow ? multicast : 1, .multicast = multicast};
      made.options.kernel = narrow ? "narrow" : "int8_wgmma";
      const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), made.options);
      if (!run.taken()) continue;
      RunOptions plain = made.options;
      plain.kernel = "int8_direct", plain.tuning = {};
      const Tensor actual = run.run(),
                   expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(), plain).run();
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
          << "tile " << tile << ", " << multicast << ", end " << static_cast<int>(end);
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
      for (const PointwiseChain& chain : chains) {
        made.problem.epilogue.chain = {to_codes(type, addend)};
        std::ranges::copy(chain, std::back_inserter(made.problem.epilogue.chain));
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
      made.problem.epilogue.chain = {to_codes(type, options.quantizations[1]), look_up(random_table(7))};
      const Tensor expected = looked_up(alone, *made.problem.epilogue.table());
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

LAMINA_ON_GPUS(EightBitConvolutions);

}  // namespace
}  // namespace lamina::test::eight_bits_test
