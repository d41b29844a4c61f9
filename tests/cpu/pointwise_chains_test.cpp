
#include <random>

#include "support/pointwise_reference.h"
#include "support/run_problem.h"

/// Chains over operands that broadcast, of any dtype and layout; pointwise_test.cpp has what each function is.
namespace lamina::test::pointwise_chains_test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Element `index` of a row-major output, of an operand that broadcasts to it.
std::int64_t place(const Shape& from, const Shape& to, std::int64_t index) {
  std::int64_t offset = 0, stride = 1;
  for (int d = 1; d <= static_cast<int>(to.rank()); ++d) {
    const std::int64_t at = index % to[-d];
    index /= to[-d];
    if (d > static_cast<int>(from.rank())) continue;
    if (from[-d] != 1) offset += at * stride;
    stride *= from[-d];
  }
  return offset;
}

struct Broadcast {
  Shape output;
  std::vector<Shape> inputs;
};

const std::vector<Broadcast>& broadcasts() {
  static const std::vector<Broadcast> all = {
      {{1}, {{1}, {1}, {1}}},
      {{}, {{}, {}, {}}},
      {{7}, {{7}, {1}, {}}},
      {{5000}, {{1}, {5000}, {5000}}},
      {{2, 3, 5, 7}, {{2, 3, 5, 7}, {3, 1, 1}, {7}}},
      {{2, 8, 6, 4}, {{2, 8, 6, 4}, {1, 8, 1, 1}, {2, 8, 1, 1}}},
      {{3, 16, 9, 9}, {{3, 16, 1, 1}, {3, 16, 9, 9}, {1, 1, 9, 9}}},
      {{2, 64, 16, 16}, {{2, 64, 16, 16}, {64, 1, 1}, {2, 1, 16, 16}}},
      {{4, 3}, {{4, 1}, {1, 3}, {4, 3}}},
      {{1000, 3}, {{3}, {1000, 1}, {1000, 3}}},
      {{0, 3}, {{1, 3}, {0, 3}, {3}}},
      {{2, 1, 3, 1, 2, 3, 2, 5}, {{2, 1, 1, 1, 2, 1, 2, 5}, {1, 3, 1, 1, 3, 1, 5}, {2, 1, 3, 1, 2, 3, 2, 1}}},
  };
  return all;
}

/// Small whole numbers, which every dtype but boolean holds.
Tensor small_numbers(const Shape& shape, DType dtype, int seed) {
  std::vector<double> values;
  std::mt19937 random(static_cast<unsigned>(seed));
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(dtype == DType::boolean ? static_cast<double>(random() % 2) : static_cast<double>(random() % 11));
  }
  return Tensor::from(values, shape).to(dtype);
}

/// Whether there are operands of the output's size, but none in its layout.
bool turns_layout(const Broadcast& b, const RunOptions& options) {
  bool any = false;
  for (std::size_t i = 0; i < b.inputs.size(); ++i) {
    if (b.inputs[i] != b.output) continue;
    if (options.inputs[i] == options.output) return false;
    any = true;
  }
  return any;
}

