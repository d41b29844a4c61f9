
#include "lamina/cpu/product/matmul.h"
#include "lamina/cpu/reference.h"
#include "lamina/kernel/make_operator.h"
#include "support/problem_data.h"

namespace lamina::test::matmul_test {
namespace {

struct Case {
  Shape a, b;  // as they lie in memory
  MatMulProblem problem = {};
};

Shape output_of(const Case& c) {
  const int rank = static_cast<int>(std::max(c.a.rank(), c.b.rank()));
  std::vector<std::int64_t> extents(static_cast<std::size_t>(rank), 1);
  for (int d = 3; d <= rank; ++d) {
    std::int64_t& extent = extents[static_cast<std::size_t>(rank - d)];
    for (const Shape* s : {&c.a, &c.b}) {
      if (d <= static_cast<int>(s->rank()) && (*s)[-d] != 1) extent = (*s)[-d];
    }
  }
  extents[static_cast<std::size_t>(rank - 2)] = c.a[c.problem.transpose_a ? -1 : -2];
  extents[static_cast<std::size_t>(rank - 1)] = c.b[c.problem.transpose_b ? -2 : -1];
  return Shape(extents);
}

/// Offset of the matrix that batch `batch` of `output` has among those of `shape`.
std::int64_t matrix_of(const Shape& shape, const Shape& output, std::int64_t batch) {
  std::int64_t offset = 0, step = shape[-1] * shape[-2];
  for (int d = 3; d <= static_cast<int>(output.rank()); ++d) {
    const std::int64_t i = batch % output[-d];
    batch /= output[-d];
    if (d > static_cast<int>(shape.rank())) continue;
    offset += shape[-d] == 1 ? 0 : i * step;
    step *= shape[-d];
  }
  return offset;
}

Precision precision_of(DType dtype) {
  return dtype == DType::f16 ? Precision::fp16 : dtype == DType::bf16 ? Precision::bf16 : Precision::fp32;
}

std::vector<Truth> reference(const Case& c, const Tensor& a_tensor, const Tensor& b_tensor) {
  const std::vector<double> a = doubles(a_tensor), b = doubles(b_tensor);
  const Shape out = output_of(c);
  const std::int64_t m = out[-2], n = out[-1], k = c.a[c.problem.transpose_a ? -2 : -1];
  std::vector<Truth> truth;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const std::int64_t batch = i / (m * n), row = i / n % m, column = i % n;
    const std::int64_t a0 = matrix_of(c.a, out, batch), b0 = matrix_of(c.b, out, batch);
    double sum = 0, scale = 0;
    for (std::int64_t t = 0; t < k; ++t) {
      const double x = a[static_cast<std::size_t>(a0 + (c.problem.transpose_a ? t * m + row : row * k + t))];
      const double y = b[static_cast<std::size_t>(b0 + (c.problem.transpose_b ? column * k + t : t * n + column))];
      sum += x * y;
      scale += std::abs(x * y);
    }
    const double alpha = std::abs(c.problem.alpha);
    truth.push_back({c.problem.alpha * sum, alpha * cpu::error_bound(precision_of(a_tensor.dtype()), k, scale) +
                                                rounding(a_tensor.dtype()) * alpha * std::abs(sum)});
  }
  return truth;
}

std::string describe(const Case& c, DType dtype, Device device) {
  return detail::concat(c.a, c.problem.transpose_a ? "'" : "", " ", c.b, c.problem.transpose_b ? "'" : "", " ", dtype,
                        " on ", device);
}

void check(const Case& c, DType dtype, Device device, Values values, const RunOptions& options = {}) {
  const Tensor a = draw_floats(c.a, 1, dtype, values), b = draw_floats(c.b, 2, dtype, values);
  const ProblemRun<MatMulProblem> run(c.problem, {a, b}, output_of(c), dtype, device, options);
  ASSERT_TRUE(run.taken()) << describe(c, dtype, device);
  expect_near(run.run(), reference(c, a, b), describe(c, dtype, device));
}

std::vector<Case> cases() {
  std::vector<Case> result = {
      {{1, 1}, {1, 1}},
      {{3, 5}, {5, 7}},
      {{1, 300}, {300, 70}},
      {{7, 129}, {129, 33}},
      {{130, 40}, {40, 131}},
      {{15, 16}, {16, 17}},
      {{64, 64}, {64, 64}},
      {{129, 257}, {257, 65}},
      {{2, 1500}, {1500, 3}},
      // batches: alike, shared, broadcast on both sides
      {{3, 5, 6}, {3, 6, 4}},
      {{3, 5, 6}, {6, 4}},
      {{5, 6}, {3, 6, 4}},
      {{2, 1, 9, 17}, {1, 5, 17, 8}},
      {{2, 3, 4, 5}, {3, 5, 6}},
      {{4, 1, 2, 1, 3, 5}, {2, 1, 3, 5, 2}},
      {{70, 3, 4}, {70, 4, 5}},
      // few terms, beside many rows or columns
      {{3, 140, 9}, {1, 9, 17}},
      {{2, 3, 4, 30}, {2, 3, 30, 140}},
      // nothing
      {{0, 5}, {5, 3}},
      {{3, 0}, {0, 4}},
      {{2, 3, 4}, {4, 0}},
      {{0, 3, 4}, {0, 4, 2}},
  };
  const std::size_t plain = result.size();
  for (std::size_t i = 0; i < plain; ++i) {
    const auto turned = [](const Shape& s) {
      Shape t = s;
      t.set(-1, s[-2]);
      t.set(-2, s[-1]);
      return t;
    };
    const Case c = result[i];
    result.push_back({turned(c.a), c.b, {.transpose_a = true}});
    result.push_back({c.a, turned(c.b), {.transpose_b = true, .alpha = 0.125}});
    result.push_back({turned(c.a), turned(c.b), {.transpose_a = true, .transpose_b = true, .alpha = -1.5}});
  }
  return result;
}

TEST(MatMul, ShapesAroundTilesAndBatches) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const Case& c : cases()) check(c, dtype, device, Values::mixed);
    }
  }
}

