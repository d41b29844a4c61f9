#include "lamina/kernel/map/map_of.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cuda/map/map_data.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::test::map_of_test {
namespace {

/// The problem as a Map, by plain loops and by the emulator, is what a CPU's kernels make of it.
template <class Problem>
void expect_is_map(const Problem& problem, const std::vector<Tensor>& inputs, const Shape& output,
                   DType dtype = DType::f32) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    const bool nhwc = layout == Layout::nhwc;
    if (nhwc && (inputs[0].shape().rank() != 4 || std::is_same_v<Problem, MoveProblem>)) continue;
    std::vector<View> views;
    std::vector<Tensor> stored;
    for (const Tensor& input : inputs) {
      const bool turned = nhwc && input.shape().rank() == 4;
      views.push_back({.shape = input.shape(), .format = {input.dtype(), turned ? layout : Layout::nchw}});
      stored.push_back(turned ? reordered(input, true) : input);
    }
    const bool turned = nhwc && output.rank() == 4;
    const View to = {.shape = output, .format = {dtype, turned ? layout : Layout::nchw}};
    const Preparation preparation = {.inputs = views, .outputs = {&to, 1}, .device = describe(Device::cpu())};
    const auto of = map_of(problem, preparation);
    if (!of) {
      ASSERT_TRUE(nhwc) << Problem::what << " is no map";
      continue;
    }
    for (const Tensor& parameter : of->parameters) stored.push_back(parameter);
    const Tensor want = run_problem(problem, inputs, output, dtype, Device::cpu());
    for (const int architecture : {0, 75, 90}) {
      MapRun run(*of);
      run.inputs.resize(stored.size());
      for (std::size_t i = 0; i < stored.size(); ++i) {
        const auto* bytes = static_cast<const std::byte*>(stored[i].raw());
        run.inputs[i] = {stored[i].dtype(), stored[i].numel(), {bytes, bytes + stored[i].bytes()}};
      }
      architecture == 0 ? run.plainly() : run.emulated(architecture);
      Tensor got(output, dtype);
      std::memcpy(got.raw(), run.outputs[0].bytes.data(), got.bytes());
      const std::vector<double> a = doubles(turned ? reordered(got, false) : got), b = doubles(want);
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], tolerance_of(dtype) * (1 + std::abs(b[i])))
            << Problem::what << ", element " << i << ", " << architecture << ", " << lamina::name(layout);
      }
    }
  }
}

TEST(MapOf, Reductions) {
  const Tensor x = draw_floats({2, 12, 5, 7}, 1);
  for (const Reduction kind : {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::l1,
                               Reduction::l2, Reduction::sum_square, Reduction::log_sum_exp}) {
    expect_is_map(ReduceProblem{.kind = kind, .dims = 0b1100}, {x}, {2, 12, 1, 1});
    expect_is_map(ReduceProblem{.kind = kind, .dims = 0b0010}, {x}, {2, 5, 7});
    expect_is_map(ReduceProblem{.kind = kind, .dims = 0b1111}, {x}, {1, 1, 1, 1});
  }
  for (const Reduction kind : {Reduction::sum, Reduction::mean}) {  // which is rounded towards 0
    expect_is_map(ReduceProblem{.kind = kind, .dims = 0b10}, {draw_whole({3, 40}, 2, -9, 9)}, {3}, DType::i64);
  }
  for (const Reduction kind : {Reduction::sum, Reduction::prod, Reduction::l2}) {
    expect_is_map(ReduceProblem{.kind = kind, .dims = 0b10}, {Tensor({3, 0})}, {3});
  }
}

/// Windows of 3 x 3 around which there is padding: a mean is of those pixels that are there, or of all nine.
TEST(MapOf, PoolingsByWindows) {
  const Tensor x = draw_floats({2, 12, 7, 9}, 3);
  for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
    for (const int stride : {1, 2}) {
      for (const bool count_padding : {false, true}) {
        const PoolGeometry g = {.planes = 24,
                                .in_height = 7,
                                .in_width = 9,
                                .out_height = 6 / stride + 1,
                                .out_width = 8 / stride + 1,
                                .kernel_height = 3,
                                .kernel_width = 3,
                                .stride_height = stride,
                                .stride_width = stride,
                                .padding_height = 1,
                                .padding_width = 1,
                                .count_padding = count_padding};
        expect_is_map(PoolProblem{kind, g}, {x}, {2, 12, g.out_height, g.out_width});
        PoolGeometry beyond = g;  // the last windows go beyond the padding, whose cells count
        beyond.padding_height = beyond.padding_width = 0;
        beyond.out_height = (7 + stride - 1) / stride, beyond.out_width = (9 + stride - 1) / stride;
        expect_is_map(PoolProblem{kind, beyond}, {x}, {2, 12, beyond.out_height, beyond.out_width});
      }
    }
  }
}

