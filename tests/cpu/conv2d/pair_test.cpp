// A convolution and the depthwise one behind it: the bits of one after the other, whatever the rows are cut into.

#include "lamina/cpu/conv2d/pair.h"

#include <gtest/gtest.h>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/kernel.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::pair_test {
namespace {

using test::square;

constexpr Format narrow = {DType::bf16, Layout::nhwc};
using Bytes = std::vector<unsigned char>;

View view_of(const ConvGeometry& g, bool output, Format format = narrow) {
  return {.shape = output ? Shape{g.batch, g.out_channels, g.out_height, g.out_width}
                          : Shape{g.batch, g.in_channels, g.in_height, g.in_width},
          .format = format};
}

ConvProblem problem_of(const ConvGeometry& g, const test::ConvData& data, PointwiseChain chain) {
  return {.geometry = g,
          .weight = Tensor::from(data.w, {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}),
          .bias = Tensor::from(data.b, {g.out_channels}),
          .epilogue = {.chain = std::move(chain)}};
}

/// Everything between guard pages.
Bytes run(const Operator& op, const Bytes& input, const View& from, const View& to, int threads) {
  cpu::Guarded<unsigned char> x(input);
  cpu::Guarded<unsigned char> y(static_cast<std::int64_t>(detail::bytes_of(to.shape, to.format)));
  cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op.workspace_bytes() / 4)));
  const Tensor operand = Tensor::borrow(x.data(), from.shape, from.format.dtype, Device::cpu());
  Tensor result = Tensor::borrow(y.data(), to.shape, to.format.dtype, Device::cpu());
  ThreadPool pool(threads);
  op.run({&operand, 1}, {&result, 1}, {.pool = &pool, .workspace = workspace.data()});
  return {y.span().begin(), y.span().end()};
}

struct Case {
  test::ConvCase first, second;
  PointwiseChain chain = {{.function = Pointwise::clip, .a = 0, .b = 6}};
  Format input = narrow;
};

/// The second of these reads what the first gives: its extents are to fit.
std::vector<Case> cases() {
  const Format image = {};
  return {
      {square(1, 16, 23, 18, 40, 1), square(1, 40, 23, 18, 40, 3, 1, 1, 1, 40)},
      {square(3, 24, 17, 16, 33, 1), square(3, 33, 17, 16, 33, 3, 2, 1, 1, 33), {{Pointwise::silu}}},
      {square(2, 7, 20, 19, 36, 1), square(2, 36, 20, 19, 36, 5, 2, 2, 1, 36), {{Pointwise::hard_swish}}},
      {square(2, 40, 16, 16, 64, 1), square(2, 64, 16, 16, 64, 3, 1, 2, 2, 64), {}},
      {square(2, 3, 41, 37, 16, 3, 2, 1), square(2, 16, 21, 19, 16, 3, 1, 1, 1, 16), {{Pointwise::relu}}, image},
      {square(1, 3, 36, 36, 34, 5, 2, 2), square(1, 34, 18, 18, 34, 3, 1, 0, 1, 34), {{Pointwise::gelu}}, image},
      {square(1, 20, 18, 18, 12, 3, 1, 1), square(1, 12, 18, 18, 12, 2, 3, 1, 1, 12), {{Pointwise::sigmoid}}},
  };
}

DeviceDescription device_with(int unit) {
  DeviceDescription device = describe(Device::cpu());
  if (unit > 0) device.amx_bf16 = false;
  if (unit > 1) device.avx512_bf16 = false;
  if (unit > 2) device.instructions = InstructionSet::scalar;
  return device;
}

template <DType type>
void expect_bits_of_one_after_the_other() {
  constexpr Format format = {type, Layout::nhwc};
  for (const Case& c : cases()) {
    const ConvGeometry a = geometry_of(c.first), b = geometry_of(c.second);
    if (type == DType::f32 && a.kernel_height > 1) continue;
    const test::ConvData first = test::draw(a, test::Values::mixed), second = test::draw(b, test::Values::mixed);
    const ConvPairProblem pair = {problem_of(a, first, c.chain), problem_of(b, second, {{Pointwise::relu}})};
    const View from = view_of(a, false, type == DType::f32 ? format : c.input);
    const View middle = view_of(a, true, format), to = view_of(b, true, format);
    const Bytes input = test::to_bytes(first.x, from.shape, from.format);
    for (const int unit : {0, 1, 2, 3}) {
      Preparation p = {.inputs = {&from, 1},
                       .outputs = {&to, 1},
                       .device = device_with(unit),
                       .precision = type == DType::f32 ? Precision::fp32 : Precision::bf16,
                       .threads = 1};
      Preparation one = p, two = p;
      one.outputs = two.inputs = {&middle, 1};
      const auto before = choose(pair.first, one).prepare(pair.first, one);
      const auto after = choose(pair.second, two).prepare(pair.second, two);
      const Bytes expected = run(*after, run(*before, input, from, middle, 1), middle, to, 1);
      for (const int threads : {1, 2, 7}) {
        p.threads = threads;
        ASSERT_TRUE(cpu::takes_pair(type, pair, p));
        EXPECT_EQ(run(*cpu::prepare_pair(type, pair, p), input, from, to, threads), expected)
            << test::describe(a) << ", " << test::describe(b) << ", unit " << unit << ", threads " << threads;
      }
    }
  }
}

TEST(CpuPair, HasTheBitsOfOneAfterTheOther) { expect_bits_of_one_after_the_other<DType::f32>(); }
TEST(CpuBf16Pair, HasTheBitsOfOneAfterTheOther) { expect_bits_of_one_after_the_other<DType::bf16>(); }

