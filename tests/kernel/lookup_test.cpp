// Gather and scatter against plain loops.

#include "support/problem_data.h"

namespace lamina::test::lookup_test {
namespace {

using Values = std::vector<double>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<DType> all_types() {
  return {DType::boolean, DType::u8,  DType::i8,  DType::u16,  DType::i16, DType::u32, DType::i32,
          DType::u64,     DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
}

std::vector<std::int64_t> integers(const Tensor& t) {
  const Tensor wide = t.to(DType::i64);
  return {wide.values<std::int64_t>().begin(), wide.values<std::int64_t>().end()};
}

std::int64_t place(std::int64_t i, std::int64_t extent) {
  if (i < 0) i += extent;
  return i >= 0 && i < extent ? i : -1;
}

/// The coordinates of element i of a shape.
std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t i) {
  std::vector<std::int64_t> c(shape.rank());
  for (std::size_t d = shape.rank(); d-- > 0; i /= shape[static_cast<int>(d)]) c[d] = i % shape[static_cast<int>(d)];
  return c;
}

std::int64_t offset(const Shape& shape, const std::vector<std::int64_t>& c) {
  std::int64_t result = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) result = result * shape[static_cast<int>(d)] + c[d];
  return result;
}

/// Where element i of what `indices` select of `data` lies there; -1: outside.
std::int64_t source(const GatherProblem& problem, const Shape& data, const Tensor& index, const Shape& output,
                    std::int64_t i) {
  const std::vector<std::int64_t> indices = integers(index), c = coordinates(output, i);
  std::vector<std::int64_t> from;
  const auto rank = static_cast<std::ptrdiff_t>(index.shape().rank());
  if (problem.kind == GatherKind::elements) {
    from = c;
    from[at(problem.dim)] = place(indices[at(i)], data[problem.dim]);
  } else if (problem.kind == GatherKind::take) {
    from.assign(c.begin(), c.begin() + problem.dim);
    const std::vector<std::int64_t> which(c.begin() + problem.dim, c.begin() + problem.dim + rank);
    from.push_back(place(indices[at(offset(index.shape(), which))], data[problem.dim]));
    from.insert(from.end(), c.begin() + problem.dim + rank, c.end());
  } else {
    from.assign(c.begin(), c.begin() + problem.batch_dims);
    std::vector<std::int64_t> which(c.begin(), c.begin() + rank - 1);
    which.push_back(0);
    for (; which.back() < index.shape()[-1]; ++which.back()) {
      from.push_back(place(indices[at(offset(index.shape(), which))], data[static_cast<int>(from.size())]));
    }
    from.insert(from.end(), c.begin() + rank - 1, c.end());
  }
  for (const std::int64_t x : from) {
    if (x < 0) return -1;
  }
  return offset(data, from);
}

struct GatherCase {
  GatherProblem problem;
  Shape data, indices, output;
  std::int64_t extent;  // of what indices name
};

std::vector<GatherCase> gather_cases() {
  return {
      {{GatherKind::take, 0}, {7}, {}, {}, 7},
      {{GatherKind::take, 0}, {7, 5}, {11}, {11, 5}, 7},
      {{GatherKind::take, 1}, {3, 6, 5}, {2, 4}, {3, 2, 4, 5}, 6},
      {{GatherKind::take, 2}, {3, 6, 5}, {300}, {3, 6, 300}, 5},
      {{GatherKind::take, 0}, {300, 67}, {130}, {130, 67}, 300},
      {{GatherKind::take, 0}, {0, 5}, {3}, {3, 5}, 1},
      {{GatherKind::take, 0}, {4, 5}, {0}, {0, 5}, 4},
      {{GatherKind::elements, 0}, {5, 4}, {7, 4}, {7, 4}, 5},
      {{GatherKind::elements, 1}, {3, 50, 7}, {3, 60, 7}, {3, 60, 7}, 50},
      {{GatherKind::elements, 2}, {3, 5, 70}, {2, 4, 90}, {2, 4, 90}, 70},
      {{GatherKind::elements, 0}, {5, 4}, {0, 4}, {0, 4}, 5},
      {{GatherKind::elements, 1}, {3, 50}, {3, 3001}, {3, 3001}, 50},
      {{GatherKind::elements, 0}, {5, 3001}, {3, 1700}, {3, 1700}, 5},
      {{GatherKind::nd}, {5, 6}, {9, 2}, {9}, 5},
      {{GatherKind::nd}, {5, 6, 7}, {3, 4, 1}, {3, 4, 6, 7}, 5},
      {{GatherKind::nd, 0, 1}, {3, 5, 6, 2}, {3, 8, 2}, {3, 8, 2}, 5},
      {{GatherKind::nd, 0, 2}, {2, 3, 5, 6}, {2, 3, 4, 1}, {2, 3, 4, 6}, 5},
      {{GatherKind::nd}, {2, 3}, {4, 0}, {4, 2, 3}, 1},
  };
}

/// How many of those that are outside tests may draw: a CPU refuses them.
std::int64_t beyond(Device device) { return device.is_cpu() ? 0 : 1; }

TEST(Gather, EveryKindAndType) {
  for (const Device device : devices_here()) {
    for (const GatherCase& c : gather_cases()) {
      if (device.is_cpu() && c.data.numel() == 0) continue;  // see below
      for (const DType index_type : {DType::i64, DType::i32}) {
        for (const DType dtype : all_types()) {
          const std::string what = detail::concat(c.data, " by ", c.indices, ", ", dtype, " on ", device);
          const Tensor data = draw_any(c.data, 1, dtype);
          const std::int64_t low = -c.extent - beyond(device), high = c.extent - 1 + beyond(device);
          const Tensor indices = draw_whole(c.indices, 2, low, high, index_type);
          const ProblemRun<GatherProblem> run(c.problem, {data, indices}, c.output, dtype, device);
          ASSERT_TRUE(run.taken()) << what;
          const Values values = doubles(data);
          Values expected;
          for (std::int64_t i = 0; i < c.output.numel(); ++i) {
            const std::int64_t from = source(c.problem, c.data, indices, c.output, i);
            expected.push_back(from < 0 ? 0 : values[at(from)]);
          }
          expect_equal(run.run(), expected, what);
        }
      }
    }
  }
}

TEST(Gather, ExtremeIndicesAreOutside) {
  using Limits = std::numeric_limits<std::int64_t>;
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{Limits::min(), Limits::max(), 1}, {3});
  const Tensor data = Tensor::from(std::vector<float>{1, 2}, {2});
  for (const Device device : devices_here()) {
    if (device.is_cpu()) continue;
    const Tensor y = run_problem(GatherProblem{}, {data, indices}, {3}, DType::f32, device);
    expect_equal(y, {0, 0, 2}, "extremes");
  }
}