TEST(MatMul, EveryRemainderOfTheTile) {
  for (const Device device : devices_here()) {
    for (std::int64_t m = 1; m <= 30; ++m) check({{m, 9}, {9, 40}}, DType::f32, device, Values::mixed);
    for (std::int64_t n = 1; n <= 70; ++n) check({{3, 9}, {9, n}}, DType::f32, device, Values::mixed);
    for (std::int64_t n = 1; n <= 70; ++n) check({{20, 9}, {9, n}}, DType::f32, device, Values::mixed);
  }
}

TEST(MatMul, KeepsTheContractOnFlatData) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const Values values : {Values::positive, Values::equal}) {
        check({{5, 9216}, {9216, 40}}, dtype, device, values);
        check({{1, 4096}, {33, 4096}, {.transpose_b = true}}, dtype, device, values);
        check({{40, 1024}, {1024, 40}}, dtype, device, values);
      }
    }
  }
}

TEST(MatMul, ManyTermsAndColumnsAreDivided) {
  for (const Device device : devices_here()) {
    check({{16, 70000}, {70000, 33}}, DType::f32, device, Values::mixed);
    check({{20, 30}, {30, 70011}}, DType::f32, device, Values::mixed);
    check({{66, 30, 300}, {66, 300, 200}}, DType::f32, device, Values::mixed);
  }
}

/// Whichever kernel pays for so many.
TEST(MatMul, OfManyProductsEachHasTheBitsOfItself) {
  constexpr std::int64_t many = 600;
  for (const Device device : devices_here()) {
    for (const auto& [m, k, n] :
         {std::array<std::int64_t, 3>{196, 16, 17}, {17, 16, 196}, {16, 196, 17}, {196, 16, 1}}) {
      const Tensor a = draw_floats({many, m, k}, 1), b = draw_floats({many, k, n}, 2);
      const Tensor all = run_problem(MatMulProblem{}, {a, b}, Shape{many, m, n}, DType::f32, device);
      const auto last = [](const Tensor& of) {
        Tensor result({1, of.shape()[1], of.shape()[2]});
        std::ranges::copy(of.values<float>().last(static_cast<std::size_t>(result.numel())),
                          result.values<float>().begin());
        return result;
      };
      const Tensor one = run_problem(MatMulProblem{}, {last(a), last(b)}, Shape{1, m, n}, DType::f32, device);
      EXPECT_EQ(doubles(one), doubles(last(all))) << m << ' ' << k << ' ' << n << ", " << device;
    }
  }
}

