
#include "support/problem_data.h"

namespace lamina::test::attention_test {
namespace {

struct Case {
  std::int64_t n, h, g, l, s, d, e;
  AttentionProblem problem = {};
  std::vector<std::int64_t> mask = {};  // its shape; empty: none
};

struct Operands {
  std::vector<Tensor> inputs;
  Shape output;
};

Operands draw_operands(const Case& c, DType dtype) {
  Operands o{{draw_floats({c.n, c.h, c.l, c.d}, 1, dtype), draw_floats({c.n, c.g, c.s, c.d}, 2, dtype),
              draw_floats({c.n, c.g, c.s, c.e}, 3, dtype)},
             {c.n, c.h, c.l, c.e}};
  if (!c.mask.empty()) {
    const Shape shape{std::span<const std::int64_t>(c.mask)};
    Tensor mask = draw_floats(shape, 4);
    auto values = mask.values<float>();
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -std::numeric_limits<float>::infinity();
    o.inputs.push_back(mask.to(dtype));
  }
  return o;
}

std::vector<double> reference(const Case& c, const Operands& o) {
  const std::vector<double> q = doubles(o.inputs[0]), k = doubles(o.inputs[1]), v = doubles(o.inputs[2]);
  const std::vector<double> mask = c.mask.empty() ? std::vector<double>() : doubles(o.inputs[3]);
  std::vector<double> result;
  for (std::int64_t row = 0; row < c.n * c.h * c.l; ++row) {
    const std::int64_t n = row / (c.h * c.l), h = row / c.l % c.h, l = row % c.l;
    const std::int64_t pair = n * c.g + h / (c.h / c.g);
    const std::int64_t end = c.problem.causal ? std::clamp<std::int64_t>(l + c.problem.past + 1, 0, c.s) : c.s;
    std::vector<double> weights;
    double largest = -inf_value, sum = 0;
    for (std::int64_t s = 0; s < end; ++s) {
      double score = 0;
      for (std::int64_t i = 0; i < c.d; ++i) {
        score += q[static_cast<std::size_t>(row * c.d + i)] * k[static_cast<std::size_t>((pair * c.s + s) * c.d + i)];
      }
      score *= c.problem.scale;
      if (!mask.empty()) {
        const std::int64_t at[] = {n, h, l, s};
        std::int64_t offset = 0, step = 1;
        for (std::size_t i = 1; i <= c.mask.size(); ++i) {
          const std::int64_t extent = c.mask[c.mask.size() - i];
          offset += at[4 - i] % extent * step;
          step *= extent;
        }
        score += mask[static_cast<std::size_t>(offset)];
      }
      weights.push_back(score);
      if (!(score <= largest)) largest = score;
    }
    if (largest == -inf_value) largest = 0;
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (std::int64_t i = 0; i < c.e; ++i) {
      double value = 0;
      for (std::int64_t s = 0; s < end; ++s) {
        value += weights[static_cast<std::size_t>(s)] * v[static_cast<std::size_t>((pair * c.s + s) * c.e + i)];
      }
      result.push_back(sum == 0 ? 0 : value / sum);
    }
  }
  return result;
}

/// Values are of a normal distribution: errors are of the order of the scores' roundings.
void check(const Case& c, DType dtype, Device device, const RunOptions& options = {}) {
  const Operands o = draw_operands(c, dtype);
  const std::string what =
      detail::concat("heads ", c.h, "/", c.g, ", ", c.l, " x ", c.s, ", ", c.d, "/", c.e,
                     c.problem.causal ? ", causal" : "", c.mask.empty() ? "" : ", masked", ", ", dtype, " on ", device,
                     options.strided > 0 ? detail::concat(", strided, gap ", options.gap) : std::string());
  const ProblemRun<AttentionProblem> run(c.problem, o.inputs, o.output, dtype, device, options);
  if (!options.kernel.empty() && !run.taken()) return;  // nor does the rule choose it
  ASSERT_TRUE(run.taken()) << what;
  std::vector<Truth> truth;
  for (const double value : reference(c, o)) {
    const double atol = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2;
    truth.push_back({value, atol + 4 * rounding(dtype) * std::abs(value)});
  }
  expect_near(run.run(), truth, what);
}

std::vector<Case> cases() {
  return {
      {1, 1, 1, 1, 1, 1, 1},
      {2, 3, 3, 5, 7, 8, 8, {.scale = 0.35}},
      {1, 2, 2, 17, 130, 64, 64, {.scale = 0.125}},
      {1, 2, 1, 65, 129, 64, 64, {.scale = 0.125, .causal = true, .past = 64}},
      {1, 1, 1, 150, 150, 40, 24, {.scale = 0.16, .causal = true}},
      {1, 4, 2, 1, 300, 128, 128, {.scale = 0.09}},
      {1, 2, 2, 40, 600, 64, 64, {.scale = 0.125, .causal = true, .past = 555}},
      {2, 8, 2, 3, 33, 16, 20, {.scale = 0.25, .causal = true, .past = 30}},
      {1, 1, 1, 70, 70, 256, 256, {.scale = 0.0625}},
      {1, 1, 1, 20, 30, 200, 130, {.scale = 0.07}},
      {1, 1, 1, 9, 40, 3, 5},
      // masks: whole, broadcast
      {2, 4, 2, 19, 37, 32, 32, {.scale = 0.2}, {2, 4, 19, 37}},
      {2, 4, 2, 19, 37, 32, 32, {.scale = 0.2}, {19, 37}},
      {2, 4, 2, 19, 37, 32, 32, {.scale = 0.2}, {2, 1, 1, 37}},
      {2, 4, 2, 19, 37, 32, 32, {.scale = 0.2, .causal = true, .past = 18}, {1, 4, 19, 1}},
      // masks of fewer images, as of shifted windows
      {6, 3, 3, 49, 49, 32, 32, {.scale = 0.18}, {2, 3, 49, 49}},
      {6, 2, 1, 19, 37, 8, 8, {.scale = 0.3}, {3, 1, 19, 37}},
      // rows that see nothing, no heads, nothing to see, no rows
      {1, 2, 2, 6, 5, 8, 8, {.causal = true, .past = -3}},
      {1, 0, 0, 6, 5, 8, 8},
      {1, 2, 2, 6, 0, 8, 8},
      {1, 2, 2, 0, 5, 8, 8},
      {1, 2, 2, 3, 4, 8, 0},
      {0, 2, 2, 3, 4, 8, 8},
      // as in vision transformers; the ends of tiles, of their sixteenths and of blocks of rows
      {2, 3, 3, 197, 197, 64, 64, {.scale = 0.125}},
      {1, 2, 2, 128, 64, 64, 64, {.scale = 0.125}},
      {1, 1, 1, 129, 65, 32, 32, {.scale = 0.18}},
      {1, 1, 1, 33, 80, 64, 48, {.scale = 0.125}},
      {1, 2, 2, 200, 81, 96, 96, {.scale = 0.1}},
      // few rows: small windows, heads that are no whole packs, several heads of a group, positions in two tiles
      {50, 4, 4, 16, 16, 6, 6, {.scale = 0.4}},
      {3, 2, 2, 31, 50, 16, 10, {.scale = 0.25}},
      {5, 6, 3, 9, 64, 64, 64, {.scale = 0.125, .causal = true, .past = 40}},
      {6, 3, 3, 16, 16, 32, 32, {.scale = 0.18}, {2, 3, 16, 16}},
      {2, 2, 2, 20, 33, 14, 14, {.scale = -0.3}, {20, 1}},
      // scales of either sign, and none
      {1, 2, 2, 20, 140, 24, 24, {.scale = -0.2}},
      {1, 2, 2, 20, 140, 24, 24, {.scale = 0}},
      {1, 2, 2, 20, 140, 24, 24, {.scale = -0.2, .causal = true, .past = 120}, {20, 140}},
  };
}

TEST(Attention, ShapesMasksAndGroups) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const Case& c : cases()) {
        check(c, dtype, device);
        if (!device.is_cuda()) continue;
        for (const char* kernel : {"few", "split", "mma", "online"}) check(c, dtype, device, {.kernel = kernel});
      }
    }
  }
}

