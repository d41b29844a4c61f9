
#include <random>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/fold.h"
#include "support/guarded.h"
#include "support/run_problem.h"

namespace lamina::test::norm_test {
namespace {

struct Case {
  std::int64_t rows, length, inner, channels;
};

/// Layer norms, group norms, instance norms.
constexpr Case cases[] = {{1, 1, 1, 1},         {3, 7, 1, 7},         {5, 768, 1, 768}, {2, 1000, 1, 1000},
                          {1, 5000, 1, 5000},   {40, 33, 1, 33},      {4, 12, 4, 6},    {6, 3 * 49, 49, 9},
                          {4, 196, 196, 2},     {2, 30000, 100, 600}, {700, 16, 1, 16}, {3, 64, 1, 64},
                          {2, 20000, 20000, 1}, {1, 200704, 1, 1},    {3, 8193, 1, 1},  {2, 8192, 1, 8}};

constexpr NormKind kinds[] = {NormKind::centred, NormKind::root_mean_square, NormKind::mean, NormKind::length};

Tensor random_tensor(std::int64_t count, double mean, double deviation, int seed, DType dtype) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& v : values) v = std::normal_distribution<double>(mean, deviation)(random);
  return Tensor::from(values, {count}).to(dtype);
}

void expect_normalised(const NormProblem& problem, const Tensor& input, double share, Device device,
                       const RunOptions& options = {}) {
  const std::vector<double> x = doubles(input);
  const std::vector<double> got = doubles(run_problem(problem, {input}, input.shape(), input.dtype(), device, options));
  const auto length = static_cast<std::size_t>(problem.length);
  if (x.empty()) return;
  for (std::size_t row = 0; row < x.size() / length; ++row) {
    long double mean = 0, squares = 0;
    for (std::size_t i = 0; i < length; ++i) mean += x[row * length + i];
    mean /= static_cast<long double>(length);
    const double divisor = static_cast<double>(mean) + problem.eps;
    if (problem.kind != NormKind::centred) mean = 0;
    for (std::size_t i = 0; i < length; ++i) squares += (x[row * length + i] - mean) * (x[row * length + i] - mean);
    const double root = std::sqrt(static_cast<double>(squares / static_cast<long double>(length)) + problem.eps);
    const double norm = std::sqrt(static_cast<double>(squares));
    const double factor = 1 / (problem.kind == NormKind::mean     ? divisor
                               : problem.kind == NormKind::length ? (norm < problem.eps ? problem.eps : norm)
                                                                  : root);
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
      const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / problem.inner % problem.channels);
      const double scale = problem.scale.defined() ? static_cast<double>(problem.scale.values<float>()[c]) : 1;
      const double shift = problem.shift.defined() ? static_cast<double>(problem.shift.values<float>()[c]) : 0;
      const double want = (x[i] - static_cast<double>(mean)) * factor * scale + shift;
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i]));
        continue;
      }
      // The input's own rounding is what a row's values are known to, and a common offset makes it large.
      const double bound =
          share * (std::abs(want) + (1 + std::abs(static_cast<double>(mean)) * factor * 0.1) * std::abs(scale) +
                   std::abs(shift));
      ASSERT_NEAR(got[i], want, bound) << "element " << i << " of rows of " << length << ", inner " << problem.inner
                                       << ", " << input.dtype() << " on " << device;
    }
  }
}

TEST(Norm, IsWhatTheReferenceSays) {
  for (const Device device : devices_here()) {
    int seed = 0;
    for (const Case& c : cases) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        if (dtype == DType::f16 && device.is_cpu()) continue;  // which a CPU stores in f32
        for (const NormKind kind : kinds) {
          NormProblem problem = {.length = c.length, .kind = kind, .inner = c.inner, .channels = c.channels};
          if (++seed % 3 != 0) problem.scale = random_tensor(c.channels, 1, 0.3, seed, DType::f32);
          if (seed % 4 != 0) problem.shift = random_tensor(c.channels, 0, 1, seed + 1, DType::f32);
          const double share = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
          const double mean = kind == NormKind::mean ? 8 : 0.5;  // which divides: away from 0
          expect_normalised(problem, random_tensor(c.rows * c.length, mean, 2, seed + 2, dtype), share, device);
        }
      }
    }
  }
}

