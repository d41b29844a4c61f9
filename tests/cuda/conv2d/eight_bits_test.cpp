// Convolutions of codes on a GPU beside the CPU's plain loops: the same bits, whichever kernel, tile and batch.

#include <random>

#include "support/on_gpu.h"
#include "support/run_problem.h"

namespace lamina::test {
namespace {

struct Layer {
  int channels, filters, kernel, stride, padding, dilation, groups, height, width, batch = 2;
};

std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << l.batch << " of " << l.channels << " to " << l.filters << ", " << l.kernel << "x" << l.kernel << "/"
             << l.stride << " of " << l.groups << " groups, " << l.height << "x" << l.width;
}

Tensor random_bytes(Shape shape, DType dtype, unsigned seed) {
  Tensor result(shape, dtype);
  std::mt19937 random(seed);
  auto* const bytes = static_cast<std::uint8_t*>(result.raw());
  for (std::int64_t i = 0; i < shape.numel(); ++i) bytes[i] = static_cast<std::uint8_t>(random());
  return result;
}

enum class End { codes, float_bias, floats, halves, sums };

struct Made {
  ConvProblem problem;
  Tensor x;
  Shape output;
  DType type;
  RunOptions options;
};

Made make(const Layer& l, DType input, End end, bool weight_zeros = false) {
  Made made;
  ConvGeometry& g = made.problem.geometry;
  g.batch = l.batch;
  g.in_channels = l.channels, g.in_height = l.height, g.in_width = l.width;
  g.out_channels = l.filters, g.groups = l.groups;
  g.kernel_height = g.kernel_width = l.kernel;
  g.stride_height = g.stride_width = l.stride;
  g.padding_height = g.padding_width = l.padding;
  g.dilation_height = g.dilation_width = l.dilation;
  const int window = l.dilation * (l.kernel - 1) + 1;
  g.out_height = (l.height + 2 * l.padding - window) / l.stride + 1;
  g.out_width = (l.width + 2 * l.padding - window) / l.stride + 1;
  EightBitWeights& eight = made.problem.eight;
  eight.weight = random_bytes({l.filters, l.channels / l.groups, l.kernel, l.kernel}, DType::i8, 1);
  eight.scale = Tensor({l.filters});
  const float input_scale = 0.02f;
  int f = 0;
  for (float& scale : eight.scale.values<float>()) scale = 0.0013f + 0.0001f * static_cast<float>(f++ % 7);
  if (weight_zeros) {
    eight.zero_point = Tensor({l.filters}, DType::i32);
    for (std::int32_t& zero : eight.zero_point.values<std::int32_t>()) zero = f++ % 9 - 4;
  }
  if (end == End::float_bias || end == End::floats || end == End::halves) {
    made.problem.bias = Tensor({l.filters});
    for (float& b : made.problem.bias.values<float>()) b = 0.37f * static_cast<float>(f++ % 13 - 6);
  } else {
    eight.bias = Tensor({l.filters}, DType::i32), eight.bias_scale = Tensor({l.filters});
    for (int i = 0; i < l.filters; ++i) {
      eight.bias.values<std::int32_t>()[static_cast<std::size_t>(i)] = i * 911 % 40001 - 20000;
      eight.bias_scale.values<float>()[static_cast<std::size_t>(i)] =
          input_scale * eight.scale.values<float>()[static_cast<std::size_t>(i)];
    }
  }
  eight.whole = end == End::sums;
  if (!eight.whole) made.problem.epilogue.chain = {{Pointwise::relu}};
  made.x = random_bytes({l.batch, l.channels, l.height, l.width}, input, 2);
  made.output = {l.batch, l.filters, g.out_height, g.out_width};
  made.type = end == End::sums     ? DType::i32
              : end == End::floats ? DType::f32
              : end == End::halves ? DType::bf16
                                   : input;
  // 0 is what surrounds an image that TMA reads.
  const std::int32_t zero = l.padding > 0 && l.channels % 16 == 0 && l.height % 2 == 0 ? 0
                            : input == DType::u8                                       ? 119
                                                                                       : -11;
  made.options = {.inputs = {Layout::nhwc},
                  .output = eight.whole ? Layout::nchw : Layout::nhwc,
                  .quantizations = {{input_scale, zero}}};
  if (made.type == input) made.options.quantizations.push_back({0.3f, input == DType::u8 ? 9 : -20});
  return made;
}

const Layer layers[] = {
    {64, 64, 1, 1, 0, 1, 1, 6, 7},         {64, 256, 1, 1, 0, 1, 1, 28, 27},      {256, 48, 1, 2, 0, 1, 1, 9, 9},
    {130, 34, 1, 1, 0, 1, 1, 5, 9},        {3, 64, 7, 2, 3, 1, 1, 33, 34},        {3, 16, 3, 2, 1, 1, 1, 16, 15},
    {36, 20, 3, 1, 1, 1, 1, 7, 6},         {128, 64, 3, 2, 1, 1, 1, 10, 8},       {64, 64, 3, 1, 1, 1, 1, 14, 14},
    {512, 512, 3, 1, 1, 1, 1, 8, 7, 1},    {32, 32, 3, 1, 2, 2, 1, 9, 9},         {48, 24, 3, 1, 1, 1, 3, 6, 6},
    {5, 7, 5, 1, 2, 1, 1, 8, 4},           {96, 96, 3, 1, 1, 1, 96, 15, 14},      {40, 40, 5, 2, 2, 1, 40, 13, 12},
    {9, 9, 3, 1, 1, 1, 9, 8, 8},           {132, 132, 3, 2, 1, 1, 132, 29, 30},   {64, 64, 7, 1, 3, 1, 64, 16, 15},
    {256, 1000, 1, 1, 0, 1, 1, 1, 1, 3},   {1024, 256, 1, 1, 0, 1, 1, 14, 14, 9}, {128, 128, 3, 1, 1, 1, 1, 28, 28, 5},
    {2048, 1000, 1, 1, 0, 1, 1, 1, 1, 40}, {192, 192, 3, 1, 1, 1, 8, 8, 8}};

class EightBitConvolutions : public OnGpu {
 protected:
  static void expect_alike(const Made& made, const std::string& what) {
    const Tensor expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(),
                                       [&] {
                                         RunOptions options = made.options;
                                         options.kernel = "int8_direct";
                                         return options;
                                       }())
                                .run();
    int kernels = 0;
    for (const std::string_view kernel : {"int8_depthwise", "int8_wgmma", "int8_direct"}) {
      for (const int splits : {0, 1, 2}) {
        RunOptions options = made.options;
        options.kernel = kernel, options.tuning.splits = splits;
        if (splits > 1 && kernel == "int8_wgmma" && made.problem.geometry.reduction() <= 256) continue;
        const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), options);
        if (!run.taken() || (splits > 0 && kernel != "int8_wgmma")) continue;
        ++kernels;
        const Tensor actual = run.run();
        const auto* const a = static_cast<const std::byte*>(actual.raw());
        const auto* const e = static_cast<const std::byte*>(expected.raw());
        const auto differs = std::mismatch(a, a + actual.bytes(), e).first - a;
        EXPECT_EQ(differs, static_cast<std::ptrdiff_t>(actual.bytes()))
            << kernel << ", " << splits << " splits, " << what << ": first byte that differs";
      }
    }
    EXPECT_GE(kernels, 1) << what;
  }
};

