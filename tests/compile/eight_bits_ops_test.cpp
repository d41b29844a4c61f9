// What is between values in eight bits besides products.

#include <cmath>
#include <numeric>

#include "compile/eight_bits.h"
#include "lamina/base/error.h"
#include "support/devices.h"
#include "support/file_test.h"
#include "support/run_problem.h"

namespace lamina::test::eight_bits_ops_test {
namespace {

TEST(EightBitsOf, Functions) {
  for (const char* const function : {"Sigmoid", "HardSwish", "Relu", "Tanh", "LeakyRelu", "Exp", "Neg"}) {
    Build build;
    const Tensor x = random_codes({2, 5, 7, 3}, DType::u8, 1);
    const Value input = build.graph.input("x", {batch, 5, 7, 3}, DType::u8);
    const Value y = build.op(function, {build.dequantize(input, 0.04f, 100, DType::u8)});
    expect_as_unfused(build, build.quantize(y, 0.031f, 20, DType::u8), x, "table of 256");
  }
}

/// Through what is rounded between: the bits of each by itself, as they are where a value between is an output too.
TEST(EightBitsOf, FunctionsOfOneValue) {
  for (const bool apart : {false, true}) {
    Build build;
    const Tensor x = random_codes({2, 5, 7, 3}, DType::u8, 1);
    const Value value = build.dequantize(build.graph.input("x", {batch, 5, 7, 3}, DType::u8), 0.04f, 100, DType::u8);
    const Value between = build.quantize(build.op("Sigmoid", {value}), 0.0039f, 0, DType::u8);
    const Value y = build.op("Mul", {value, build.dequantize(between, 0.0039f, 0, DType::u8)});
    const Value rounded = build.dequantize(build.quantize(y, 0.025f, 11, DType::u8), 0.025f, 11, DType::u8);
    if (apart) build.graph.output(between);
    build.graph.output(build.quantize(build.op("Tanh", {rounded}), 0.008f, 125, DType::u8));
    const auto code = [](double number, float scale, float zero) {
      return std::clamp(std::rint(static_cast<float>(number) / scale) + zero, 0.0f, 255.0f);
    };
    std::vector<std::int64_t> expected;
    for (const std::int64_t c : whole(x)) {
      const float v = static_cast<float>(c - 100) * 0.04f, s = code(1 / (1 + std::exp(-double{v})), 0.0039f, 0);
      const float z = (code(v * (s * 0.0039f), 0.025f, 11) - 11) * 0.025f;
      expected.push_back(static_cast<std::int64_t>(code(std::tanh(double{z}), 0.008f, 125)));
    }
    EXPECT_EQ(whole(build.graph.compile({.batch = 2}).run(std::span<const Tensor>(&x, 1)).back()), expected);
  }
}

TEST(EightBitsOf, Sums) {
  Build build;
  const Tensor x = random_codes({2, 5, 7, 3}, DType::i8, 1);
  const Value input = build.graph.input("x", {batch, 5, 7, 3}, DType::i8);
  const Value a = build.dequantize(input, 0.04f, -7, DType::i8), b = build.dequantize(input, 0.013f, 11, DType::i8);
  const Value y = build.op("Relu", {build.op("Add", {a, build.op("Neg", {b})})});
  expect_as_unfused(build, build.quantize(y, 0.02f, -5, DType::i8), x, {"elementwise", "map"});
}

TEST(EightBitsOf, LargestOfWindows) {
  for (const DType dtype : {DType::u8, DType::i8}) {
    Build build;
    const Value input = build.graph.input("x", {batch, 37, 9, 8}, dtype);
    const Value y = build.op("MaxPool", {build.dequantize(input, 0.04f, 3, dtype)},
                             {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                              {"strides", std::vector<std::int64_t>{2, 2}},
                              {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
    expect_as_unfused(build, build.quantize(y, 0.04f, 3, dtype), random_codes({2, 37, 9, 8}, dtype, 1),
                      "windows of all channels");
  }
}

TEST(EightBitsOf, Means) {
  constexpr float from = 0.04f, to = 0.017f;
  for (const DType dtype : {DType::u8, DType::i8}) {
    Build build;
    const std::int64_t height = dtype == DType::u8 ? 9 : 40, cells = height * 15;
    const Tensor x = random_codes({2, 37, height, 15}, dtype, 1);
    const Value input = build.graph.input("x", {batch, 37, height, 15}, dtype);
    const Value y = build.op("GlobalAveragePool", {build.dequantize(input, from, 3, dtype)});
    build.graph.output(build.quantize(y, to, 7, dtype));
    const std::vector<std::int64_t> codes = whole(x);
    std::vector<std::int64_t> expected;
    for (std::size_t plane = 0; plane < 2 * 37; ++plane) {
      const auto first = codes.begin() + static_cast<std::ptrdiff_t>(plane) * cells;
      const std::int64_t sum = std::accumulate(first, first + cells, -3 * cells);
      const float mean = static_cast<float>(sum) * from / static_cast<float>(cells);
      const auto q = static_cast<std::int64_t>(std::rint(mean / to)) + 7;
      const std::int64_t low = dtype == DType::u8 ? 0 : -128;
      expected.push_back(std::clamp(q, low, low + 255));
    }
    on_each(build.graph, x, "windows of all channels",
            [&](const Tensor& means, const std::string& summary) { EXPECT_EQ(whole(means), expected) << summary; });
  }
}

/// A BatchNormalization that nothing took in: within a code of f32, whose layout it may have.
TEST(EightBitsOf, ScaleAndShift) {
  Build build;
  const Value input = build.graph.input("x", {batch, 37, 5, 4}, DType::u8);
  std::vector<float> numbers(37);
  const auto vector = [&](float first, float step) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + step * static_cast<float>(i);
    return build.constant(Tensor::from(numbers, {37}));
  };
  const Value norm =
      build.op("BatchNormalization", {build.dequantize(input, 0.04f, 100, DType::u8), vector(0.5f, 0.03f),
                                      vector(-1, 0.1f), vector(0.2f, 0.01f), vector(1, 0.2f)});
  build.graph.output(build.quantize(build.op("Relu", {norm}), 0.02f, 3, DType::i8));
  const Tensor x = random_codes({2, 37, 5, 4}, DType::u8, 1);
  Plan parts = build.graph.compile({.batch = 2, .keep_all = true});
  const std::vector<std::int64_t> unfused = whole(parts.run(x));
  on_each(build.graph, x, "scale and shift of codes", [&](const Tensor& result, const std::string& summary) {
    const std::vector<std::int64_t> codes = whole(result);
    for (std::size_t i = 0; i < codes.size(); ++i) ASSERT_LE(std::abs(codes[i] - unfused[i]), 1) << i << summary;
  });
}

TEST(EightBitsOf, Moves) {
  Build build;
  const Tensor x = random_codes({2, 6, 7, 3}, DType::u8, 1);
  const Value input = build.graph.input("x", {batch, 6, 7, 3}, DType::u8);
  const Value pads = build.constant(Tensor::from(std::vector<std::int64_t>{0, 0, 1, 2, 0, 0, 1, 0}, {8}));
  const Value a = build.op("Pad", {build.dequantize(input, 0.04f, 100, DType::u8), pads});
  const Value b = build.op("Transpose", {a}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
  const Value c = build.op("Concat", {b, b}, {{"axis", std::int64_t{1}}});
  const Value shape = build.constant(Tensor::from(std::vector<std::int64_t>{2, -1}, {2}));
  expect_as_unfused(build, build.quantize(build.op("Reshape", {c, shape}), 0.04f, 100, DType::u8), x,
                    {"copies", "map (map)"});
}

/// Each part is rounded anew for each whole that it is a part of.
TEST(EightBitsOf, PartsOfSeveralWholes) {
  Build build;
  const Tensor x = random_codes({2, 8, 5, 4}, DType::u8, 1);
  Value whole = build.graph.input("x", {batch, 8, 5, 4}, DType::u8);
  std::vector<Value> parts = {build.dequantize(whole, 0.04f, 100, DType::u8)};
  for (int i = 0; i < 4; ++i) {
    const float scale = 0.03f + 0.007f * static_cast<float>(i);
    const std::int64_t zero = 90 + 5 * i;
    if (i > 0) whole = build.quantize(build.op("Concat", parts, {{"axis", std::int64_t{1}}}), scale, zero, DType::u8);
    const float own = i > 0 ? scale : 0.04f;
    const Value read = build.dequantize(whole, own, i > 0 ? zero : 100, DType::u8);
    const Value next =
        build.op("MaxPool", {build.op("LeakyRelu", {read})}, {{"kernel_shape", std::vector<std::int64_t>{1, 1}}});
    parts.push_back(build.dequantize(build.quantize(next, 0.011f, 7, DType::u8), 0.011f, 7, DType::u8));
  }
  expect_as_unfused(build, whole, x, "table of 256");
}

/// A value that is rounded is rounded, however little is between.
TEST(EightBitsOf, RoundingStays) {
  Build build;
  const Value input = build.graph.input("x", {batch, 4});
  Value y = input;
  for (const float scale : {0.5f, 0.3f, 0.5f}) {
    y = build.op("Add", {y, build.constant(scalar(0.1f))});
    y = build.dequantize(build.quantize(y, scale, 0, DType::i8), scale, 0, DType::i8);
  }
  build.graph.output(y);
  const Tensor x = Tensor::from(std::vector<float>{0.16f, 1.2f, NAN, -1e30f}, {1, 4});
  std::vector<float> expected;
  for (float value : {0.16f, 1.2f, NAN, -1e30f}) {
    for (const float scale : {0.5f, 0.3f, 0.5f}) {
      const float q = std::rint((value + 0.1f) / scale);
      value = scale * (std::isnan(q) ? -128.0f : std::clamp(q, -128.0f, 127.0f));
    }
    expected.push_back(value);
  }
  on_each(build.graph, x, "elementwise", [&](const Tensor& result, const std::string& summary) {
    EXPECT_EQ(std::vector<float>(result.values<float>().begin(), result.values<float>().end()), expected) << summary;
  });
}

/// With nothing at all between.
TEST(EightBitsOf, OtherScales) {
  Build build;
  const Value input = build.graph.input("x", {batch, 6, 7, 3}, DType::u8);
  Value y = build.dequantize(input, 0.04f, 100, DType::u8);
  y = build.dequantize(build.quantize(y, 0.07f, 3, DType::i8), 0.07f, 3, DType::i8);
  y = build.dequantize(build.quantize(y, 0.07f, 3, DType::i8), 0.07f, 3, DType::i8);
  expect_as_unfused(build, build.quantize(y, 0.03f, 50, DType::u8), random_codes({2, 6, 7, 3}, DType::u8, 1), "table");
}

/// A bias of f32: products and sums are rounded each by itself.
TEST(EightBitsOf, AFloatBiasIsAddedToTheRoundedProduct) {
  Build build;
  const Tensor x = random_codes({1, 8, 5, 4}, DType::u8, 1), w = random_codes({33, 8, 1, 1}, DType::i8, 2);
  const Value input = build.graph.input("x", {1, 8, 5, 4}, DType::u8);
  std::vector<float> bias(33);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.7317f * static_cast<float>(i) - 11.193f;
  constexpr float input_scale = 0.0213f, scale = 0.00417f;
  build.graph.output(build.op(
      "Conv", {build.dequantize(input, input_scale, 99, DType::u8),
               build.dequantize(build.constant(w), scale, 0, DType::i8), build.constant(Tensor::from(bias, {33}))}));
  const std::vector<std::int64_t> xs = whole(x), ws = whole(w);
  std::vector<float> expected;
  for (std::size_t f = 0; f < 33; ++f) {
    for (std::size_t i = 0; i < 20; ++i) {
      std::int64_t sum = 0;
      for (std::size_t c = 0; c < 8; ++c) sum += (xs[c * 20 + i] - 99) * ws[f * 8 + c];
      const volatile float product = static_cast<float>(sum) * (input_scale * scale);  // whatever a compiler fuses
      expected.push_back(product + bias[f]);
    }
  }
  for (const std::string_view kernel : {"", "int8_fma", "int8_direct"}) {
    Plan plan = build.graph.compile({.algorithm = std::string(kernel)});
    const Tensor y = plan.run(x);
    EXPECT_EQ(std::vector<float>(y.values<float>().begin(), y.values<float>().end()), expected) << kernel;
  }
}

/// Scales that are not the product's: the layer is computed in f32. 0 is 0 in any, and exporters let layers share it.
TEST(EightBitsOf, ABiasOfAnotherScaleIsNoInteger) {
  for (const std::int64_t value : {0, 1}) {
    Build build;
    const Value input = build.graph.input("x", {batch, 8, 4, 4}, DType::u8);
    const Value weights =
        build.dequantize(build.constant(random_codes({8, 8, 1, 1}, DType::i8, 1)), 0.01f, 0, DType::i8);
    const Tensor whole_bias = Tensor::from(std::vector<std::int64_t>(8, value), {8}).to(DType::i32);
    const Value bias = build.op("DequantizeLinear", {build.constant(whole_bias), build.constant(scalar(0.5f))});
    const Value y = build.op("Conv", {build.dequantize(input, 0.02f, 0, DType::u8), weights, bias});
    build.graph.output(build.quantize(y, 0.1f, 0, DType::u8));
    EXPECT_EQ(build.graph.plan_summary({}).find("int8") != std::string::npos, value == 0);
  }
}

/// A MatMul and an Add, as a quantiser writes a Linear: the bias is added to the sums if it is whole in their units,
/// behind a factor of the channels as well, and then what is looked up behind it is part of the product.
TEST(EightBitsOf, AWholeBiasBehindAMatMulIsAddedToTheSums) {
  constexpr float input_scale = 0.0213f, scale = 0.00417f, output_scale = 0.009f;
  const Tensor x = random_codes({2, 9, 64}, DType::u8, 1), w = random_codes({64, 96}, DType::i8, 2);
  for (const bool scaled : {false, true}) {
    for (const float off : {0.0f, 0.37f}) {
      Build build;
      const Value input = build.graph.input("x", {batch, 9, 64}, DType::u8);
      std::vector<float> bias, factors;
      for (int f = 0; f < 96; ++f) {
        bias.push_back((static_cast<float>(f * 911 % 4001 - 2000) + off) * (input_scale * scale));
        factors.push_back(scaled ? 0.3f + 0.017f * static_cast<float>(f) : 1.0f);
      }
      Value y = build.op("MatMul", {build.dequantize(input, input_scale, 99, DType::u8),
                                    build.dequantize(build.constant(w), scale, 0, DType::i8)});
      y = build.op("Add", {y, build.constant(Tensor::from(bias, {96}))});
      if (scaled) y = build.op("Mul", {y, build.constant(Tensor::from(factors, {96}))});
      y = build.dequantize(build.quantize(y, output_scale, 120, DType::u8), output_scale, 120, DType::u8);
      build.graph.output(build.quantize(build.op("Sigmoid", {y}), 1.0f / 255, 0, DType::u8));
      if (!kernels<ConvProblem>(DeviceType::cuda).empty()) {
        const CompileOptions options = {.device = Device::cuda(), .batch = 64, .description = h200()};
        const std::string plan = build.graph.plan_summary(options);
        EXPECT_EQ(plan.find("table of 256") == std::string::npos, off == 0) << plan;
      }
      const std::vector<std::int64_t> xs = whole(x), ws = whole(w);
      std::vector<std::int64_t> expected;
      for (std::size_t row = 0; row < 18; ++row) {
        for (std::size_t f = 0; f < 96; ++f) {
          std::int64_t sum = static_cast<std::int64_t>(f) * 911 % 4001 - 2000;
          for (std::size_t c = 0; c < 64; ++c) sum += (xs[row * 64 + c] - 99) * ws[c * 96 + f];
          const float unit = input_scale * (scaled ? scale * factors[f] : scale) / output_scale;
          const float code = std::clamp(std::rint(static_cast<float>(sum) * unit) + 120, 0.0f, 255.0f);
          const float sigmoid = 1 / (1 + std::exp(-(code - 120) * output_scale));
          expected.push_back(static_cast<std::int64_t>(std::rint(sigmoid / (1.0f / 255))));
        }
      }
      for (const Device device : devices_here()) {
        Plan compiled = build.graph.compile({.device = device, .batch = 2});
        const std::vector<std::int64_t> actual = whole(compiled.run(x).to(Device::cpu()));
        if (off == 0) {
          EXPECT_EQ(actual, expected) << device << '\n' << compiled.summary();
        }
      }
    }
  }
}

TEST(EightBitsOf, ScalesArePositiveNumbers) {
  for (const float scale : {0.0f, -1.0f, NAN, INFINITY}) {
    Build build;
    const Value input = build.graph.input("x", {batch, 4});
    build.graph.output(build.quantize(input, scale, 0, DType::u8));
    expect_error([&] { (void)build.graph.compile({}); }, {"QuantizeLinear: expected scales above 0, got"});
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_ops_test