TEST(Gather, AnIndexThatIsOutsideIsAnErrorOnACpu) {
  const auto said = [](const auto& problem, std::vector<Tensor> operands, const Shape& output) -> std::string {
    try {
      (void)run_problem(problem, std::move(operands), output, DType::f32, Device::cpu());
      return "nothing";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto at = [](std::int64_t index, const Shape& shape) { return Tensor::from(std::vector{index}, shape); };
  const Tensor data = Tensor::from(std::vector<float>{1, 2}, {2}), update = Tensor::from(std::vector<float>{3}, {1});
  const auto lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(said(GatherProblem{}, {data, at(2, {1})}, {1}), "index 2 is outside of an extent of 2");
  EXPECT_EQ(said(GatherProblem{}, {Tensor({0}), at(0, {1})}, {1}), "index 0 is outside of an extent of 0");
  EXPECT_EQ(said(GatherProblem{.kind = GatherKind::elements}, {data, at(-3, {1})}, {1}),
            "index -3 is outside of an extent of 2");
  EXPECT_EQ(said(GatherProblem{.kind = GatherKind::nd}, {data, at(lowest, {1, 1})}, {1}),
            "index -9223372036854775808 is outside of an extent of 2");
  EXPECT_EQ(said(ScatterProblem{}, {data, at(5, {1}), update}, {2}), "index 5 is outside of an extent of 2");
  EXPECT_EQ(said(ScatterProblem{.kind = GatherKind::nd}, {data, at(5, {1, 1}), update}, {2}),
            "index 5 is outside of an extent of 2");
}

double reduced(ScatterReduction reduction, double a, double b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (reduction) {
    case ScatterReduction::none: return b;
    case ScatterReduction::add: return a + b;
    case ScatterReduction::mul: return a * b;
    case ScatterReduction::max: return nan ? nan_value : std::max(a, b);
    case ScatterReduction::min: return nan ? nan_value : std::min(a, b);
  }
  return 0;
}

constexpr ScatterReduction reductions[] = {ScatterReduction::none, ScatterReduction::add, ScatterReduction::mul,
                                           ScatterReduction::max, ScatterReduction::min};

TEST(Scatter, EveryKindTypeAndReduction) {
  for (const Device device : devices_here()) {
    for (const GatherCase& c : gather_cases()) {
      if (c.problem.kind == GatherKind::take || c.problem.batch_dims > 0) continue;
      for (const ScatterReduction reduction : reductions) {
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64}) {
          const bool exact = !is_float(dtype) || reduction == ScatterReduction::none ||
                             reduction == ScatterReduction::max || reduction == ScatterReduction::min;
          const std::string what = detail::concat(c.data, " by ", c.indices, ", reduction ",
                                                  static_cast<int>(reduction), ", ", dtype, " on ", device);
          const Tensor data = is_float(dtype) ? draw_floats(c.data, 1, dtype) : draw_whole(c.data, 1, 1, 2, dtype);
          const Tensor updates =
              is_float(dtype) ? draw_floats(c.output, 3, dtype) : draw_whole(c.output, 3, 1, 2, dtype);
          const Tensor indices = draw_whole(c.indices, 2, -c.extent - beyond(device), c.extent - 1 + beyond(device));
          const ScatterProblem problem = {c.problem.kind, c.problem.dim, reduction};
          const ProblemRun<ScatterProblem> run(problem, {data, indices, updates}, c.data, dtype, device);
          ASSERT_TRUE(run.taken()) << what;
          Values expected = doubles(data);
          Values magnitude(expected.size());
          std::transform(expected.begin(), expected.end(), magnitude.begin(), [](double x) { return std::abs(x); });
          const Values put = doubles(updates);
          for (std::int64_t i = 0; i < c.output.numel(); ++i) {
            const std::int64_t to = source(c.problem, c.data, indices, c.output, i);
            if (to < 0) continue;
            expected[at(to)] = reduced(reduction, expected[at(to)], put[at(i)]);
            magnitude[at(to)] = std::max(magnitude[at(to)] + std::abs(put[at(i)]), std::abs(expected[at(to)]));
          }
          std::vector<Truth> truth;
          for (std::size_t i = 0; i < expected.size(); ++i) {
            if (!is_float(dtype) && reduction == ScatterReduction::mul) {  // powers of two wrap to nothing
              const double range = dtype == DType::i32 ? 0x1p32 : 0x1p64;
              expected[i] = expected[i] < range / 2 ? expected[i] : expected[i] == range / 2 ? -range / 2 : 0;
            }
            truth.push_back({expected[i], exact ? 0 : 300 * rounding(dtype) * magnitude[i]});
          }
          expect_near(run.run(), truth, what);
        }
      }
    }
  }
}

