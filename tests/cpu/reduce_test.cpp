
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/run_problem.h"

namespace lamina::test::reduce_test {
namespace {

constexpr Reduction kinds[] = {Reduction::sum,     Reduction::mean,        Reduction::max,     Reduction::min,
                               Reduction::prod,    Reduction::l1,          Reduction::l2,      Reduction::sum_square,
                               Reduction::log_sum, Reduction::log_sum_exp, Reduction::arg_max, Reduction::arg_min};

bool finds_place(Reduction kind) { return kind == Reduction::arg_max || kind == Reduction::arg_min; }

Shape reduced_shape(const Shape& shape, unsigned dims, bool keep) {
  std::vector<std::int64_t> extents;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (!(dims >> d & 1u))
      extents.push_back(shape[static_cast<int>(d)]);
    else if (keep)
      extents.push_back(1);
  }
  return Shape(extents);
}

/// The elements of each output, in order.
std::vector<std::vector<double>> groups(const std::vector<double>& values, const Shape& shape, unsigned dims) {
  std::vector<std::vector<double>> result(static_cast<std::size_t>(reduced_shape(shape, dims, false).numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0, stride = 1;
    for (int d = static_cast<int>(shape.rank()) - 1; d >= 0; --d) {
      if (!(dims >> d & 1u)) place += rest % shape[d] * stride, stride *= shape[d];
      rest /= shape[d];
    }
    result[static_cast<std::size_t>(place)].push_back(values[i]);
  }
  return result;
}

struct Truth {
  double value = 0;
  double scale = 0;  ///< of the terms that were added
};

Truth reference(const ReduceProblem& problem, const std::vector<double>& x, bool whole) {
  long double sum = 0, absolute = 0, squares = 0, product = 1, exponentials = 0;
  double largest = -INFINITY, least = INFINITY;
  std::size_t place = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i], absolute += std::abs(x[i]), squares += static_cast<long double>(x[i]) * x[i], product *= x[i];
    if (std::isnan(x[i]) || x[i] > largest) largest = std::isnan(largest) ? largest : x[i];
    if (std::isnan(x[i]) || x[i] < least) least = std::isnan(least) ? least : x[i];
    const double best = x[place];
    const bool more = problem.kind == Reduction::arg_max ? x[i] > best : x[i] < best;
    const bool equal = x[i] == best || (std::isnan(x[i]) && std::isnan(best));
    if (i > 0 && ((std::isnan(x[i]) && !std::isnan(best)) || (more && !std::isnan(best)) || (problem.last && equal)))
      place = i;
  }
  for (const double v : x) exponentials += std::exp(static_cast<long double>(v) - largest);
  const auto d = [](long double v) { return static_cast<double>(v); };
  switch (problem.kind) {
    case Reduction::sum: return {d(sum), d(absolute)};
    case Reduction::mean: {
      const long double mean = sum / static_cast<long double>(x.size());
      return {d(whole ? std::trunc(mean) : mean), d(absolute / static_cast<long double>(x.size()))};
    }
    case Reduction::max: return {largest, 0};
    case Reduction::min: return {least, 0};
    case Reduction::prod: return {d(product), std::abs(d(product)) * static_cast<double>(x.size() + 1)};
    case Reduction::l1: return {d(absolute), d(absolute)};
    case Reduction::l2: return {d(whole ? std::trunc(std::sqrt(squares)) : std::sqrt(squares)), d(std::sqrt(squares))};
    case Reduction::sum_square: return {d(squares), d(squares)};
    case Reduction::log_sum: {
      const long double log = std::log(sum);
      return {d(whole ? std::trunc(log) : log), 1 + std::abs(d(absolute / sum)) + std::abs(d(log))};
    }
    case Reduction::log_sum_exp: {
      const long double log =
          std::isfinite(largest) ? largest + std::log(exponentials) : static_cast<long double>(largest);
      return {d(whole ? std::trunc(log) : log), 1 + std::abs(d(log))};
    }
    default: return {static_cast<double>(place), 0};
  }
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return 4e-7;
    case DType::f64: return 1e-13;
    default: return 0;
  }
}

/// Every output within a few roundings of the truth.
void expect_reduced(const ReduceProblem& problem, const Tensor& input, bool keep, Device device,
                    const RunOptions& options = {}) {
  const Shape shape = reduced_shape(input.shape(), problem.dims, keep);
  const DType dtype = finds_place(problem.kind) ? DType::i64 : input.dtype();
  const std::vector<double> got = doubles(run_problem(problem, {input}, shape, dtype, device, options));
  const auto all = groups(doubles(input), input.shape(), problem.dims);
  const bool whole = epsilon(input.dtype()) == 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Truth truth = reference(problem, all[i], whole);
    const double bound = epsilon(dtype) * (truth.scale + std::abs(truth.value) + 1e-4);
    const bool good =
        std::isnan(truth.value) ? std::isnan(got[i]) : got[i] == truth.value || std::abs(got[i] - truth.value) <= bound;
    ASSERT_TRUE(good) << "output " << i << " is " << got[i] << ", expected " << truth.value << " within " << bound
                      << "; kind " << static_cast<int>(problem.kind) << ", dims " << problem.dims << " of "
                      << input.shape() << ' ' << input.dtype() << (options.inputs.empty() ? "" : " nhwc") << ", last "
                      << problem.last << ", on " << device;
  }
}

