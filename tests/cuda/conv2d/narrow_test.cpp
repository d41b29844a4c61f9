// 1x1 convolutions to few filters: every tile and division of K, additions, factors on the way, hard values.

#include "lamina/cuda/conv2d/narrow/arguments.h"

#include <set>

#include "cuda/conv2d/family.h"

namespace lamina::test::narrow_test {
namespace {

KernelOptions options_for(Precision precision, const PointwiseChain& chain = {}, const Tuning& tuning = {}) {
  return channels_last_options("narrow", precision, false, chain, tuning);
}

/// Channels and filters that fill no chunk, slice or vector; fewer pixels than a tile, and some more than several.
const Case cases[] = {
    conv("n2 72x7x7 -> 24"),   conv("40x13x5 -> 16"),  conv("n3 184x14x3 -> 80"), conv("8x1x1 -> 8"),
    conv("n9 264x7x7 -> 112"), conv("960x7x7 -> 160"), conv("n5 16x31x33 -> 40"),
};

const PointwiseChain addition = {{.function = Pointwise::add, .operand = 1}};
const PointwiseChain clamped_addition = {{.function = Pointwise::add, .operand = 1},
                                         {.function = Pointwise::clip, .a = -1, .b = 6}};

class NarrowConv : public OnAmpere {};

std::size_t tile_count() { return cuda::narrow::tiles_f16().size() / 2; }

TEST_F(NarrowConv, EveryTileMeetsTheContract) {
  unsigned seed = 1;
  for (const Precision precision : of_16_bits) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (std::size_t tile = 0; tile < tile_count(); ++tile) {
        const Tuning tuning = {.tile = static_cast<int>(tile), .splits = 1 << (seed + tile) % 4};
        for (const PointwiseChain& chain : {PointwiseChain{}, addition, clamped_addition}) {
          const KernelOptions options = options_for(precision, chain, tuning);
          if (takes(g, options)) expect_contract(g, options, data, true, reference);
        }
      }
      expect_contract(g, options_for(precision, {{Pointwise::relu}}), data, false);
    }
  }
}

TEST_F(NarrowConv, WhatIsNotFiniteReachesItsPixelsAlone) {
  unsigned seed = 100;
  for (const Precision precision : of_16_bits) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      for (const int splits : {1, 4}) {
        ConvData data = draw(g, normal, positive, ++seed);
        data.x[0] = infinity, data.x[data.x.size() / 2] = std::nanf(""), data.x[data.x.size() - 1] = -infinity;
        const KernelOptions options = options_for(precision, {}, {.splits = splits});
        if (takes(g, options)) expect_contract(g, options, data, true);
      }
    }
  }
}

/// Of an image times factors: a Task with one input more.
std::vector<unsigned char> run_scaled(const ConvGeometry& g, const KernelOptions& o, const ConvData& data,
                                      const std::vector<float>& factors) {
  Task task(g, o);
  task.problem.prologue = {{.function = Pointwise::mul, .operand = 1}};
  task.problem.weight = Tensor::from(data.w, {g.out_channels, g.in_channels, 1, 1});
  task.problem.bias = Tensor::from(data.b, {g.out_channels});
  for (PointwiseStep& step : task.problem.epilogue.chain) step.operand = step.operand < 0 ? step.operand : 2;
  std::vector<View> views = {task.views[0], task.views[0]};
  views[1].shape = {g.batch, g.in_channels, 1, 1};
  if (task.problem.epilogue.reads_operands()) views.push_back(task.views[1]);
  task.preparation.inputs = views;
  if (!task.taken()) return {};
  const auto op = choose(task.problem, task.preparation).prepare(task.problem, task.preparation);
  SCOPED_TRACE(op->description());
  std::vector<GuardedBuffer> buffers;
  buffers.emplace_back(to_bytes(data.x, views[0].shape, views[0].format));
  buffers.emplace_back(to_bytes(factors, views[1].shape, views[1].format));
  if (views.size() > 2) buffers.emplace_back(to_bytes(data.residual, views[2].shape, views[2].format));
  const View& output = task.views[2];
  const GuardedBuffer result(detail::bytes_of(output.shape, output.format));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < views.size(); ++i) {
    inputs.push_back(Tensor::borrow(buffers[i].data(), views[i].shape, views[i].format.dtype, Device::cuda()));
  }
  Tensor to = Tensor::borrow(result.data(), output.shape, output.format.dtype, Device::cuda());
  op->run(inputs, {&to, 1}, {});
  cuda::synchronize(0, nullptr);
  for (const GuardedBuffer& buffer : buffers) (void)buffer.read();
  return result.read();
}

