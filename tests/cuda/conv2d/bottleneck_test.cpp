// A wide map and the narrow one read from it, against the references of both convolutions; the narrow one's reads the
// wide map as it was stored.

#include "lamina/kernel/bottleneck.h"
#include "support/kernel_harness.h"

namespace lamina::test::bottleneck_test {
namespace {

/// `second`: channels of a second input, every `stride` pixels of an image; 0: none. `adds`: a residual.
struct BottleneckCase {
  Case wide;
  int narrow = 64;
  bool adds = false;
  int second = 0, stride = 1;
};

const BottleneckCase cases[] = {{conv("n2 64x14x14 -> 256"), 64, true}, {conv("n2 64x14x14 -> 256"), 64, false, 64},
                                {conv("n3 128x9x7 -> 512"), 128, true}, {conv("n3 128x9x7 -> 512"), 128, false, 256, 2},
                                {conv("256x13x11 -> 1024"), 256, true}, {conv("256x13x11 -> 1024"), 256, false, 512, 2},
                                {conv("n5 72x5x5 -> 128, s 2"), 128},   {conv("8x1x1 -> 128"), 256, true}};

class Bottleneck : public OnHopper {
 protected:
  struct Layers {
    ConvGeometry wide, second, narrow;
    ConvData a, b, c;
    bool adds = false;
    bool sums() const { return second.in_channels > 0; }
  };

  static Layers draw_layers(const BottleneckCase& c, unsigned seed) {
    Layers l;
    l.adds = c.adds, l.wide = geometry_of(c.wide);
    l.narrow = geometry_of({.batch = c.wide.batch,
                            .in = c.wide.out,
                            .height = l.wide.out_height,
                            .width = l.wide.out_width,
                            .out = c.narrow});
    l.a = draw(l.wide, normal, normal, seed), l.c = draw(l.narrow, normal, normal, seed + 1);
    if (c.adds) l.a.residual = draw(l.wide.output_size(), Values::mixed, seed + 2);
    for (float& r : l.a.residual) r = rounded(r, Precision::fp16);
    if (c.second == 0) return l;
    const auto extent = [&](int out) { return (out - 1) * c.stride + 1; };
    l.second = geometry_of({.batch = c.wide.batch,
                            .in = c.second,
                            .height = extent(l.wide.out_height),
                            .width = extent(l.wide.out_width),
                            .out = c.wide.out,
                            .stride = {c.stride, c.stride}});
    l.b = draw(l.second, normal, normal, seed + 3);
    return l;
  }

  /// The bits are those of one layer after the other.
  static void expect_bits_of_both(const Layers& l, KernelOptions wide, KernelOptions narrow,
                                  const std::vector<float>& y, const std::vector<float>& z) {
    wide.kernel = narrow.kernel = "channels_last";
    wide.tuning = narrow.tuning = {.splits = 1};
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    EXPECT_TRUE(std::ranges::equal(run(l.wide, wide, l.a, true), y, same));
    ConvData read = l.c;
    read.x = y;
    EXPECT_TRUE(std::ranges::equal(run(l.narrow, narrow, read, true), z, same));
  }

