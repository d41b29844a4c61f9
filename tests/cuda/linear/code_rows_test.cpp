// Fully connected layers of few rows of codes, beside the CPU's: the same bits, whatever becomes of the sums.

#include "lamina/cuda/linear/kernels.h"
#include "support/on_gpu.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test::code_rows_test {
namespace {

enum class End { codes, floats, meaning, table };

class LinearRowsOfCodes : public OnGpu {
 protected:
  static void expect_alike(std::int64_t rows, int in, int out, DType type, End end) {
    const Quantization from = {0.02f, type == DType::u8 ? 119 : -11}, to = {0.05f, type == DType::u8 ? 130 : 4};
    LinearProblem problem = {.rows = rows, .in = in, .out = out};
    EightBitWeights& eight = problem.eight;
    eight.weight = random_codes({out, in}, DType::i8, 1);
    eight.scale = Tensor({out});
    int o = 0;
    for (float& scale : eight.scale.values<float>()) scale = (0.04f + 0.003f * static_cast<float>(o++ % 7)) / 128;
    const bool floats = end == End::floats || end == End::meaning;
    RunOptions options = {.quantizations = {from, floats ? Quantization() : to}};
    if (end == End::floats) problem.epilogue.chain = {{Pointwise::relu}};
    if (end == End::meaning) problem.epilogue.chain = {to_codes(type, to)};
    const Tensor x = random_codes({rows, in}, type, 2);
    const DType result = floats ? DType::f32 : type;
    Tensor expected = run_problem(problem, {x}, {rows, out}, result, Device::cpu(), options);
    if (end == End::table) {
      problem.epilogue.chain = {to_codes(type, to), look_up(random_table(7))};
      expected = looked_up(expected, *problem.epilogue.table());
    }
    options.kernel = "int8_rows";
    const ProblemRun run(problem, {x}, {rows, out}, result, gpu(), options);
    ASSERT_TRUE(run.taken());
    const Tensor actual = run.run();
    EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0)
        << rows << " x " << in << " -> " << out << ", " << type << ", end " << static_cast<int>(end);
  }
};

/// Around the rows and terms that a warp takes at a time.
TEST_P(LinearRowsOfCodes, HaveTheBitsOfACpu) {
  for (const std::int64_t rows : {1, 2, 7, 8, 9, 32, 75}) {
    for (const auto& [in, out] : {std::pair{16, 1}, {48, 77}, {8, 3}, {512, 4}, {888, 130}, {1280, 1000}, {4112, 5}}) {
      for (const DType type : {DType::u8, DType::i8}) {
        for (const End end : {End::codes, End::floats, End::meaning, End::table}) {
          expect_alike(rows, in, out, type, end);
        }
      }
    }
  }
}

LAMINA_ON_GPUS(LinearRowsOfCodes);

}  // namespace
}  // namespace lamina::test::code_rows_test