TEST(Pointwise, BroadcastsOperandsOfAnyDtypeAndLayout) {
  constexpr DType types[] = {DType::boolean, DType::u8,  DType::i8,  DType::u16,  DType::i16, DType::u32, DType::i32,
                             DType::u64,     DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
  constexpr Layout layouts[] = {Layout::nchw, Layout::nhwc};
  int seed = 0;
  for (const Device device : devices_here()) {
    for (const Broadcast& b : broadcasts()) {
      for (const DType compute : {DType::f32, DType::f64, DType::i64, DType::u64}) {
        for (int round = 0; round < 8; ++round, ++seed) {
          std::vector<Tensor> inputs;
          RunOptions options;
          for (int i = 0; i < 3; ++i) {
            // First the dtype of the arithmetic itself, and one layout, then all of them.
            const DType dtype = round < 2 ? compute : types[static_cast<std::size_t>(seed + 5 * i) % std::size(types)];
            inputs.push_back(small_numbers(b.inputs[static_cast<std::size_t>(i)], dtype, seed * 3 + i));
            options.inputs.push_back(layouts[round < 4 ? round % 2 : (seed >> i) % 2]);
          }
          options.output = layouts[round % 2];
          const DType to = round < 2 ? compute : types[static_cast<std::size_t>(seed * 7) % std::size(types)];
          const PointwiseProblem problem = {{{Pointwise::add, 1}, {Pointwise::mul, 2}, {Pointwise::max, -1, -1, 5}},
                                            compute};
          const ProblemRun<PointwiseProblem> task(problem, inputs, b.output, to, device, options);
          // A GPU does not turn the layout of a whole array on the way, if none lies as the output does.
          ASSERT_TRUE(task.taken() || turns_layout(b, options)) << b.output << " on " << device;
          if (!task.taken()) continue;
          const Tensor got = task.run();
          const std::vector<double> a = doubles(inputs[0]), x = doubles(inputs[1]), y = doubles(inputs[2]);
          const std::vector<double> results = doubles(got);
          for (std::int64_t i = 0; i < b.output.numel(); ++i) {
            const auto at = [&](const std::vector<double>& v, int input) {
              return v[static_cast<std::size_t>(place(b.inputs[static_cast<std::size_t>(input)], b.output, i))];
            };
            const double sum = std::max((at(a, 0) + at(x, 1)) * at(y, 2), 5.0);  // at most 200
            double want = to == DType::boolean ? 1 : sum;
            if (to == DType::i8) {
              want = compute == DType::f32 || compute == DType::f64
                         ? std::min(sum, 127.0)
                         : static_cast<double>(static_cast<std::int8_t>(static_cast<int>(sum)));
            }
            ASSERT_EQ(results[static_cast<std::size_t>(i)], want)
                << "element " << i << " of " << b.output << ' ' << to << " by " << compute << " on " << device
                << ", inputs " << inputs[0].description() << ", " << inputs[1].description() << ", "
                << inputs[2].description();
          }
        }
      }
    }
  }
}

TEST(Pointwise, ConvertsAsCastsDo) {
  const auto cast = [](const Tensor& from, DType compute, DType to, Device device) {
    return doubles(run_problem(PointwiseProblem{{}, compute}, {from}, from.shape(), to, device));
  };
  for (const Device device : devices_here()) {
    const std::vector<double> values = {-inf, -1e30, -300.5, -129, -1.75, -0.5, 0,
                                        0.5,  1.75,  255.9,  256,  1e30,  inf,  nan};
    const Tensor wide = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
    using V = std::vector<double>;
    for (const DType compute : {DType::f32, DType::f64}) {
      const Tensor from = compute == DType::f32 ? wide.to(DType::f32) : wide;
      EXPECT_EQ(cast(from, compute, DType::i8, device),
                (V{-128, -128, -128, -128, -1, 0, 0, 0, 1, 127, 127, 127, 127, 0}));
      EXPECT_EQ(cast(from, compute, DType::u8, device), (V{0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 0}));
      EXPECT_EQ(cast(from, compute, DType::boolean, device), (V{1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1}));
      const Tensor whole = run_problem(PointwiseProblem{{}, compute}, {from}, from.shape(), DType::i64, device);
      EXPECT_EQ(whole.values<std::int64_t>()[0], std::numeric_limits<std::int64_t>::min());
      EXPECT_EQ(whole.values<std::int64_t>()[12], std::numeric_limits<std::int64_t>::max());
      EXPECT_EQ(whole.values<std::int64_t>()[13], 0);
    }
    // Whole numbers lose their upper bits; read as signed or not, they keep them.
    const Tensor big = Tensor::from(std::vector<std::int64_t>{257, -1, 128, 1LL << 40, -129}, {5});
    EXPECT_EQ(cast(big, DType::i64, DType::i8, device), (V{1, -1, -128, 0, 127}));
    EXPECT_EQ(cast(big, DType::i64, DType::u16, device), (V{257, 65535, 128, 0, 65407}));
    EXPECT_EQ(cast(big, DType::u64, DType::u8, device), (V{1, 255, 128, 0, 127}));
    // Once to nearest even, not twice: just past the middle between two f16, two bf16.
    const Tensor twice =
        Tensor::from(V{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-8 + 0x1p-40}, {4});
    EXPECT_EQ(cast(twice, DType::f64, DType::f16, device), (V{1 + 0x1p-10, 1, 1 + 0x1p-9, 1 + 0x1p-8}));
    EXPECT_EQ(cast(twice, DType::f64, DType::bf16, device), (V{1, 1, 1, 1 + 0x1p-7}));
    const Tensor long_ones =
        Tensor::from(std::vector<std::int64_t>{(1LL << 62) + (1LL << 54) + 1, 65504, 65520, -70000}, {4});
    EXPECT_EQ(cast(long_ones, DType::i64, DType::bf16, device), (V{0x1p62 + 0x1p55, 65536, 65536, -70144}));
    EXPECT_EQ(cast(long_ones, DType::i64, DType::f16, device), (V{inf, 65504, inf, -inf}));
    const std::vector<std::uint8_t> truth = {0, 1, 2, 255};
    const Tensor booleans = Tensor::from(truth, {4}).reinterpret({4}, DType::boolean);
    EXPECT_EQ(doubles(run_problem(PointwiseProblem{{}, DType::i64}, {booleans}, {4}, DType::i64, device)),
              (V{0, 1, 1, 1}));
  }
}

TEST(Pointwise, ChainsReadTheirInputsAgain) {
  std::mt19937 random(5);
  std::vector<float> values(3001), other(3001);
  for (float& v : values) v = std::normal_distribution<float>(0, 3)(random);
  for (float& v : other) v = std::normal_distribution<float>(0, 3)(random);
  const Shape shape = {3001};
  // x sigmoid(x) + other, then that where it is above other and -1 where not.
  const PointwiseProblem problem = {{{Pointwise::sigmoid},
                                     {Pointwise::mul, 0},
                                     {Pointwise::add, 1},
                                     {Pointwise::max, 1},
                                     {Pointwise::clip, -1, 1, -2.0}}};
  for (const Device device : devices_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const bool in_place : {false, true}) {
        const Tensor a = Tensor::from(values, shape).to(dtype), b = Tensor::from(other, shape).to(dtype);
        const Tensor got = run_problem(problem, {a, b}, shape, dtype, device, {.in_place = in_place});
        const std::vector<double> x = doubles(a), y = doubles(b), results = doubles(got);
        const double share = dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double sum = std::max(x[i] / (1 + std::exp(-x[i])) + y[i], y[i]);
          const double want = std::min(std::max(sum, -2.0), y[i]);
          ASSERT_NEAR(results[i], want, share * (std::abs(x[i]) + std::abs(y[i])))
              << i << " of " << dtype << " on " << device;
        }
      }
    }
  }
}