Tensor numbers(const Shape& shape, DType dtype, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const bool whole = epsilon(dtype) == 0;
  const bool is_signed = dtype != DType::boolean && dtype != DType::u8 && dtype != DType::u16 && dtype != DType::u32 &&
                         dtype != DType::u64;
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const double v = std::normal_distribution<double>(0.3, 1)(random);
    values.push_back(dtype == DType::boolean ? v > 0.3
                     : whole                 ? (is_signed ? std::round(v * 3) : std::floor(std::abs(v) * 3))
                                             : v);
  }
  return Tensor::from(values, shape).to(dtype);
}

struct Case {
  Shape shape;
  std::vector<unsigned> dims;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{{1}, {1}},
                                        {{17}, {1, 0}},
                                        {{5, 1000}, {1, 2, 3}},
                                        {{3, 5, 7}, {1, 2, 4, 5, 6, 7}},
                                        {{2, 6, 9, 11}, {1, 2, 4, 8, 3, 12, 10, 14, 13, 15, 5}},
                                        {{2, 32, 14, 14}, {12, 2, 14, 8}},
                                        {{2, 1, 3, 2, 3, 1, 2, 5}, {0x55, 0xaa, 0x80, 0x0f}},
                                        {{1, 700, 3}, {2, 4, 6}},
                                        // whole packs, and few elements
                                        {{67, 16}, {2}},
                                        {{3, 4096}, {2, 3}},
                                        {{9, 2, 40}, {2, 4}},
                                        {{3, 3, 4, 5}, {2, 4}}};
  return all;
}

TEST(Reduce, IsWhatTheReferenceSays) {
  for (const Device device : devices_here()) {
    int seed = 0;
    for (const Case& c : cases()) {
      for (const unsigned dims : c.dims) {
        for (const Reduction kind : kinds) {
          if (finds_place(kind) && std::popcount(dims) != 1) continue;
          for (const DType dtype :
               {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::u8, DType::i64}) {
            // Products of many numbers leave the range of most types, and sums that of bytes.
            if (kind == Reduction::prod && (c.shape.numel() > 100 || dtype == DType::u8)) continue;
            if (dtype == DType::u8 && (c.shape.numel() > 100 || kind == Reduction::sum_square)) continue;
            if (kind == Reduction::log_sum && dtype != DType::f64 && dtype != DType::f32) continue;
            ++seed;
            expect_reduced({kind, dims, seed % 3 == 0}, numbers(c.shape, dtype, seed), seed % 2 == 0, device);
          }
        }
      }
    }
  }
}

TEST(Reduce, ReadsNhwc) {
  for (const Device device : devices_here()) {
    for (const Case& c : cases()) {
      if (c.shape.rank() != 4) continue;
      for (const unsigned dims : c.dims) {
        for (const Reduction kind : kinds) {
          if ((finds_place(kind) && std::popcount(dims) != 1) || kind == Reduction::prod || kind == Reduction::log_sum)
            continue;
          for (const bool keep : {false, true}) {
            for (const Layout output : {Layout::nchw, Layout::nhwc}) {
              expect_reduced({kind, dims}, numbers(c.shape, keep ? DType::f32 : DType::f16, 5), keep, device,
                             {.inputs = {Layout::nhwc}, .output = output});
            }
          }
        }
      }
    }
  }
}

TEST(Reduce, DoesNotLoseToTheLength) {
  // All positive: a sum in one f32 drifts.
  std::vector<float> values(400009);
  std::mt19937 random(9);
  for (float& v : values) v = std::uniform_real_distribution<float>(0.5f, 1)(random);
  const Tensor row = Tensor::from(values, {400009});
  values.resize(399999);
  const Tensor columns = Tensor::from(values, {133333, 3});
  for (const Device device : devices_here()) {
    for (const Reduction kind :
         {Reduction::sum, Reduction::mean, Reduction::l2, Reduction::log_sum_exp, Reduction::max, Reduction::arg_min}) {
      expect_reduced({kind, 1}, row, true, device);
      expect_reduced({kind, 1}, columns, true, device);
      expect_reduced({kind, 2}, columns, true, device);
    }
  }
}