TEST(MatMul, EveryInstructionSet) {
  for (const cpu::bf16::Engine& engine : cpu::bf16::engines(DType::f32)) {
    SCOPED_TRACE(std::string(name(engine.set)));
    for (const Case& c : cases()) {
      const Tensor a = draw_floats(c.a, 1), b = draw_floats(c.b, 2);
      const std::vector<View> inputs = {{.shape = c.a}, {.shape = c.b}};
      const View output = {.shape = output_of(c)};
      const auto e = detail::matmul_extents(c.problem, {.inputs = inputs, .outputs = {&output, 1}, .device = {}});
      Tensor y(output.shape);
      const cpu::MatMul<float> matmul(engine, e);
      Tensor space({static_cast<std::int64_t>(matmul.workspace(3) / sizeof(float))});
      ThreadPool pool(3);
      matmul(detail::floats(a), detail::floats(b), detail::floats(y), pool, static_cast<std::byte*>(space.raw()));
      expect_near(y, reference(c, a, b), describe(c, DType::f32, Device::cpu()));
    }
  }
}

TEST(MatMul, EveryRowOfTheTable) {
  for (const Device device : devices_here()) {
    for (const Kernel<MatMulProblem>& kernel : kernels<MatMulProblem>(device.type)) {
      for (const DType dtype : product_types(device)) {
        for (const Case& c : cases()) {
          const Tensor a = draw_floats(c.a, 1, dtype), b = draw_floats(c.b, 2, dtype);
          const ProblemRun<MatMulProblem> run(c.problem, {a, b}, output_of(c), dtype, device, {.kernel = kernel.name});
          if (run.taken()) expect_near(run.run(), reference(c, a, b), describe(c, dtype, device));
        }
      }
    }
  }
}

TEST(MatMul, NanAndInfinityReachTheirRowAndColumnOnly) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const double poison : {nan_value, inf_value}) {
        std::vector<float> a(37 * 150, 1.0f), b(150 * 41, 1.0f);
        a[5 * 150 + 149] = static_cast<float>(poison);
        b[3 * 41 + 40] = static_cast<float>(poison);
        const MatMulProblem problem;
        const Tensor y =
            run_problem(problem, {Tensor::from(a, {37, 150}).to(dtype), Tensor::from(b, {150, 41}).to(dtype)}, {37, 41},
                        dtype, device);
        const std::vector<double> values = doubles(y);
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(std::isfinite(values[i]), i / 41 != 5 && i % 41 != 40) << i << " on " << device;
        }
      }
    }
  }
}

TEST(MatMul, WholeNumbersWrap) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u32, DType::u64, DType::f64}) {
    const Tensor a = draw_whole({2, 3, 70}, 1, 0, 9, dtype), b = draw_whole({70, 130}, 2, 0, 9, dtype);
    const Case c = {{2, 3, 70}, {70, 130}};
    std::vector<Truth> truth = reference(c, a, b);
    for (Truth& t : truth) t.bound = 0;
    expect_near(run_problem(c.problem, {a, b}, {2, 3, 130}, dtype, Device::cpu()), truth, std::string(name(dtype)));
  }
  const Tensor most = Tensor::from(std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::max()}, {1, 1});
  const Tensor y = run_problem(MatMulProblem{}, {most, most}, {1, 1}, DType::i32, Device::cpu());
  EXPECT_EQ(y.values<std::int32_t>()[0], 1);
}

TEST(MatMul, ThreadsDoNotChangeABit) {
  const Tensor a = draw_floats({50, 300}, 1), b = draw_floats({300, 400}, 2);
  const Tensor one = run_problem(MatMulProblem{}, {a, b}, {50, 400}, DType::f32, Device::cpu(), {.threads = 1});
  const Tensor many = run_problem(MatMulProblem{}, {a, b}, {50, 400}, DType::f32, Device::cpu(), {.threads = 5});
  EXPECT_EQ(doubles(one), doubles(many));
}

TEST(MatMul, TakesOnlyWhatFits) {
  const auto taken = [](const Shape& a, const Shape& b, const Shape& y) {
    return ProblemRun<MatMulProblem>({}, {Tensor(a), Tensor(b)}, y, DType::f32, Device::cpu()).taken();
  };
  EXPECT_TRUE(taken({2, 3}, {3, 4}, {2, 4}));
  EXPECT_FALSE(taken({2, 3}, {4, 3}, {2, 3}));
  EXPECT_FALSE(taken({2, 3}, {3, 4}, {4, 2}));
  EXPECT_FALSE(taken({3}, {3, 4}, {1, 4}));
  EXPECT_FALSE(taken({5, 2, 3}, {6, 3, 4}, {5, 2, 4}));
}

}  // namespace
}  // namespace lamina::test::matmul_test
