#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "support/pointwise_reference.h"
#include "support/run_problem.h"

namespace lamina::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Numbers at which something happens, and some between.
std::vector<double> awkward(DType dtype) {
  std::vector<double> values = {0.0, 1e-45, 1e-40, 1.2e-38, 1e-20, 1e-5,  0.1, 0.3, 0.5, 0.54, 0.65, 0.9, 0.99, 1,
                                1.5, 2,     2.5,   3,       4,     5.999, 6,   7,   8,   9.5,  16,   17,  20,   87,
                                88,  88.8,  89,    103,     104,   105,   300, 709, 710, 1e4,  1e5,  1e8, 3e38, inf};
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    values.push_back(std::uniform_real_distribution(0.0, 12.0)(random));
    values.push_back(std::exp(std::uniform_real_distribution(-90.0, 80.0)(random)));
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(nan);
  if (dtype == DType::f32) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  }
  return values;
}

Tensor floats_of(const std::vector<double>& values, DType dtype, Shape shape) {
  const Tensor wide = Tensor::from(values, shape);
  return wide.to(dtype);
}

/// Units in the last place of f32 or f64, of which subnormal numbers have larger ones.
double unit(double value, DType dtype) {
  const bool narrow = dtype == DType::f32;
  return std::max(std::abs(value) * (narrow ? 0x1p-23 : 0x1p-52), narrow ? 0x1p-149 : 0x1p-1074);
}

/// How far a function may be off: a few units in its last place, and what comes of an argument that was rounded.
double tolerance(Pointwise f, double v, double x, double want, DType dtype, Device device) {
  const bool narrow = dtype == DType::f32;
  double units = device.is_cuda() ? 6 : narrow ? 4 : 5;
  double more = 0;
  // Where a difference of two terms is all that is left, they are what counts.
  if (f == Pointwise::gelu || f == Pointwise::gelu_tanh) units += 3 * v * v * (f == Pointwise::gelu ? 1 : 1 + v * v);
  if (f == Pointwise::celu) units += 4 * std::abs(v / x);
  if (f == Pointwise::hard_sigmoid || f == Pointwise::hard_swish) more = unit(v, dtype) * 2 + unit(1, dtype);
  if (f == Pointwise::silu || f == Pointwise::mish) more = std::abs(v) * unit(0, dtype);  // the factor is subnormal
  if (f == Pointwise::shrink) more = unit(v, dtype);
  if (device.is_cuda() && narrow) more += 0x1p-126;  // results that are subnormal may be flushed
  return units * unit(want, dtype) + more;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, const std::vector<double>& bound,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool good = std::isnan(want[i])   ? std::isnan(got[i])
                      : std::isinf(want[i]) ? got[i] == want[i]
                                            : std::abs(got[i] - want[i]) <= bound[i];
    ASSERT_TRUE(good) << what << ": element " << i << " is " << got[i] << ", expected " << want[i] << " within "
                      << bound[i];
  }
}

bool is_float_function(Pointwise f) {
  return f != Pointwise::bit_not && f != Pointwise::bit_and && f != Pointwise::bit_or && f != Pointwise::bit_xor &&
         f != Pointwise::shift_left && f != Pointwise::shift_right;
}

/// Second and third operands that a function makes sense with.
std::vector<std::pair<double, double>> numbers_for(Pointwise f) {
  switch (f) {
    case Pointwise::pow: return {{2, 0}, {0.5, 0}, {-1, 0}, {3, 0}, {0, 0}, {nan, 0}};
    case Pointwise::elu:
    case Pointwise::celu: return {{1, 0}, {0.25, 0}, {2.5, 0}};
    case Pointwise::clip: return {{-1, 1}, {0, 6}, {-inf, inf}, {2, -2}, {0, nan}};
    case Pointwise::where: return {{2, 3}, {nan, 1}, {1, inf}};
    case Pointwise::hard_sigmoid: return {{0.2, 0.5}, {1.0 / 6, 0.5}};
    case Pointwise::selu: return {{1.6732632423543772, 1.0507009873554805}};
    case Pointwise::shrink: return {{0, 0.5}, {0.5, 0.5}};
    case Pointwise::is_inf: return {{1, 1}, {0, 1}, {1, 0}};
    default: return {{1.5, 0}, {-2.25, 0}, {0, 0}, {inf, 0}, {nan, 0}};
  }
}

TEST(Pointwise, IsWhatTheReferenceSays) {
  for (const Device device : devices_here()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::vector<double> values = awkward(dtype);
      const Shape shape = {static_cast<std::int64_t>(values.size())};
      for (const PointwiseFunction& f : pointwise_functions()) {
        if (!is_float_function(f.function)) continue;
        for (auto [x, y] : numbers_for(f.function)) {
          if (dtype == DType::f32) {
            x = static_cast<double>(static_cast<float>(x));
            y = static_cast<double>(static_cast<float>(y));
          }
          std::vector<double> want, bound;
          for (const double v : values) {
            double w = reference(f.function, v, x, y);
            if (dtype == DType::f32) w = static_cast<double>(static_cast<float>(w));
            want.push_back(w);
            bound.push_back(tolerance(f.function, v, x, w, dtype, device));
          }
          const PointwiseProblem problem = {{{f.function, -1, -1, x, y}}, dtype};
          const Tensor got = run_problem(problem, {floats_of(values, dtype, shape)}, shape, dtype, device);
          std::string what = detail::concat(f.name, " of ", dtype, " on ", device, ", ", x, ", ", y);
          const std::vector<double> results = doubles(got);
          // Name the argument too.
          for (std::size_t i = 0; i < results.size(); ++i) {
            if (std::isnan(want[i]) || std::isinf(want[i]) || std::abs(results[i] - want[i]) <= bound[i]) continue;
            what += detail::concat(" at ", values[i]);
            break;
          }
          expect_close(results, want, bound, what);
          if (f.operands == 1) break;
        }
      }
    }
  }
}

TEST(Pointwise, OfWholeNumbersWrapsAndNeverTraps) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> v = {least, least + 1, -1000, -7, -2, -1,   0,        1,
                                       2,     3,         7,     63, 64, 1000, most - 1, most};
  std::vector<std::int64_t> left, right;
  for (const std::int64_t a : v) {
    for (const std::int64_t b : v) left.push_back(a), right.push_back(b);
  }
  const Shape shape = {static_cast<std::int64_t>(left.size())};
  for (const Device device : devices_here()) {
    for (const PointwiseFunction& f : pointwise_functions()) {
      const auto run = [&](auto zero) {
        using T = decltype(zero);
        const std::vector<T> a(left.begin(), left.end()), b(right.begin(), right.end());
        const PointwiseProblem problem = {{{f.function, 1, 2}}, dtype_of<T>};
        const ProblemRun<PointwiseProblem> task(
            problem, {Tensor::from(a, shape), Tensor::from(b, shape), Tensor::from(a, shape)}, shape, dtype_of<T>,
            device);
        ASSERT_EQ(task.taken(), has_whole_reference(f.function)) << f.name;
        if (!task.taken()) return;
        const Tensor got = task.run();
        for (std::size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(got.values<T>()[i], whole_reference(f.function, a[i], b[i], a[i]))
              << f.name << " of " << a[i] << ", " << b[i] << " on " << device;
        }
      };
      run(std::int64_t{});
      run(std::uint64_t{});
    }
  }
}

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
  return floats_of(values, dtype, shape);
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
                         : static_cast<double>(static_cast<std::int8_t>(sum));
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
}  // namespace lamina::test
