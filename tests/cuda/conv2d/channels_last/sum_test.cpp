// Sums of two convolutions in one product, against the sum of two references.

#include "cuda/conv2d/channels_last/harness.h"
#include "lamina/kernel/conv_sum.h"

namespace lamina::test::sum_test {
namespace {

/// The second reads `in` channels, every `stride` pixels of an image that is `spare` pixels larger than it must be.
struct SumCase {
  Case first;
  int in = 8, stride = 1, spare = 0;
};

const SumCase cases[] = {{conv("n2 64x14x14 -> 256"), 64},
                         {conv("n3 128x9x7 -> 512"), 256, 2},
                         {conv("n2 64x11x9 -> 128, k 3, p 1"), 64, 2, 1},
                         {conv("24x20x13 -> 40, k 3x5, s 2x3, p 1x2"), 72, 3, 2},
                         {conv("n5 136x1x1 -> 72"), 8},
                         {conv("n131 8x3x3 -> 8, k 3"), 200, 4, 3}};

class ChannelsLastSum : public OnHopper {
 protected:
  struct Two {
    ConvGeometry first, second;
    ConvData a, b;
  };

  static Two draw_two(const SumCase& c, unsigned seed) {
    Two two = {.first = geometry_of(c.first), .second = {}, .a = {}, .b = {}};
    const auto extent = [&](int out) { return (out - 1) * c.stride + 1 + std::min(c.spare, c.stride - 1); };
    two.second = geometry_of({.batch = c.first.batch,
                              .in = c.in,
                              .height = extent(two.first.out_height),
                              .width = extent(two.first.out_width),
                              .out = c.first.out,
                              .stride = {c.stride, c.stride}});
    two.a = draw(two.first, normal, normal, seed), two.b = draw(two.second, normal, normal, seed + 1);
    return two;
  }

  static void expect(const Two& two, Precision precision, bool relu, const Tuning& tuning = {}) {
    KernelOptions o = options_for(precision, relu, tuning);
    const std::string what = "sum of " + describe(two.first, o) + " and " + describe(two.second, o);
    Task task(two.first, o);
    const auto weight = [](const ConvGeometry& g, const ConvData& d) {
      return Tensor::from(d.w, {g.out_channels, g.in_channels, g.kernel_height, g.kernel_width});
    };
    ConvSumProblem problem = {.first = task.problem, .second = two.second, .second_weight = weight(two.second, two.b)};
    problem.first.weight = weight(two.first, two.a);
    problem.first.bias = Tensor::from(two.a.b, {two.first.out_channels});
    const View inputs[] = {
        task.views[0],
        {.shape = {two.second.batch, two.second.in_channels, two.second.in_height, two.second.in_width},
         .format = o.input}};
    Preparation preparation = task.preparation;
    preparation.inputs = inputs;
    const Kernel<ConvSumProblem>* kernel = find_kernel(problem, preparation);
    ASSERT_NE(kernel, nullptr) << what;
    const auto op = kernel->prepare(problem, preparation);

    const View& out = task.views[2];
    const GuardedBuffer x1(to_bytes(two.a.x, inputs[0].shape, o.input)),
        x2(to_bytes(two.b.x, inputs[1].shape, o.input));
    const GuardedBuffer y(detail::bytes_of(out.shape, o.output));
    const Tensor from[] = {Tensor::borrow(x1.data(), inputs[0].shape, o.input.dtype, Device::cuda()),
                           Tensor::borrow(x2.data(), inputs[1].shape, o.input.dtype, Device::cuda())};
    Tensor to = Tensor::borrow(y.data(), out.shape, o.output.dtype, Device::cuda());
    op->run(from, {&to, 1}, {});
    cuda::synchronize(0, nullptr);
    (void)x1.read(), (void)x2.read();

    ConvReference sum = reference_of(two.first, precision, two.a, true);
    const ConvReference other = reference_of(two.second, precision, two.b, false);
    for (std::size_t i = 0; i < sum.value.size(); ++i) {
      sum.value[i] += other.value[i], sum.scale[i] += other.scale[i];
    }
    expect_outputs(expected_outputs(two.first, o, sum), to_values(y.read(), out.shape, o.output),
                   what + ", " + op->description());
  }
};

TEST_F(ChannelsLastSum, MeetsContract) {
  unsigned seed = 100;
  for (const Precision precision : of_16_bits) {
    for (const SumCase& c : cases) {
      expect(draw_two(c, seed), precision, seed % 4 == 0);
      seed += 2;
    }
  }
}

// A piece of K may begin before, at or behind the second product's first step.
TEST_F(ChannelsLastSum, EverySharing) {
  const Two two = draw_two(cases[2], 300);
  for (const Precision precision : of_16_bits) {
    for (const auto& [multicast, splits] : {std::pair{2, 1}, {4, 1}, {1, 2}, {1, 5}, {1, 8}}) {
      expect(two, precision, true, {.splits = splits, .multicast = multicast});
    }
  }
}

// Many tiles for each block.
TEST_F(ChannelsLastSum, ManyTiles) {
  const Two two = draw_two({conv("n9 64x56x56 -> 256"), 64}, 400);
  for (const Precision precision : of_16_bits) expect(two, precision, true);
}

TEST_F(ChannelsLastSum, WhatIsNotFiniteReachesItsWindowsAlone) {
  for (const Precision precision : of_16_bits) {
    for (const int splits : {1, 3}) {
      Two two = draw_two(cases[2], 500);
      two.a.x[5] = std::nanf(""), two.a.x[70] = infinity, two.a.x[two.a.x.size() - 1] = -infinity;
      two.b.x[17] = infinity, two.b.x[200] = std::nanf(""), two.b.x[two.b.x.size() - 30] = -infinity;
      expect(two, precision, false, {.splits = splits, .multicast = 1});
    }
  }
}

}  // namespace
}  // namespace lamina::test::sum_test