const RunOptions channels_last = {.inputs = {Layout::nhwc, Layout::nhwc}, .output = Layout::nhwc};

/// [N, C, H, W] in groups, with factors and without.
TEST(Norm, OfGroupsChannelsLast) {
  struct Groups {
    Shape image;
    std::int64_t groups;
  };
  const Groups all[] = {{{1, 1, 1, 1}, 1},     {{2, 6, 3, 5}, 2},    {{1, 64, 56, 56}, 1}, {{3, 40, 9, 7}, 40},
                        {{2, 33, 20, 20}, 11}, {{1, 5000, 2, 3}, 4}, {{1, 24, 112, 96}, 8}};
  int seed = 0;
  for (const auto& [image, groups] : all) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const NormKind kind : {NormKind::centred, NormKind::root_mean_square}) {
        const std::int64_t pixels = image[2] * image[3];
        NormProblem problem = {.length = image[1] / groups * pixels, .kind = kind};
        if (++seed % 4 != 0) {
          problem.inner = pixels, problem.channels = image[1];
          problem.scale = random_tensor(image[1], 1, 0.3, seed, DType::f32);
          problem.shift = random_tensor(image[1], 0, 1, seed + 1, DType::f32);
        }
        const Tensor input = random_tensor(image.numel(), 0.5, 2, seed, dtype).view(image);
        expect_normalised(problem, input, dtype == DType::f32 ? 1e-5 : 8e-3, Device::cpu(), channels_last);
      }
    }
  }
}

/// A GPU, which adds squares in f32, has none of 1e18.
TEST(Norm, OfGroupsWithHardValues) {
  const Shape image = {2, 8, 10, 10};
  const NormProblem problem = {.length = 400, .eps = 1e-5, .inner = 100, .channels = 8};
  for (const Device device : devices_here()) {
    const auto expect = [&](const Tensor& x) {
      expect_normalised(problem, x.view(image), 1e-5, device, channels_last);
    };
    for (const double deviation : {1e-18, 0.5, 1e18}) {
      if (device.is_cpu() || deviation < 1) expect(random_tensor(1600, 0, deviation, 4, DType::f32));
    }
    expect(random_tensor(1600, -3e5, 100, 3, DType::f32));
    // One value beside which all others vanish; NaN and infinity stay in their group.
    for (const float odd : {device.is_cpu() ? 1e18f : 1e9f, NAN, INFINITY}) {
      Tensor x = random_tensor(1600, 0, 1e-18, 5, DType::f32);
      x.values<float>()[401] = odd;
      expect(x);
    }
  }
}

/// A sum and functions behind it, by rows and by pixels.
TEST(Norm, TakesWhatFollows) {
  const Shape image = {2, 6, 7, 5};
  const PointwiseChain chains[] = {
      {{Pointwise::relu}},
      {{Pointwise::silu}},
      {{.function = Pointwise::add, .operand = 1}, {Pointwise::relu}},
      {{Pointwise::gelu}, {.function = Pointwise::add, .operand = 1}},
      {{.function = Pointwise::mul, .a = 3}, {.function = Pointwise::clip, .a = 0, .b = 2}}};
  for (const RunOptions& options : {RunOptions{}, channels_last}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      NormProblem problem = {.length = 70, .inner = 35, .channels = 6};
      problem.scale = random_tensor(6, 1, 0.3, 1, DType::f32), problem.shift = random_tensor(6, 0, 1, 2, DType::f32);
      const Tensor x = random_tensor(420, 0.5, 2, 3, dtype).view(image),
                   added = random_tensor(420, 0, 1, 4, dtype).view(image);
      const Tensor plain = run_problem(problem, {x.to(DType::f32)}, image, DType::f32, Device::cpu());
      for (const PointwiseChain& chain : chains) {
        problem.epilogue.chain = chain;
        std::vector<Tensor> inputs = {x, added}, wide = {plain, added.to(DType::f32)};
        if (!problem.epilogue.reads_operands()) inputs.pop_back(), wide.pop_back();
        const auto want = doubles(run_problem(PointwiseProblem{chain}, wide, image, DType::f32, Device::cpu()));
        const auto got = doubles(run_problem(problem, inputs, image, dtype, Device::cpu(), options));
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], (dtype == DType::f32 ? 1e-5 : 8e-3) * (1 + std::abs(want[i])));
        }
      }
    }
  }
}

