// Values in eight bits that are stored channels last, or are not.

#include <cmath>

#include "compile/eight_bits.h"
#include "lamina/kernel/device_description.h"

namespace lamina::test::eight_bits_layouts_test {
namespace {

/// A factor or an addend for each channel, channels last, of more and fewer channels than vectors have lanes.
TEST(EightBitsOf, ChannelsTimesFactors) {
  for (const DType dtype : {DType::u8, DType::i8}) {
    for (const int channels : {3, 37, 64, 200}) {
      for (const char* const function : {"Mul", "Add"}) {
        Build build;
        const std::int64_t zero = dtype == DType::u8 ? 120 : -7;
        const Value input = build.graph.input("x", {batch, channels, 9, 8}, dtype);
        const Value x = build.dequantize(input, 0.04f, zero, dtype);
        const auto largest = [&](std::vector<std::int64_t> window) {
          const Value y = build.op("MaxPool", {x}, {{"kernel_shape", std::move(window)}});
          return build.dequantize(build.quantize(y, 0.04f, zero, dtype), 0.04f, zero, dtype);
        };
        const Value y = build.op(function, {largest({2, 2}), largest({9, 8})});
        const Value clipped = build.op("Clip", {y, build.constant(scalar(-1.1f)), build.constant(scalar(5))});
        expect_as_unfused(build, build.quantize(clipped, 0.031f, zero + 2, dtype),
                          random_codes({2, channels, 9, 8}, dtype, 1), {"elementwise", "map"});
      }
    }
  }
}

/// The rows of a value of rank 4 are its last dimension, however images of that shape would be stored. Scales are
/// powers of two: sums of f32 are exact.
TEST(EightBitsOf, ProductsOfRankFour) {
  Build build;
  const Value input = build.graph.input("x", {batch, 5, 6, 12}, DType::u8);
  const Value weight = build.constant(random_codes({12, 20}, DType::i8, 2));
  const Value sum = build.op(
      "MatMul", {build.dequantize(input, 0x1p-5f, 100, DType::u8), build.dequantize(weight, 0x1p-7f, 0, DType::i8)});
  const Value y = build.dequantize(build.quantize(sum, 0x1p-2f, 128, DType::u8), 0x1p-2f, 128, DType::u8);
  const Value added = build.op("Add", {y, build.constant(Tensor::from(std::vector<float>(20, 0.5f), {20}))});
  expect_as_unfused(build, build.quantize(added, 0x1p-2f, 120, DType::u8), random_codes({2, 5, 6, 12}, DType::u8, 1),
                    "int8");
}

/// Of all pairs of codes a convolution's sums with others, by every instruction set: some multiply and add at once.
TEST(EightBitsOf, AllPairsOfASum) {
  const Shape shape = {1, 16, 64, 64};
  Tensor own(shape, DType::u8), other(shape, DType::u8);
  for (std::size_t i = 0; i < 65536; ++i) {
    own.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i),
    other.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i >> 8);
  }
  Tensor same = Tensor::zeros({16, 16, 1, 1}, DType::i8);
  for (std::size_t c = 0; c < 16; ++c) same.values<std::int8_t>()[c * 17] = 1;
  const Tensor scales = draw_floats({3, 20}, 9);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto scale = [&](std::size_t j) { return 0.01f + 0.01f * std::abs(scales.values<float>()[j * 20 + i]); };
    Build build;
    const Value a = build.graph.input("a", shape, DType::u8), b = build.graph.input("b", shape, DType::u8);
    const Value conv = build.op("Conv", {build.dequantize(a, scale(0), 117, DType::u8),
                                         build.dequantize(build.constant(same), 1, 0, DType::i8)});
    const Value x = build.dequantize(build.quantize(conv, scale(0), 117, DType::u8), scale(0), 117, DType::u8);
    const Value sum = build.op("Add", {x, build.dequantize(b, scale(1), 140, DType::u8)});
    build.graph.output(build.quantize(sum, scale(2), 128, DType::u8));
    DeviceDescription device = describe(Device::cpu());
    const Tensor inputs[] = {own, other};
    const auto codes = [&] { return whole(build.graph.compile({.description = device}).run(inputs)[0]); };
    const auto expected = codes();
    device.avx512_vnni = device.amx_int8 = device.neon_dot = false;
    for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::scalar}) {
      if (set < device.instructions) continue;
      device.instructions = set;
      EXPECT_EQ(codes(), expected) << name(set) << ", " << i;
    }
  }
}

/// Of a gate whose rows are seen under another shape and turned, whether or not what is between is rounded, too.
TEST(EightBitsOf, FunctionsBehindViewsAndMoves) {
  for (int rounded = 0; rounded < 4; ++rounded) {
    Build build;
    const Value x = build.graph.input("x", {batch, 24, 1, 10});
    const auto code = [&](Value y, bool is) {
      return is ? build.dequantize(build.quantize(y, 0.02f, 100, DType::u8), 0.02f, 100, DType::u8) : y;
    };
    Value y = code(build.op("Mul", {x, build.op("Sigmoid", {x})}), (rounded & 1) != 0);
    const Value axes = build.constant(Tensor::from(std::vector<std::int64_t>{2}, {1}));
    y = code(build.op("Squeeze", {y, axes}), (rounded & 2) != 0);
    y = code(build.op("Transpose", {y}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}), true);
    const Value weight = build.dequantize(build.constant(random_codes({24, 16}, DType::i8, 3)), 0.01f, 0, DType::i8);
    expect_as_unfused(build, build.quantize(build.op("MatMul", {y, weight}), 0.05f, 120, DType::u8),
                      draw_floats({2, 24, 1, 10}, 5), "int8");
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_layouts_test