/// Operands as rows of one product of a linear layer, [N, L, H, D], and the result as the rows of the next.
TEST(Attention, RowsThatLieApart) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const Case& c : cases()) {
        if (device.is_cpu() && c.h != c.g) continue;  // its rows of queries are one matrix
        for (const std::int64_t gap : {0, 128, 3}) {
          for (const char* kernel : {"", "mma"}) {  // where rows are few, the first is "few"
            check(c, dtype, device, {.kernel = device.is_cuda() ? kernel : "", .strided = 3, .gap = gap});
          }
        }
      }
    }
  }
}

TEST(Attention, WideHeadsOnTheCpu) { check({1, 1, 1, 30, 140, 300, 290, {.scale = 0.05}}, DType::f32, Device::cpu()); }

TEST(Attention, LargeScoresDoNotOverflow) {
  for (const Device device : devices_here()) {
    Case c = {1, 1, 1, 4, 200, 16, 16, {.scale = 300}};
    const Operands o = draw_operands(c, DType::f32);
    for (const double value : doubles(run_problem(c.problem, o.inputs, o.output, DType::f32, device))) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Attention, WhatIsNotSeenMayBeNan) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      const Case c = {1, 1, 1, 70, 70, 16, 16, {.scale = 0.25, .causal = true}};
      Operands o = draw_operands(c, DType::f32);
      constexpr std::int64_t poisoned = 37;
      for (std::size_t i : {std::size_t{1}, std::size_t{2}}) o.inputs[i].values<float>()[poisoned * 16 + 3] = NAN;
      for (Tensor& t : o.inputs) t = t.to(dtype);
      const std::vector<double> y = doubles(run_problem(c.problem, o.inputs, o.output, dtype, device));
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(std::isnan(y[i]), i / 16 >= poisoned) << i << ", " << dtype << " on " << device;
      }
    }
  }
}

