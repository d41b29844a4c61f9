// Transforms, windows, and what decoders write: angles, caches, causal convolutions.

#include <cmath>
#include <numbers>

#include "support/windows_reference.h"

namespace lamina::test::signal_test {
namespace {

using Numbers = std::vector<double>;

Tensor floats(const std::vector<float>& values, const Shape& shape) { return Tensor::from(values, shape); }
Tensor whole(const std::vector<std::int64_t>& values, const Shape& shape) { return Tensor::from(values, shape); }
Attribute number(std::int64_t value) { return value; }

/// By its definition, along the middle axis of [A, N, 1 or 2].
Numbers transformed(const Tensor& x, std::int64_t length, std::int64_t outputs, bool inverse) {
  const Shape& from = x.shape();
  const auto values = x.values<float>();
  Numbers result;
  for (std::int64_t a = 0; a < from[0]; ++a) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      double real = 0, imaginary = 0;
      for (std::int64_t t = 0; t < std::min(from[1], length); ++t) {
        const double angle =
            (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(t * k) / static_cast<double>(length);
        const auto at = static_cast<std::size_t>((a * from[1] + t) * from[2]);
        const double re = values[at], im = from[2] == 2 ? values[at + 1] : 0;
        real += re * std::cos(angle) - im * std::sin(angle);
        imaginary += re * std::sin(angle) + im * std::cos(angle);
      }
      const double factor = inverse ? 1 / static_cast<double>(length) : 1;
      result.insert(result.end(), {real * factor, imaginary * factor});
    }
  }
  return result;
}

TEST(SignalOps, FourierTransforms) {
  for (const std::int64_t parts : {1, 2}) {
    const Tensor x = draw_floats({3, 7, parts}, 1);
    for (const std::int64_t length : {1, 5, 7, 10}) {
      const Tensor said = whole({length}, {});
      for (const std::int64_t inverse : {0, 1}) {
        expect_close(evaluate(Op("DFT", {{"inverse", number(inverse)}}), {x, said}), {3, length, 2},
                     transformed(x, length, length, inverse != 0), 1e-5, "all");
      }
      expect_close(evaluate(Op("DFT", {{"onesided", number(1)}}), {x, said, whole({1}, {})}), {3, length / 2 + 1, 2},
                   transformed(x, length, length / 2 + 1, false), 1e-5, "one side");
    }
  }
  const Tensor x = draw_floats({8, 2, 1}, 2);
  const Tensor side = evaluate(Op("DFT", {{"onesided", number(1)}}), {x, {}, whole({0}, {})});
  const Tensor back =
      evaluate(Op("DFT", {{"onesided", number(1)}, {"inverse", number(1)}}), {side, {}, whole({0}, {})});
  expect_close(back, {8, 2, 1}, {x.values<float>().begin(), x.values<float>().end()}, 1e-5, "and back");
  EXPECT_EQ(refusal(Op("DFT"), {draw_floats({2, 3}, 1)}), "DFT: expected an operand [..., 1 or 2], got [2, 3]");
  EXPECT_EQ(refusal(Op("DFT"), {x, whole({0}, {})}), "DFT: cannot transform 2 elements by a length of 0");
  EXPECT_EQ(refusal(Op("DFT"), {x, whole({std::int64_t{1} << 40}, {})}),
            "DFT: cannot transform 2 elements by a length of 1099511627776");
}

TEST(SignalOps, FramesAndWindows) {
  const Tensor window = evaluate(Op("HannWindow"), {whole({4}, {})});
  expect_close(window, {4}, {0, 0.5, 1, 0.5}, 1e-6, "Hann");
  expect_close(evaluate(Op("HannWindow", {{"periodic", number(0)}}), {whole({3}, {})}), {3}, {0, 1, 0}, 1e-6, "Hann");
  expect_close(evaluate(Op("HammingWindow"), {whole({2}, {})}), {2}, {4 / 46.0, 1}, 1e-6, "Hamming");
  expect_close(evaluate(Op("BlackmanWindow"), {whole({2}, {})}), {2}, {0, 1}, 1e-6, "Blackman");
  EXPECT_EQ(refusal(Op("HannWindow"), {whole({0}, {})}), "HannWindow: cannot have a window of 0");
  const Tensor x = floats({1, 2, 3, 4, 5, 6, 7}, {1, 7}), step = whole({3}, {});
  const Tensor frames = floats({0, 1, 3, 2, 0, 2.5F, 6, 3.5F}, {2, 4, 1});
  expect_close(evaluate(Op("STFT"), {x, step, window}), {1, 2, 3, 2}, transformed(frames, 4, 3, false), 1e-5, "STFT");
  EXPECT_EQ(refusal(Op("STFT"), {x, whole({0}, {}), window}),
            "STFT: cannot take frames of 4, 0 apart, of a signal [1, 7, 1]");
}

TEST(SignalOps, RotaryEmbeddingTurnsPairs) {
  // One head of four elements and one that stays, at positions 1 and 0: by a quarter, and not at all.
  const Tensor x = floats({1, 2, 3, 4, 9, 1, 2, 3, 4, 9}, {1, 1, 2, 5});
  const Tensor cosines = floats({1, 1, 0, 0}, {2, 2}), sines = floats({0, 0, 1, 1}, {2, 2}),
               ids = whole({1, 0}, {1, 2});
  const Attributes four = {{"rotary_embedding_dim", number(4)}};
  Attributes neighbours = four;
  neighbours.emplace_back("interleaved", number(1));
  expect_close(evaluate(Op("RotaryEmbedding", four), {x, cosines, sines, ids}), {1, 1, 2, 5},
               {-3, -4, 1, 2, 9, 1, 2, 3, 4, 9}, 1e-6, "halves");
  expect_close(evaluate(Op("RotaryEmbedding", neighbours), {x, cosines, sines, ids}), {1, 1, 2, 5},
               {-2, 1, -4, 3, 9, 1, 2, 3, 4, 9}, 1e-6, "neighbours");
  const Tensor beside = floats({1, 2, 5, 6, 3, 4, 7, 8}, {1, 2, 4});
  expect_close(evaluate(Op("RotaryEmbedding", {{"num_heads", number(2)}}),
                        {beside, floats({0, 1}, {1, 2, 1}), floats({1, 0}, {1, 2, 1})}),
               {1, 2, 4}, {-2, 1, -6, 5, 3, 4, 7, 8}, 1e-6, "heads side by side");
  EXPECT_EQ(refusal(Op("RotaryEmbedding", four), {x, cosines, sines}),
            "RotaryEmbedding: expected angles of [1, 2, 2], got [2, 2]");
  EXPECT_EQ(refusal(Op("RotaryEmbedding"), {x, cosines, sines}), "RotaryEmbedding: cannot turn 5 of 5 elements");
}

TEST(SignalOps, CausalConvolutionsHaveAPast) {
  const Tensor x = floats({1, 2, 3, 10, 20, 30}, {1, 2, 3}), weight = floats({1, 2, 1, -1}, {2, 1, 2});
  const Tensor bias = floats({0, 1}, {2}), past = floats({5, 7}, {1, 2, 1});
  const auto op = [](std::int64_t output) { return Op("CausalConvWithState", {{"output", number(output)}}); };
  expect_close(evaluate(op(0), {x, weight}), {1, 2, 3}, {2, 5, 8, -10, -10, -10}, 1e-6, "none");
  expect_close(evaluate(op(0), {x, weight, bias, past}), {1, 2, 3}, {7, 5, 8, -2, -9, -9}, 1e-6, "a past");
  expect_close(evaluate(op(1), {x, weight, bias, past}), {1, 2, 1}, {3, 30}, 1e-6, "the next past");
  expect_close(evaluate(Op("CausalConvWithState", {{"activation", std::string("silu")}}), {x, weight}), {1, 2, 3},
               {2 / (1 + std::exp(-2.0)), 5 / (1 + std::exp(-5.0)), 8 / (1 + std::exp(-8.0)),
                -10 / (1 + std::exp(10.0)), -10 / (1 + std::exp(10.0)), -10 / (1 + std::exp(10.0))},
               1e-5, "silu");
  EXPECT_EQ(refusal(op(0), {x, floats({1}, {1, 1, 1})}),
            "CausalConvWithState: weights [1, 1, 1] do not fit an operand [1, 2, 3]");
  EXPECT_EQ(refusal(op(0), {x, weight, {}, floats({5}, {1, 1, 1})}),
            "CausalConvWithState: expected a past_state [1, 2, 1], got [1, 1, 1]");
}

TEST(SignalOps, BitsAndPlacesOfRows) {
  expect_equal(evaluate(Op("BitCast", {{"to", number(6)}}), {floats({1, -2}, {2})}), {0x3f800000, -0x40000000}, "bits");
  EXPECT_EQ(refusal(Op("BitCast", {{"to", number(7)}}), {floats({1}, {1})}),
            "BitCast: elements of f32 have no bits for i64");
  const Tensor cache = floats({0, 0, 0, 0, 0, 0}, {2, 3, 1}), updates = floats({1, 2, 3, 4}, {2, 2, 1});
  expect_equal(evaluate(Op("TensorScatter"), {cache, updates, whole({1, 0}, {2})}), {0, 1, 2, 3, 4, 0}, "rows");
  expect_equal(evaluate(Op("TensorScatter", {{"mode", std::string("circular")}}), {cache, updates, whole({2, 0}, {2})}),
               {2, 0, 1, 3, 4, 0}, "round");
  EXPECT_EQ(refusal(Op("TensorScatter"), {updates, cache}),
            "TensorScatter: updates [2, 3, 1] do not fit a cache [2, 2, 1]");
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  expect_equal(evaluate(Op("ReverseSequence"), {x, whole({2, 3}, {2})}), {3, 6, 1, 4, 5, 2}, "along the first axis");
  expect_equal(evaluate(Op("ReverseSequence", {{"batch_axis", number(0)}, {"time_axis", number(1)}}),
                        {x, whole({2, 1, 2}, {3})}),
               {2, 1, 3, 4, 6, 5}, "along the second");
  EXPECT_EQ(refusal(Op("ReverseSequence"), {x, whole({2}, {1})}), "ReverseSequence: expected 2 numbers, got [1]");
}

}  // namespace
}  // namespace lamina::test::signal_test
