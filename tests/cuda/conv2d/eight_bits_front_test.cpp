// First layers of codes on a GPU beside the CPU's plain loops: what they do besides multiplying.

#include <limits>

#include "cuda/conv2d/eight_bits.h"
#include "support/on_gpu.h"

namespace lamina::test::eight_bits_front_test {
namespace {

class EightBitFronts : public OnGpu {};

/// A first layer that makes the codes of its pixels, finds the largest of its own, or both: as one step after the
/// other.
TEST_P(EightBitFronts, RoundTheirPixelsAndPool) {
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
          if (rounds) problem.prologue = {to_codes(type, in)}, options.quantizations[0] = {};
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

LAMINA_ON_GPUS(EightBitFronts);

}  // namespace
}  // namespace lamina::test::eight_bits_front_test