TEST_F(NarrowConv, FactorsAreAsIfMultipliedBefore) {
  unsigned seed = 200;
  for (const Precision precision : of_16_bits) {
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      ConvData data = draw(g, normal, normal, ++seed);
      std::mt19937 random(++seed);
      std::vector<float> factors(static_cast<std::size_t>(g.batch * g.in_channels));
      for (float& v : factors) v = normal(random);
      data.residual.resize(static_cast<std::size_t>(g.output_size()));
      for (float& v : data.residual) v = normal(random);
      data.x[1] = infinity, data.x[data.x.size() - 2] = std::nanf("");
      ConvData multiplied = data;
      for (std::size_t i = 0; i < data.x.size(); ++i) {
        const std::size_t plane = i / static_cast<std::size_t>(g.in_height * g.in_width);
        multiplied.x[i] = rounded(rounded(data.x[i], precision) * rounded(factors[plane], precision), precision);
      }
      for (std::size_t tile = 0; tile < tile_count(); ++tile) {
        for (const PointwiseChain& chain : {PointwiseChain{}, clamped_addition}) {
          const Tuning tuning = {.tile = static_cast<int>(tile), .splits = 1 << (seed + tile) % 4};
          const KernelOptions options = options_for(precision, chain, tuning);
          if (!takes(g, options)) continue;
          const auto found = run_scaled(g, options, data, factors);
          if (found.empty()) continue;  // registers or shared memory for fewer parts
          EXPECT_EQ(found, run_bytes(g, options, multiplied, true)) << describe(g, options);
        }
      }
    }
  }
}

/// Channels of a larger image, 8 before them and 16 behind.
TEST_F(NarrowConv, WritesSlices) {
  for (const Case& c : cases) {
    const ConvGeometry g = geometry_of(c);
    const ConvData data = draw(g, normal, normal, 250);
    const KernelOptions options = options_for(Precision::fp16);
    const auto expected = run_bytes(g, options, data, true);
    Task task(g, options);
    View& output = task.views[2];
    output.channels = g.out_channels + 24;
    ASSERT_TRUE(task.taken());
    const Prepared op = {task.prepare(data, true), task.views[0], output};
    const auto pixels = static_cast<std::size_t>(g.batch * g.out_pixels());
    const std::size_t pitch = static_cast<std::size_t>(output.channels) * 2, row = expected.size() / pixels;
    const GuardedBuffer input(to_bytes(data.x, op.input.shape, op.input.format)), whole(pixels * pitch);
    op.enqueue(input.data(), whole.data() + 16, nullptr, nullptr);
    cuda::synchronize(0, nullptr);
    std::vector<unsigned char> image(pixels * pitch, 0xff);
    for (std::size_t i = 0; i < pixels; ++i) {
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                  image.begin() + static_cast<std::ptrdiff_t>(i * pitch + 16));
    }
    EXPECT_EQ(whole.read(), image) << describe(g);
  }
}

/// Whatever the tiles are: only the parts of K matter.
TEST_F(NarrowConv, AnImageHasItsBitsInEveryPlaceOfABatch) {
  for (const Precision precision : of_16_bits) {
    for (const int splits : {1, 4}) {
      Case c = cases[4];
      const ConvGeometry many = geometry_of(c);
      c.batch = 1;
      const ConvGeometry one = geometry_of(c);
      ConvData data = draw(many, normal, normal, 300);
      const auto all = run_bytes(many, options_for(precision, {}, {.splits = splits}), data, true);
      EXPECT_EQ(run_bytes(many, options_for(precision, {}, {.splits = splits}), data, true), all);
      data.x.erase(data.x.begin(), data.x.end() - static_cast<std::ptrdiff_t>(one.input_size()));
      std::set<std::vector<unsigned char>> seen;
      for (std::size_t tile = 0; tile < tile_count(); ++tile) {
        const KernelOptions options = options_for(precision, {}, {.tile = static_cast<int>(tile), .splits = splits});
        if (takes(one, options)) seen.insert(run_bytes(one, options, data, true));
      }
      ASSERT_EQ(seen.size(), 1u);
      EXPECT_TRUE(std::equal(seen.begin()->begin(), seen.begin()->end(),
                             all.end() - static_cast<std::ptrdiff_t>(seen.begin()->size())));
    }
  }
}

TEST_F(NarrowConv, NothingElse) {
  const ConvGeometry g = geometry_of(cases[0]);
  const auto taken = [&](const ConvGeometry& geometry, Precision precision, const PointwiseChain& chain = {}) {
    return takes(geometry, options_for(precision, chain));
  };
  EXPECT_TRUE(taken(g, Precision::fp16));
  EXPECT_FALSE(taken(g, Precision::fp32));
  EXPECT_FALSE(taken(g, Precision::tf32));
  EXPECT_FALSE(taken(g, Precision::fp16, {{Pointwise::silu}}));
  Case c = cases[0];
  c.kernel[0] = c.kernel[1] = 3;
  EXPECT_FALSE(taken(geometry_of(c), Precision::fp16));
  c = cases[0], c.stride[0] = c.stride[1] = 2;
  EXPECT_FALSE(taken(geometry_of(c), Precision::fp16));
  c = cases[0], c.in = 76;
  EXPECT_FALSE(taken(geometry_of(c), Precision::fp16));
  c = cases[0], c.out = 20;
  EXPECT_FALSE(taken(geometry_of(c), Precision::fp16));
  KernelOptions options = options_for(Precision::fp16);
  options.output.layout = Layout::nchw;
  EXPECT_FALSE(takes(g, options));
}

}  // namespace
}  // namespace lamina::test::narrow_test