/// However large they are, and however they are stored: other kernels give a window to a thread.
TEST(MapOf, PoolingsOfWholeImagesPay) {
  const detail::DryRun without_a_gpu;
  for (const PoolKind kind : {PoolKind::largest, PoolKind::average, PoolKind::adaptive}) {
    for (const int side : {3, 7, 14, 56, 112}) {
      for (const Format format : {Format{}, {DType::f16, Layout::nhwc}, {DType::bf16, Layout::nchw}}) {
        const View image = {.shape = {2, 64, side, side}, .format = format},
                   one = {.shape = {2, 64, 1, 1}, .format = format};
        const PoolProblem pooling = {kind,
                                     {.planes = 128,
                                      .in_height = side,
                                      .in_width = side,
                                      .out_height = 1,
                                      .out_width = 1,
                                      .kernel_height = side,
                                      .kernel_width = side,
                                      .stride_height = side,
                                      .stride_width = side}};
        const auto* const kernel =
            find_kernel(pooling, {.inputs = {&image, 1}, .outputs = {&one, 1}, .device = h200(), .images = 2});
        ASSERT_NE(kernel, nullptr);
        EXPECT_EQ(kernel->name, "map") << side << ' ' << format;
      }
    }
  }
}

TEST(MapOf, NormsAndSoftmax) {
  const Tensor x = draw_floats({2, 12, 5, 7}, 3), scale = draw_floats({12}, 4), shift = draw_floats({12}, 5);
  for (const NormKind kind : {NormKind::centred, NormKind::root_mean_square, NormKind::length}) {
    expect_is_map(
        NormProblem{.length = 4 * 35, .kind = kind, .inner = 35, .channels = 12, .scale = scale, .shift = shift}, {x},
        x.shape());
  }
  const Tensor rows = draw_floats({9, 48}, 6);
  expect_is_map(
      NormProblem{
          .length = 48, .channels = 48, .scale = draw_floats({48}, 7), .epilogue = {.chain = {{Pointwise::relu}}}},
      {rows}, rows.shape());
  expect_is_map(NormProblem{.length = 48}, {rows}, rows.shape());
  expect_is_map(NormProblem{.length = 48, .channels = 8, .shift = draw_floats({8}, 8)}, {rows}, rows.shape());
  for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    for (int dim = 0; dim < 4; ++dim) expect_is_map(SoftmaxProblem{.dim = dim, .kind = kind}, {x}, x.shape());
  }
}

/// Numbers beside those that lie between two codes: the code is that of the quotient, whether or not it is divided.
TEST(MapOf, RoundingToCodes) {
  for (const auto& [type, to] : {std::pair(DType::u8, Quantization{0.0217f, 117}),
                                 {DType::i8, {1.7e-3f, -3}},
                                 {DType::u8, {0.9999999f, 0}},
                                 {DType::i8, {3e-16f, 5}}}) {
    std::vector<float> values = {0, -0.0f, NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
    for (int k = -300; k < 300; ++k) {
      const float between = (static_cast<float>(k) + 0.5f) * to.scale;
      for (const float x : {between, std::nextafter(between, -1e30f), std::nextafter(between, 1e30f)})
        values.push_back(x);
    }
    const Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
    const View input = {.shape = x.shape()}, output = {.shape = x.shape(), .format = {type}, .quantization = to};
    const auto of = map_of(PointwiseProblem{.chain = {{Pointwise::identity}}},
                           {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu())});
    ASSERT_TRUE(of);
    for (const int architecture : {0, 75, 90}) {
      MapRun run(*of);
      const auto* bytes = static_cast<const std::byte*>(x.raw());
      run.inputs[0] = {DType::f32, x.numel(), {bytes, bytes + x.bytes()}};
      architecture == 0 ? run.plainly() : run.emulated(architecture);
      const std::vector<double> got = run.outputs[0].doubles();
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], detail::code_of(values[i], to, type)) << values[i] << ", " << architecture;
    }
  }
}