TEST(Scatter, TheLastOfEqualsStaysAndNanWins) {
  for (const Device device : devices_here()) {
    const Tensor data = Tensor::from(std::vector<float>{5, 5, 5}, {3});
    const Tensor indices = Tensor::from(std::vector<std::int64_t>{1, 0, 1, 2, 1, 0}, {6});
    const Tensor updates = Tensor::from(std::vector<float>{1, 2, NAN, 5, 6, 9}, {6});
    const auto run = [&](ScatterReduction reduction) {
      return run_problem(ScatterProblem{GatherKind::elements, 0, reduction}, {data, indices, updates}, {3}, DType::f32,
                         device);
    };
    expect_equal(run(ScatterReduction::none), {9, 6, 5}, "none");
    expect_equal(run(ScatterReduction::max), {9, nan_value, 5}, "max");
    expect_equal(run(ScatterReduction::min), {2, nan_value, 5}, "min");
    expect_equal(run(ScatterReduction::add), {16, nan_value, 10}, "add");
  }
}

TEST(Scatter, ManyUpdatesOfOnePlaceGiveTheSameBits) {
  for (const Device device : devices_here()) {
    const Tensor data = draw_floats({10, 3}, 1), updates = draw_floats({5000, 3}, 2);
    const Tensor indices = draw_whole({5000, 1}, 3, 0, 9);
    const ScatterProblem problem = {GatherKind::nd, 0, ScatterReduction::add};
    const Values one = doubles(run_problem(problem, {data, indices, updates}, {10, 3}, DType::f32, device));
    const Values again =
        doubles(run_problem(problem, {data, indices, updates}, {10, 3}, DType::f32, Device::cpu(), {.threads = 1}));
    EXPECT_EQ(one, again) << device;
  }
}

}  // namespace
}  // namespace lamina::test::lookup_test
