// Products of codes drawn at random, with functions before and behind, against the definitions of ONNX's ops in double
// precision: values beyond the range of the codes, NaN, zero points of either sign.

#include <algorithm>
#include <cmath>
#include <random>

#include "compile/eight_bits.h"
#include "support/reference.h"

namespace lamina::test::eight_bits_random_test {
namespace {

struct Codes {
  float scale = 1;
  std::int64_t zero = 0;
  DType type = DType::u8;

  double low() const { return type == DType::u8 ? 0 : -128; }
  double of(double x) const {
    const double q = std::nearbyint(static_cast<double>(static_cast<float>(x) / scale)) + static_cast<double>(zero);
    return std::isnan(q) ? low() : std::clamp(q, low(), low() + 255);
  }
  double back(double q) const { return (q - static_cast<double>(zero)) * static_cast<double>(scale); }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr struct {
  const char* op;
  double (*of)(double);
} functions[] = {{"", [](double x) { return x; }},
                 {"Relu", [](double x) { return x < 0 ? 0 : x; }},
                 {"Sigmoid", sigmoid},
                 {"LeakyRelu", [](double x) { return x < 0 ? 0.01 * x : x; }},
                 {"HardSwish", [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
                 {"Neg", [](double x) { return -x; }}};

/// One product, and what is around it.
class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed), seed_(seed) {}

  Build build;
  std::vector<double> expected;  // codes
  std::string text;

  /// x [2, C, H, W], or rows [2, C].
  Tensor make() {
    const bool rows = one_of(3) == 0;
    const int groups = rows ? 1 : std::vector{1, 1, 2, 8}[one_of(4)], in = 8,
              out = groups == 8 ? 8 : 8 * (1 + one_of(3));
    const int k = rows ? 1 : 1 + 2 * static_cast<int>(one_of(2)), size = rows ? 1 : 6;
    const ConvGeometry g = {.batch = 2,
                            .in_channels = in,
                            .in_height = size,
                            .in_width = size,
                            .out_channels = out,
                            .out_height = size,
                            .out_width = size,
                            .kernel_height = k,
                            .kernel_width = k,
                            .padding_height = k / 2,
                            .padding_width = k / 2,
                            .groups = groups};
    const Codes a = codes(0.0213f), w = {0.0107f, 0, DType::i8}, b = codes(rows ? 0.0209f : 0.0309f),
                c = codes(0.0411f);
    const auto &before = functions[one_of(6)], &behind = functions[one_of(6)];
    const bool between = one_of(2) == 0, adds = one_of(3) == 0;
    const unsigned bias = one_of(3);
    // Three times the range of a, on either side.
    const Shape shape = rows ? Shape{2, in} : Shape{2, in, size, size};
    Tensor x = draw_floats(shape, seed_);
    for (float& value : x.values<float>()) value *= 6;
    x.values<float>()[3] = std::nanf(""), x.values<float>()[4] = HUGE_VALF, x.values<float>()[5] = -1e30f;
    if (before.op == std::string("HardSwish")) x.values<float>()[4] = 1e30f;  // Inf times 0 is left open

    const Tensor weight = random_codes({out, in / groups, k, k}, DType::i8, seed_ + 1);
    std::vector<float> weights, biases(static_cast<std::size_t>(out)), added(biases.size());
    for (const std::int64_t code : whole(weight))
      weights.push_back(static_cast<float>(w.back(static_cast<double>(code))));
    std::vector<std::int64_t> bias_codes;
    for (float& value : biases) {
      bias_codes.push_back(static_cast<std::int64_t>(random_() % 4001) - 2000);
      value = bias == 0 ? 0 : static_cast<float>(bias_codes.back()) * a.scale * w.scale;
    }
    for (float& value : added) value = static_cast<float>(one_of(200)) * 0.00973f - 1;

    Value y = build.graph.input("x", rows ? Shape{batch, in} : Shape{batch, in, size, size});
    y = read(function(y, before.op), a);
    Value known = build.dequantize(build.constant(rows ? weight.view({out, in}) : weight), w.scale, 0, DType::i8);
    std::vector<Value> operands = {y, known};
    if (bias == 1) {
      const Value of = build.constant(Tensor::from(bias_codes, {out}).to(DType::i32));
      operands.push_back(build.op("DequantizeLinear", {of, build.constant(scalar(a.scale * w.scale))}));
    } else if (bias == 2) {
      operands.push_back(build.constant(Tensor::from(biases, {out})));
    }
    y = rows ? build.op("Gemm", operands, {{"transB", std::int64_t{1}}})
             : build.op("Conv", operands,
                        {{"pads", std::vector<std::int64_t>(4, k / 2)}, {"group", std::int64_t{groups}}});
    if (between) y = read(y, b);
    if (adds) y = build.op("Add", {y, build.constant(Tensor::from(added, rows ? Shape{out} : Shape{out, 1, 1}))});
    build.graph.output(build.quantize(function(y, behind.op), c.scale, c.zero, c.type));

    std::vector<float> image;
    for (const float value : x.values<float>()) image.push_back(static_cast<float>(a.back(a.of(before.of(value)))));
    const ConvReference sums = reference_conv2d(g, image.data(), weights.data(), biases.data());
    for (std::size_t i = 0; i < sums.value.size(); ++i) {
      const std::size_t channel = i / static_cast<std::size_t>(g.out_pixels()) % static_cast<std::size_t>(out);
      double value = between ? b.back(b.of(sums.value[i])) : sums.value[i];
      if (adds) value += static_cast<double>(added[channel]);
      expected.push_back(c.of(behind.of(value)));
    }
    text =
        detail::concat("seed ", seed_, rows ? ": rows, " : ": images, ", in, " to ", out, ", ", groups, " groups, k ",
                       k, ", before ", before.op, ", behind ", behind.op, between ? ", codes between" : "",
                       adds ? ", adds" : "", ", bias ", bias, ", ", a.type, ' ', b.type, ' ', c.type, '\n');
    return x;
  }

 private:
  unsigned one_of(unsigned count) { return static_cast<unsigned>(random_() % count); }
  Codes codes(float scale) {
    const bool is_u8 = one_of(2) == 0;
    return {scale, static_cast<std::int64_t>(one_of(200)) - (is_u8 ? 0 : 100), is_u8 ? DType::u8 : DType::i8};
  }
  Value function(Value x, const std::string& op) { return op.empty() ? x : build.op(op, {x}); }
  Value read(Value x, const Codes& c) {
    return build.dequantize(build.quantize(x, c.scale, c.zero, c.type), c.scale, c.zero, c.type);
  }

  std::mt19937 random_;
  unsigned seed_;
};

/// A half may go either way, and another code between moves what follows by a step of that.
TEST(EightBitsAtRandom, AreWhatTheOpsSay) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Drawn drawn(seed);
    const Tensor x = drawn.make();
    for (const Device device : devices_here()) {
      Plan plan = drawn.build.graph.compile({.device = device, .batch = 2});
      const auto codes = whole(plan.run(x).to(Device::cpu()));
      ASSERT_EQ(codes.size(), drawn.expected.size());
      std::size_t others = 0;
      double most = 0;
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const double off = std::abs(static_cast<double>(codes[i]) - drawn.expected[i]);
        others += off != 0, most = std::max(most, off);
      }
      EXPECT_LE(most, 2) << device << ' ' << drawn.text << plan.summary();
      EXPECT_LE(others, 2 + codes.size() / 50) << device << ' ' << drawn.text << plan.summary();
    }
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_random_test
