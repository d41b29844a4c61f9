// What networks do between convolutions, channels last: means of whole images, products by channel, concatenation.

#include "support/kernel_data.h"
#include "support/run_problem.h"

namespace lamina::test::ops_test {
namespace {

class CudaOps : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};

/// A unit in the last place, of the larger ones.
double unit_of(DType type) { return type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 1e-6; }

Tensor drawn(const Shape& shape, DType type, unsigned seed) {
  return Tensor::from(draw(shape.numel(), Values::mixed, seed), shape).to(type);
}

TEST_F(CudaOps, MeansOfWholeImages) {
  unsigned seed = 0;
  for (const DType type : types) {
    for (const Shape& shape : {Shape{2, 72, 7, 9},
                               {1, 1280, 7, 7},
                               {3, 5, 4, 3},
                               {1, 32, 45, 45},
                               {2, 24, 1, 1},
                               {1, 3, 1, 5},
                               {2, 68, 33, 1}}) {
      const Tensor input = drawn(shape, type, ++seed);
      const std::int64_t pixels = shape[2] * shape[3], planes = shape[0] * shape[1];
      const auto problem_of = [&](std::int64_t images) {
        return PoolProblem{.kind = PoolKind::adaptive,
                           .geometry = {.planes = images * shape[1],
                                        .in_height = static_cast<int>(shape[2]),
                                        .in_width = static_cast<int>(shape[3]),
                                        .out_height = 1,
                                        .out_width = 1}};
      };
      const auto values = doubles(input);
      for (const Layout output : {Layout::nhwc, Layout::nchw}) {
        const auto means = doubles(run_problem(problem_of(shape[0]), {input}, {shape[0], shape[1], 1, 1}, type,
                                               Device::cuda(), {.inputs = {Layout::nhwc}, .output = output}));
        for (std::int64_t plane = 0; plane < planes; ++plane) {
          double sum = 0, magnitude = 0;
          for (std::int64_t i = 0; i < pixels; ++i) {
            const double v = values[static_cast<std::size_t>(plane * pixels + i)];
            sum += v, magnitude += std::abs(v);
          }
          ASSERT_NEAR(means[static_cast<std::size_t>(plane)], sum / static_cast<double>(pixels),
                      unit_of(type) * std::abs(sum) / static_cast<double>(pixels) +
                          1e-6 * magnitude / static_cast<double>(pixels))
              << shape << ", plane " << plane;
        }
      }
    }
  }
}

TEST_F(CudaOps, ProductsByChannel) {
  unsigned seed = 100;
  for (const DType type : types) {
    for (const Shape& shape : {Shape{3, 40, 5, 7}, {1, 16, 9, 8}, {2, 96, 1, 3}, {2, 7, 3, 3}}) {
      for (const bool of_all_images : {false, true}) {
        for (const bool turned : {false, true}) {
          const Shape small = {of_all_images ? 1 : shape[0], shape[1], 1, 1};
          const Tensor x = drawn(shape, type, ++seed), s = drawn(small, type, ++seed);
          // s is made a factor in the same chain where it comes first.
          PointwiseProblem problem;
          if (turned) problem.chain.push_back({.function = Pointwise::hard_sigmoid, .a = 0.2, .b = 0.5});
          problem.chain.push_back({.function = Pointwise::mul, .operand = 1});
          const std::vector<Tensor> inputs = turned ? std::vector{s, x} : std::vector{x, s};
          const auto y = doubles(run_problem(problem, inputs, shape, type, Device::cuda(),
                                             {.inputs = {Layout::nhwc, Layout::nhwc}, .output = Layout::nhwc}));
          const auto xs = doubles(x), ss = doubles(s);
          const std::int64_t pixels = shape[2] * shape[3];
          for (std::size_t i = 0; i < y.size(); ++i) {
            const auto plane = static_cast<std::int64_t>(i) / pixels;
            double factor = ss[static_cast<std::size_t>(of_all_images ? plane % shape[1] : plane)];
            if (turned) factor = std::min(1.0, std::max(0.0, factor * 0.2 + 0.5));
            const double expected = xs[i] * factor;
            ASSERT_NEAR(y[i], expected, unit_of(type) * std::abs(expected) + 1e-6) << shape << ", element " << i;
          }
        }
      }
    }
  }
}

/// x p + c: of p a number for each pixel, of c one for each channel, of each image or of all.
TEST_F(CudaOps, ProductsByPixelAndChannel) {
  unsigned seed = 300;
  for (const DType type : types) {
    for (const Shape& shape : {Shape{3, 40, 5, 7}, {1, 16, 9, 8}, {2, 96, 1, 3}, {2, 7, 3, 3}, {4, 8, 1, 1}}) {
      for (const bool p_of_all : {false, true}) {
        for (const bool c_of_all : {false, true}) {
          const Tensor x = drawn(shape, type, ++seed);
          const Tensor p = drawn({p_of_all ? 1 : shape[0], 1, shape[2], shape[3]}, type, ++seed);
          const Tensor c = drawn({c_of_all ? 1 : shape[0], shape[1], 1, 1}, type, ++seed);
          const PointwiseProblem problem = {
              .chain = {{.function = Pointwise::mul, .operand = 1}, {.function = Pointwise::add, .operand = 2}}};
          const std::vector<Layout> nhwc(3, Layout::nhwc);
          const auto y = doubles(
              run_problem(problem, {x, p, c}, shape, type, Device::cuda(), {.inputs = nhwc, .output = Layout::nhwc}));
          const auto xs = doubles(x), ps = doubles(p), cs = doubles(c);
          const std::int64_t pixels = shape[2] * shape[3];
          for (std::size_t i = 0; i < y.size(); ++i) {
            const auto plane = static_cast<std::int64_t>(i) / pixels, pixel = static_cast<std::int64_t>(i) % pixels;
            const std::int64_t image = plane / shape[1];
            const double product = xs[i] * ps[static_cast<std::size_t>((p_of_all ? 0 : image) * pixels + pixel)];
            const double more = cs[static_cast<std::size_t>(c_of_all ? plane % shape[1] : plane)];
            const double bound = unit_of(type) * std::abs(product + more) + 1e-6 * (1 + std::abs(product));
            ASSERT_NEAR(y[i], product + more, bound) << shape << ", element " << i;
          }
        }
      }
    }
  }
}

TEST_F(CudaOps, RowsSideBySide) {
  unsigned seed = 200;
  for (const DType type : {DType::f32, DType::f16, DType::u8}) {
    for (const std::vector<std::int64_t>& channels : {std::vector<std::int64_t>{64, 32, 8},
                                                      {3, 5},
                                                      {1},
                                                      {6, 2, 10, 4},
                                                      std::vector<std::int64_t>(37, 5),
                                                      {16, 1, 16}}) {
      std::vector<Tensor> inputs;
      std::int64_t all = 0;
      for (const std::int64_t c : channels) {
        const Tensor values = drawn({2, c, 3, 5}, DType::f32, ++seed);
        inputs.push_back(type == DType::u8 ? Tensor::from(std::vector<std::uint8_t>(30 * static_cast<std::size_t>(c),
                                                                                    static_cast<std::uint8_t>(seed)),
                                                          {2, c, 3, 5})
                                           : values.to(type));
        all += c;
      }
      const auto y =
          doubles(run_problem(ConcatProblem{.dim = 1}, inputs, {2, all, 3, 5}, type, Device::cuda(),
                              {.inputs = std::vector<Layout>(channels.size(), Layout::nhwc), .output = Layout::nhwc}));
      std::int64_t begin = 0;
      for (std::size_t k = 0; k < channels.size(); begin += channels[k++]) {
        const auto x = doubles(inputs[k]);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i), image = at / (channels[k] * 15), rest = at % (channels[k] * 15);
          ASSERT_EQ(y[static_cast<std::size_t>((image * all + begin) * 15 + rest)], x[i]) << "input " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::ops_test