/// Codes in and out: what those of a norm in floats are, but for one where a number lies between two.
TEST(MapOf, NormsOfCodes) {
  const Shape shape = {9, 48};
  const Quantization from = {.scale = 0.05f, .zero_point = 120}, to = {.scale = 0.03f, .zero_point = -3};
  const Tensor codes = draw_whole(shape, 3, 0, 255).to(DType::u8);
  Tensor x(shape);
  for (std::size_t i = 0; i < 9 * 48; ++i) {
    x.values<float>()[i] = (static_cast<float>(codes.values<std::uint8_t>()[i]) - 120) * from.scale;
  }
  const NormProblem problem = {
      .length = 48, .channels = 48, .scale = draw_floats({48}, 7), .shift = draw_floats({48}, 8)};
  const Tensor want = run_problem(problem, {x}, shape, DType::f32, Device::cpu());
  const View input = {.shape = shape, .format = {DType::u8}, .quantization = from},
             output = {.shape = shape, .format = {DType::i8}, .quantization = to};
  const auto of = map_of(problem, {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu())});
  ASSERT_TRUE(of);
  for (const int architecture : {0, 75, 90}) {
    MapRun run(*of);
    const Tensor* arrays[] = {&codes, &of->parameters[0], &of->parameters[1]};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto* bytes = static_cast<const std::byte*>(arrays[i]->raw());
      run.inputs[i] = {arrays[i]->dtype(), arrays[i]->numel(), {bytes, bytes + arrays[i]->bytes()}};
    }
    architecture == 0 ? run.plainly() : run.emulated(architecture);
    const std::vector<double> got = run.outputs[0].doubles(), numbers = doubles(want);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], std::clamp(std::rint(numbers[i] / 0.03f) - 3, -128.0, 127.0), 1) << i << ", " << architecture;
    }
  }
}

TEST(MapOf, FunctionsAndMoves) {
  const Tensor x = draw_floats({2, 12, 5, 7}, 8), gate = draw_floats({2, 12, 1, 1}, 9), scale = draw_floats({12}, 10),
               shift = draw_floats({12}, 11);
  const PointwiseChain chain = {{.function = Pointwise::mul, .operand = 1},
                                {.function = Pointwise::clip, .a = -0.5, .b = 0.75},
                                {Pointwise::silu}};
  expect_is_map(PointwiseProblem{.chain = chain}, {x, gate}, x.shape());
  expect_is_map(PointwiseProblem{.chain = {{.function = Pointwise::less, .operand = 1}}}, {x, gate}, x.shape(),
                DType::boolean);
  expect_is_map(AffineProblem{.scale = scale, .shift = shift, .epilogue = {.chain = {{Pointwise::relu}}}}, {x},
                x.shape());
  expect_is_map(ConversionProblem{}, {x}, x.shape(), DType::f16);
  const ConvGeometry g = {2, 3, 20, 28, 5, 20, 28, 1, 1};
  expect_is_map(ConvProblem{.geometry = g, .weight = draw_floats({5, 3, 1, 1}, 13), .bias = draw_floats({5}, 14)},
                {draw_floats({2, 3, 20, 28}, 15)}, {2, 5, 20, 28});
  for (const DType dtype : {DType::f32, DType::f16, DType::u8, DType::boolean, DType::f64, DType::i64}) {
    const Tensor moved = draw_any({6, 40, 24}, 12, dtype);
    expect_is_map(MoveProblem{.axes = {{6, 40 * 24}, {24, 1}, {40, 24}}}, {moved}, {6, 24, 40}, dtype);
    // Hiera's windows of windows: two rows and two columns of what has two of each, turned inside out.
    const MoveProblem windows = {.axes = {{2, 8 * 960},
                                          {2, 480},
                                          {2, 60},
                                          {2, 960},
                                          {2, 120},
                                          {2, 2 * 960},
                                          {2, 240},
                                          {2, 4 * 960},
                                          {3, 20},
                                          {20, 1}}};
    expect_is_map(windows, {draw_any({2, 8, 960}, 12, dtype)}, {2, 8, 960}, dtype);
    for (const std::vector<std::int64_t>& places :  // what is no table is a guard
         {std::vector<std::int64_t>{-1, 24, 0, 48, -1},
          {-1, 24, 48, 72, -1},
          {-1, -1, 72, 48, 24},
          {24, 48, 72, 96, -1}}) {
      expect_is_map(MoveProblem{.axes = {{6, 40 * 24}, {5, 0, places}, {24, 1}}, .fill = 1}, {moved}, {6, 5, 24},
                    dtype);
    }
  }
}

}  // namespace
}  // namespace lamina::test::map_of_test