TEST(Reduce, FindsNanAndInfinity) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> rows = {1,    NAN,  3,    NAN,  2,    -inf, 1,    2, 3, 0, inf, 1, inf, 2, 3,
                                   -inf, -inf, -inf, -inf, -inf, inf,  -inf, 0, 0, 1, 5,   5, 1,   1, 5};
  for (const Device device : devices_here()) {
    for (const Reduction kind : kinds) {
      for (const bool last : {false, true}) {
        expect_reduced({kind, 2, last}, Tensor::from(rows, {6, 5}), false, device);
        if (kind == Reduction::prod) continue;
        expect_reduced({kind, 1, last}, Tensor::from(rows, {5, 6}), false, device);
        expect_reduced({kind, 2, last}, Tensor::from(rows, {2, 5, 3}), false, device);
      }
    }
  }
}

TEST(Reduce, OfNothingIsTheIdentity) {
  using V = std::vector<double>;
  for (const Device device : devices_here()) {
    const auto of = [&](Reduction kind, DType dtype) {
      const ReduceProblem problem = {kind, 2};
      return doubles(run_problem(problem, {Tensor({2, 0, 1}, dtype)}, {2, 1}, dtype, device));
    };
    EXPECT_EQ(of(Reduction::sum, DType::f32), (V{0, 0}));
    EXPECT_EQ(of(Reduction::prod, DType::f32), (V{1, 1}));
    EXPECT_EQ(of(Reduction::prod, DType::i32), (V{1, 1}));
    EXPECT_EQ(of(Reduction::max, DType::f32), (V{-INFINITY, -INFINITY}));
    EXPECT_EQ(of(Reduction::min, DType::f16), (V{INFINITY, INFINITY}));
    EXPECT_EQ(of(Reduction::max, DType::i8), (V{-128, -128}));
    EXPECT_EQ(of(Reduction::min, DType::i64), (V{0x1p63, 0x1p63}));
    EXPECT_EQ(of(Reduction::log_sum_exp, DType::f32), (V{-INFINITY, -INFINITY}));
    EXPECT_EQ(of(Reduction::l2, DType::f32), (V{0, 0}));
    EXPECT_TRUE(std::isnan(of(Reduction::mean, DType::f32)[0]));
    EXPECT_EQ(doubles(run_problem(ReduceProblem{Reduction::sum, 2}, {Tensor({0, 3})}, {0, 1}, DType::f32, device)),
              V{});
  }
}

TEST(Reduce, WholeNumbersWrap) {
  const std::vector<std::int64_t> values = {std::numeric_limits<std::int64_t>::max(), 2, 3, -1, 1LL << 40, 1LL << 30};
  const Tensor input = Tensor::from(values, {2, 3});
  for (const Device device : devices_here()) {
    const auto of = [&](Reduction kind) {
      const Tensor got = run_problem(ReduceProblem{kind, 2}, {input}, {2}, DType::i64, device);
      return std::vector<std::int64_t>(got.values<std::int64_t>().begin(), got.values<std::int64_t>().end());
    };
    using V = std::vector<std::int64_t>;
    EXPECT_EQ(of(Reduction::sum), (V{std::numeric_limits<std::int64_t>::min() + 4, (1LL << 40) + (1LL << 30) - 1}));
    EXPECT_EQ(of(Reduction::prod)[0], static_cast<std::int64_t>(0x7fffffffffffffffu * 6u));
    EXPECT_EQ(of(Reduction::max), (V{std::numeric_limits<std::int64_t>::max(), 1LL << 40}));
    EXPECT_EQ(of(Reduction::arg_min), (V{1, 0}));
    // Bytes drop what they cannot hold; u64 are compared as such.
    const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{200, 100, 1}, {3});
    EXPECT_EQ(doubles(run_problem(ReduceProblem{Reduction::sum, 1}, {bytes}, {1}, DType::u8, device))[0], 45);
    const Tensor large = Tensor::from(std::vector<std::uint64_t>{~std::uint64_t{0}, 5, 1}, {3});
    const Tensor most = run_problem(ReduceProblem{Reduction::max, 1}, {large}, {1}, DType::u64, device);
    EXPECT_EQ(most.values<std::uint64_t>()[0], ~std::uint64_t{0});
  }
}

TEST(Reduce, RefusesWhatDoesNotFit) {
  const Tensor x({2, 3});
  const auto taken = [&](const ReduceProblem& problem, const Shape& output) {
    return ProblemRun<ReduceProblem>(problem, {x}, output, DType::f32, Device::cpu()).taken();
  };
  EXPECT_TRUE(taken({Reduction::sum, 2}, {2}));
  EXPECT_FALSE(taken({Reduction::sum, 2}, {3}));
  EXPECT_FALSE(taken({Reduction::sum, 4}, {2}));
  EXPECT_FALSE(taken({Reduction::arg_max, 3}, {}));
}

}  // namespace
}  // namespace lamina::test::reduce_test