TEST(CpuPair, IsTakenWhereWhatLiesBetweenIsLarge) {
  const auto taken = [](int images, Precision precision) {
    const ConvGeometry a = geometry_of(square(images, 16, 112, 112, 96, 1));
    const ConvGeometry b = geometry_of(square(images, 96, 112, 112, 96, 3, 2, 1, 1, 96));
    constexpr Format format = {DType::f32, Layout::nhwc};
    const View from = view_of(a, false, format), to = view_of(b, true, format);
    const ConvPairProblem pair = {{.geometry = a, .weight = Tensor::zeros({96, 16, 1, 1})},
                                  {.geometry = b, .weight = Tensor::zeros({96, 1, 3, 3})}};
    return paying_kernel(pair, {.inputs = {&from, 1},
                                .outputs = {&to, 1},
                                .device = describe(Device::cpu()),
                                .precision = precision,
                                .threads = 2}) != nullptr;
  };
  EXPECT_FALSE(taken(1, Precision::fp32));
  EXPECT_TRUE(taken(8, Precision::fp32));
  EXPECT_FALSE(taken(8, Precision::bf16));
}

TEST(CpuBf16Pair, PoolsAsThePoolingBehindIt) {
  const ConvGeometry a = geometry_of(square(2, 3, 41, 37, 70, 3, 2, 1));  // to 21 x 19
  test::ConvData data = test::draw(a, test::Values::mixed);
  data.x[5 * 37 + 20] = std::numeric_limits<float>::quiet_NaN();
  data.x[9 * 37 + 3] = -std::numeric_limits<float>::infinity();
  for (PoolGeometry pool : {PoolGeometry{.out_height = 10, .out_width = 9, .kernel_height = 3, .kernel_width = 3},
                            PoolGeometry{.out_height = 11,
                            .out_width = 10,
                            .kernel_height = 3,
                            .kernel_width = 3,
                            .padding_height = 1,
                            .padding_width = 1},
                            PoolGeometry{.out_height = 10, .out_width = 9, .kernel_height = 2, .kernel_width = 2}}) {
    pool.planes = 140, pool.in_height = 21, pool.in_width = 19, pool.stride_height = pool.stride_width = 2;
    const View from = view_of(a, false, {}), middle = view_of(a, true);
    const View to = {.shape = {2, 70, pool.out_height, pool.out_width}, .format = narrow};
    Preparation p = {.inputs = {&from, 1},
                     .outputs = {&to, 1},
                     .device = describe(Device::cpu()),
                     .precision = Precision::bf16,
                     .threads = 1};
    Preparation one = p, two = p;
    one.outputs = two.inputs = {&middle, 1};
    const ConvProblem first = problem_of(a, data, {{Pointwise::relu}});
    const PoolProblem second = {.kind = PoolKind::largest, .geometry = pool};
    const Bytes input = test::to_bytes(data.x, from.shape, from.format);
    const auto before = choose(first, one).prepare(first, one);
    const Bytes expected =
        run(*choose(second, two).prepare(second, two), run(*before, input, from, middle, 1), middle, to, 1);
    ConvProblem both = first;
    both.epilogue.pool = pool;
    for (const int threads : {1, 2, 7}) {
      p.threads = threads;
      EXPECT_EQ(run(*cpu::prepare_pooled(both, p), input, from, to, threads), expected) << threads;
    }
  }
}

TEST(CpuBf16Pair, IsTakenWhereTheCachesDoNotHoldWhatLiesBetween) {
  const auto taken = [](int images, const auto& change) {
    const ConvGeometry a = geometry_of(square(images, 16, 112, 112, 96, 1));
    const ConvGeometry b = geometry_of(square(images, 96, 112, 112, 96, 3, 2, 1, 1, 96));
    View from = view_of(a, false), to = view_of(b, true);
    ConvPairProblem pair = {{.geometry = a, .weight = Tensor::zeros({96, 16, 1, 1})},
                            {.geometry = b, .weight = Tensor::zeros({96, 1, 3, 3})}};
    Preparation p = {.inputs = {&from, 1},
                     .outputs = {&to, 1},
                     .device = describe(Device::cpu()),
                     .precision = Precision::bf16,
                     .threads = 2};
    change(pair, p, from, to);
    return paying_kernel(pair, p) != nullptr;
  };
  const auto nothing = [](auto&...) {};
  EXPECT_TRUE(taken(8, nothing));
  EXPECT_FALSE(taken(8, [](auto&, Preparation& p, auto&, auto&) { p.threads = 64; }));
  EXPECT_FALSE(taken(8, [](auto&, Preparation& p, auto&, auto&) { p.algorithm = "bf16_fma"; }));
  EXPECT_FALSE(taken(8, [](auto&, Preparation& p, auto&, auto&) { p.precision = Precision::fp32; }));
  EXPECT_FALSE(taken(8, [](auto&, auto&, auto&, View& to) { to.channels = 128; }));
  EXPECT_FALSE(taken(8, [](auto&, auto&, auto&, View& to) { to.format = {}; }));
  EXPECT_TRUE(taken(8, [](auto&, auto&, View& from, auto&) { from.channels = 32; }));
  EXPECT_FALSE(taken(8, [](auto&, auto&, View& from, auto&) { from.channels = 33, from.alignment = 2; }));
  EXPECT_FALSE(taken(8, [](ConvPairProblem& pair, auto&...) { pair.first.epilogue.chain = {{Pointwise::add, 1}}; }));
  EXPECT_FALSE(taken(8, [](ConvPairProblem& pair, auto&...) { pair.second.geometry.groups = 48; }));
}

}  // namespace
}  // namespace lamina::pair_test