TEST_P(EightBitConvolutions, HaveTheBitsOfThePlainLoops) {
  for (const Layer& l : layers) {
    for (const DType input : {DType::u8, DType::i8}) {
      for (const End end : {End::codes, End::float_bias, End::floats, End::halves, End::sums}) {
        expect_alike(make(l, input, end), detail::concat(l, ", ", input, ", end ", static_cast<int>(end)));
      }
    }
  }
}

TEST_P(EightBitConvolutions, OfWeightsWithZeroPoints) {
  for (const Layer& l : layers) {
    if (l.channels > 256) continue;
    expect_alike(make(l, DType::u8, End::codes, true), detail::concat(l, ", weights with zero points"));
  }
}

TEST_P(EightBitConvolutions, OfEveryTile) {
  const Layer l = {192, 200, 3, 1, 1, 1, 1, 14, 14, 3};
  for (int tile = 0; tile < 12; ++tile) {
    for (const int multicast : {1, 2}) {
      Made made = make(l, DType::u8, End::codes);
      made.options.tuning = {.tile = tile, .splits = 1, .multicast = multicast};
      made.options.kernel = "int8_wgmma";
      const ProblemRun run(made.problem, {made.x}, made.output, made.type, gpu(), made.options);
      if (!run.taken()) continue;
      RunOptions plain = made.options;
      plain.kernel = "int8_direct", plain.tuning = {};
      const Tensor actual = run.run(),
                   expected = ProblemRun(made.problem, {made.x}, made.output, made.type, Device::cpu(), plain).run();
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0) << "tile " << tile << ", " << multicast;
    }
  }
}

LAMINA_ON_GPUS(EightBitConvolutions);

}  // namespace
}  // namespace lamina::test