TEST(Attention, InfinityAmongScoresIsAsInTheFormula) {
  for (const Device device : devices_here()) {
    const Case c = {1, 1, 1, 3, 5, 2, 2, {}, {3, 5}};
    Operands o = draw_operands(c, DType::f32);
    auto mask = o.inputs[3].values<float>();
    std::fill(mask.begin(), mask.end(), 0.0f);
    for (std::size_t s = 0; s < 5; ++s) mask[s] = -std::numeric_limits<float>::infinity();  // row 0 sees nothing
    mask[5] = NAN;                                                                          // row 1
    const std::vector<double> y = doubles(run_problem(c.problem, o.inputs, o.output, DType::f32, device));
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 0);
    EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
    EXPECT_TRUE(std::isfinite(y[4]) && std::isfinite(y[5]));
  }
}

/// Fast kernels multiply parts of f32, and weights of 0 by what is there: who meets something that is not finite steps
/// aside.
TEST(Attention, WhatIsNotFiniteIsAsInTheFormula) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      for (const char* kernel : {"", "few", "split", "mma", "online"}) {
        if (!device.is_cuda() && *kernel != 0) continue;
        using Extents = std::pair<std::int64_t, std::int64_t>;
        for (const auto& [length, positions] : {Extents{20, 90}, {90, 90}, {20, 60}}) {
          const Case c = {1, 2, 2, length, positions, 24, 24, {.scale = 0.2, .causal = true, .past = positions - 20}};
          Operands o = draw_operands(c, DType::f32);
          auto q = o.inputs[0].values<float>(), k = o.inputs[1].values<float>(), v = o.inputs[2].values<float>();
          q[3 * 24 + 5] = static_cast<float>(inf_value);  // of one row
          k[9 * 24 + 2] = static_cast<float>(-inf_value);
          v[40 * 24 + 7] = static_cast<float>(inf_value), v[41 * 24 + 8] = NAN;
          v[static_cast<std::size_t>((2 * positions - 5) * 24 + 1)] = NAN;  // not everybody sees it
          for (Tensor& t : o.inputs) t = t.to(dtype);
          const RunOptions options = {.kernel = kernel};
          const ProblemRun<AttentionProblem> run(c.problem, o.inputs, o.output, dtype, device, options);
          if (!run.taken()) continue;
          std::vector<Truth> truth;
          for (const double value : reference(c, o)) {
            const double atol = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2;
            truth.push_back({value, atol + 4 * rounding(dtype) * std::abs(value)});
          }
          expect_near(run.run(), truth,
                      detail::concat(kernel, ", ", length, " x ", positions, ", ", dtype, " on ", device));
        }
      }
    }
  }
}

/// The least number, as masks often have it, is no infinity: where all is hidden all weigh the same.
TEST(Attention, WhatIsHiddenByTheLeastNumberWeighsTheSame) {
  for (const Device device : devices_here()) {
    for (const DType dtype : product_types(device)) {
      const Case c = {1, 1, 1, 2, 70, 16, 16, {.scale = 0.25}, {70}};
      Operands o = draw_operands(c, DType::f32);
      if (dtype == DType::f16) continue;  // its least number leaves something of the scores
      std::ranges::fill(o.inputs[3].values<float>(), -3.38e38f);
      for (Tensor& t : o.inputs) t = t.to(dtype);
      std::vector<double> mean(16);
      const std::vector<double> v = doubles(o.inputs[2]);
      for (std::size_t i = 0; i < v.size(); ++i) mean[i % 16] += v[i] / 70;
      const std::vector<double> y = doubles(run_problem(c.problem, o.inputs, o.output, dtype, device));
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y[i], mean[i % 16], dtype == DType::f32 ? 1e-5 : 0.01) << i << ", " << dtype << " on " << device;
      }
    }
  }
}

TEST(Attention, ThreadsDoNotChangeABit) {
  const Case c = {2, 4, 2, 100, 200, 40, 40, {.scale = 0.2, .causal = true}};
  const Operands o = draw_operands(c, DType::f32);
  const Tensor one = run_problem(c.problem, o.inputs, o.output, DType::f32, Device::cpu(), {.threads = 1});
  const Tensor many = run_problem(c.problem, o.inputs, o.output, DType::f32, Device::cpu(), {.threads = 5});
  EXPECT_EQ(doubles(one), doubles(many));
}

}  // namespace
}  // namespace lamina::test::attention_test