TEST(Norm, KeepsSmallVarianceAroundALargeMean) {
  for (const Device device : devices_here()) {
    for (const std::int64_t length : {64, 1000, 30000}) {
      expect_normalised({.length = length, .channels = length}, random_tensor(4 * length, 1000, 0.5, 3, DType::f32),
                        1e-5, device);
      expect_normalised({.length = length, .channels = length}, random_tensor(4 * length, -3e5, 100, 3, DType::f32),
                        1e-5, device);
    }
  }
}

TEST(Norm, NanStaysInItsRow) {
  std::vector<float> values(64, 1.0f);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  values[20] = NAN;
  for (const Device device : devices_here()) {
    values[40] = INFINITY;
    expect_normalised({.length = 16, .channels = 16}, Tensor::from(values, {4, 16}), 1e-5, device);
    expect_normalised({.length = 0, .channels = 1}, Tensor({4, 0}), 1e-5, device);
    const NormProblem by_mean = {.length = 16, .eps = 1e-30, .kind = NormKind::mean, .channels = 16};
    for (const float hard : {NAN, 1e-30f, 1e18f, 3e38f}) {  // beside terms that it makes vanish
      values[40] = hard;
      expect_normalised(by_mean, Tensor::from(values, {4, 16}), 1e-5, device);
    }
    expect_normalised({.length = 5, .channels = 5}, Tensor({0, 5}), 1e-5, device);
  }
}

TEST(Norm, OfMagnitudesWhoseSquaresAreNoFloats) {
  for (const float magnitude : {3e25f, 3e-25f, 3e37f, 3e-37f}) {
    Tensor x = random_tensor(3 * 130, 0.5, 2, 7, DType::f32);
    for (float& v : x.values<float>()) v *= magnitude;
    for (const NormKind kind : {NormKind::centred, NormKind::root_mean_square, NormKind::length}) {
      expect_normalised({.length = 130, .eps = 0, .kind = kind, .channels = 130}, x, 1e-5, Device::cpu());
    }
  }
}

/// Rows and columns of every length between guard pages.
TEST(Norm, FoldsOnEveryInstructionSet) {
  for (const cpu::FoldKernel& k : cpu::fold_kernels()) {
    for (std::int64_t n = 1; n < 200; n += n < 70 ? 1 : 43) {
      cpu::Guarded<float> x(n);
      std::ranges::copy(random_tensor(n, 0.5, 2, 3, DType::f32).values<float>(), x.data());
      const double sum = std::accumulate(x.span().begin(), x.span().end(), 0.0);
      EXPECT_NEAR(k.row[static_cast<int>(cpu::Fold::sum)](x.data(), n, 0, 0), sum, 1e-6);
      EXPECT_EQ(k.row[static_cast<int>(cpu::Fold::largest)](x.data(), n, -INFINITY, 0), std::ranges::max(x.span()));
      std::vector<double> y(static_cast<std::size_t>(n + cpu::FoldKernel::slack), -INFINITY);
      const std::vector<float> zeros(y.size());
      y[0] = NAN;  // of lines before
      k.columns[static_cast<int>(cpu::Fold::largest)](std::array<const float*, 1>{x.data()}, n, y.data(), zeros.data());
      for (std::size_t i = 0; i < x.span().size(); ++i) ASSERT_EQ(y[i] == x[i], i > 0) << name(k.set);
    }
  }
}

}  // namespace
}  // namespace lamina::test::norm_test