  /// The kernel's own choice of a tile, or that of the list; false if that is not for these layers.
  static bool expect(const Layers& l, int tile = -1) {
    const Format stored = {DType::f16, Layout::nhwc};
    KernelOptions o = {.precision = Precision::fp16, .input = stored, .output = stored, .tuning = {.tile = tile}};
    KernelOptions o_narrow = o;
    o_narrow.relu = true;
    if (l.adds) o.chain = {{.function = Pointwise::add, .operand = 1}};
    o.chain.push_back({Pointwise::relu});
    const std::string what = describe(l.wide, o) + " and " + describe(l.narrow, o_narrow);
    Task wide(l.wide, o), narrow(l.narrow, o_narrow);
    const auto weight = [](const ConvGeometry& g, const ConvData& d) {
      return Tensor::from(d.w, {g.out_channels, g.in_channels, 1, 1});
    };
    BottleneckProblem problem = {.wide = {.first = wide.problem, .second = l.second}, .narrow = narrow.problem};
    problem.wide.first.weight = weight(l.wide, l.a), problem.narrow.weight = weight(l.narrow, l.c);
    problem.wide.first.bias = Tensor::from(l.a.b, {l.wide.out_channels});
    problem.narrow.bias = Tensor::from(l.c.b, {l.narrow.out_channels});
    std::vector<View> inputs = {wide.views[0]};
    std::vector<std::vector<float>> values = {l.a.x};
    if (l.adds) inputs.push_back(wide.views[2]), values.push_back(l.a.residual);
    if (l.sums()) {
      problem.wide.second_weight = weight(l.second, l.b);
      inputs.push_back(
          {.shape = {l.second.batch, l.second.in_channels, l.second.in_height, l.second.in_width}, .format = stored});
      values.push_back(l.b.x);
    }
    const View outputs[] = {wide.views[2], narrow.views[2]};
    Preparation preparation = wide.preparation;
    preparation.inputs = inputs, preparation.outputs = outputs;
    const Kernel<BottleneckProblem>* kernel = find_kernel(problem, preparation);
    if (kernel == nullptr) return false;
    const auto op = kernel->prepare(problem, preparation);
    SCOPED_TRACE(op->description());

    std::vector<GuardedBuffer> x;
    std::vector<Tensor> from, to;
    x.reserve(2);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      x.emplace_back(to_bytes(values[i], inputs[i].shape, stored));
      from.push_back(Tensor::borrow(x[i].data(), inputs[i].shape, DType::f16, Device::cuda()));
    }
    const GuardedBuffer y(detail::bytes_of(outputs[0].shape, stored)), z(detail::bytes_of(outputs[1].shape, stored));
    to.push_back(Tensor::borrow(y.data(), outputs[0].shape, DType::f16, Device::cuda()));
    to.push_back(Tensor::borrow(z.data(), outputs[1].shape, DType::f16, Device::cuda()));
    op->run(from, to, {});
    cuda::synchronize(0, nullptr);
    for (const GuardedBuffer& buffer : x) (void)buffer.read();

    ConvReference sum = reference_of(l.wide, Precision::fp16, l.a, true);
    if (l.sums()) {
      const ConvReference other = reference_of(l.second, Precision::fp16, l.b, false);
      for (std::size_t i = 0; i < sum.value.size(); ++i) {
        sum.value[i] += other.value[i], sum.scale[i] += other.scale[i];
      }
    }
    ConvData read = l.c;
    read.x = to_values(y.read(), outputs[0].shape, stored);
    expect_outputs(expected_outputs(l.wide, o, sum, l.a.residual), read.x, what);
    expect_outputs(expected_outputs(l.narrow, o_narrow, reference_of(l.narrow, Precision::fp16, read, true)),
                   to_values(z.read(), outputs[1].shape, stored), what + ", narrow");
    if (!l.sums()) expect_bits_of_both(l, o, o_narrow, read.x, to_values(z.read(), outputs[1].shape, stored));
    return true;
  }

  /// The number of tiles that were found to be right for these layers.
  static int expect_every_tile(const Layers& l) {
    constexpr int tiles = 11;
    int found = 0;
    for (int tile = 0; tile < tiles; ++tile) found += expect(l, tile) ? 1 : 0;
    return found;
  }
};

TEST_F(Bottleneck, EveryTile) {
  unsigned seed = 100;
  for (const BottleneckCase& c : cases) EXPECT_GT(expect_every_tile(draw_layers(c, seed += 4)), 0);
}

// Several tiles for each block, with weights that stay and weights that come again.
TEST_F(Bottleneck, ManyTiles) {
  constexpr int of_64 = 0, of_128 = 4;  // the tiles of 64 pixels
  for (const bool adds : {true, false}) {
    const BottleneckCase stay = {conv("n2 64x113x113 -> 128"), 64, adds, adds ? 0 : 64};
    EXPECT_TRUE(expect(draw_layers(stay, 400), of_64));
  }
  EXPECT_TRUE(expect(draw_layers({conv("256x101x101 -> 256"), 128, true}, 500), of_128));
}

TEST_F(Bottleneck, WhatIsNotFiniteReachesItsPixelsAlone) {
  for (const BottleneckCase& c : {cases[0], cases[3]}) {
    Layers l = draw_layers(c, 600);
    l.a.x[5] = std::nanf(""), l.a.x[170] = infinity, l.a.x[l.a.x.size() - 1] = -infinity;
    if (l.adds) l.a.residual[40] = infinity, l.a.residual[99] = std::nanf("");
    if (l.sums()) l.b.x[17] = infinity, l.b.x[l.b.x.size() - 30] = -infinity;
    EXPECT_GT(expect_every_tile(l), 0);
  }
}

}  // namespace
}  // namespace lamina::test::bottleneck_test
