
#include <random>

#include "support/pointwise_reference.h"
#include "support/run_problem.h"

namespace lamina::test::pointwise_test {
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
    case Pointwise::quantize: return {{1, 0}, {0.5, 3}, {0.25, -128}};
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

}  // namespace
}  // namespace lamina::test::pointwise_test