TEST(Pointwise, ComparesIntoBooleans) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, NAN}, {4}), b = Tensor::from(std::vector<float>{2}, {1});
  using V = std::vector<double>;
  for (const Device device : devices_here()) {
    const auto run = [&](PointwiseChain chain) {
      return doubles(run_problem(PointwiseProblem{std::move(chain)}, {a, b}, {4}, DType::boolean, device));
    };
    EXPECT_EQ(run({{Pointwise::less, 1}}), (V{1, 0, 0, 0}));
    EXPECT_EQ(run({{Pointwise::greater_equal, 1}}), (V{0, 1, 1, 0}));
    EXPECT_EQ(run({{Pointwise::equal, 1}, {Pointwise::logical_not}}), (V{1, 0, 1, 1}));
  }
}

TEST(Pointwise, TakesWhatItCanComputeAndNothingElse) {
  const Tensor f = Tensor::from(std::vector<float>{1, 2}, {2}), three = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  for (const Device device : devices_here()) {
    const auto taken = [&](const PointwiseProblem& problem, std::vector<Tensor> inputs) {
      return ProblemRun<PointwiseProblem>(problem, inputs, {2}, DType::f32, device).taken();
    };
    EXPECT_TRUE(taken({{{Pointwise::erf}}}, {f}));
    EXPECT_FALSE(taken({{{Pointwise::erf}}, DType::i64}, {f}));
    EXPECT_FALSE(taken({{{Pointwise::bit_not}}}, {f}));
    EXPECT_TRUE(taken({{{Pointwise::bit_not}}, DType::u64}, {f}));
    EXPECT_FALSE(taken({{{Pointwise::add, 1}}}, {f}));
    EXPECT_FALSE(taken({{{Pointwise::add, 1}}}, {f, three}));
    EXPECT_FALSE(taken({{{Pointwise::erf}}, DType::i32}, {f}));
  }
}

}  // namespace
}  // namespace lamina::test::pointwise_chains_test
