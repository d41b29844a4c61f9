// Linear layers whose weights are streamed through shared memory, against the double reference: a fully connected
// layer is a 1x1 convolution of 1x1 images.

#include "lamina/cuda/linear/stream.h"

#include "cuda/conv2d/channels_last/harness.h"
#include "cuda/runtime/overlap_harness.h"
#include "lamina/cuda/runtime/stream.h"

namespace lamina::cuda {
namespace {

struct Size {
  std::int64_t rows;
  int in, out;
};

LinearOptions options_of(const Size& size, Precision precision, bool relu = false) {
  return {.precision = precision,
          .output = storage_type(precision),
          .rows = size.rows,
          .in = size.in,
          .out = size.out,
          .relu = relu};
}

ConvGeometry geometry_of(const Size& size) {
  return geometry_of(Case{.batch = size.rows, .in = size.in, .height = 1, .width = 1, .out = size.out});
}

class LinearStream : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    if (!linear_stream_supports(options_of({1, 64, 64}, Precision::fp16))) {
      GTEST_SKIP() << "needs compute capability 9.0 and a build with sm_90a code";
    }
  }
};

Buffer stored(const std::vector<float>& values, DType type) {
  if (type == DType::f32) return Buffer(0, values.data(), values.size() * sizeof(float));
  const auto bits = to_bits(values, type);
  return Buffer(0, bits.data(), bits.size() * 2);
}

std::vector<unsigned char> run_bytes(const LinearOptions& o, const Data& data, bool biased,
                                     const LinearStreamChoice& choice) {
  const auto kernel = make_linear_stream(o, data.w.data(), biased ? data.b.data() : nullptr, choice);
  EXPECT_EQ(kernel->workspace_bytes(), 0u);
  const Buffer input = stored(data.x, storage_type(o.precision));
  const Guarded output(static_cast<std::size_t>(o.rows * o.out) * size_of(o.output));
  kernel->run(input.data(), output.data(), nullptr, nullptr);
  check(cudaDeviceSynchronize());
  return output.read();
}

std::vector<float> run(const LinearOptions& o, const Data& data, bool biased, const LinearStreamChoice& choice) {
  const auto bytes = run_bytes(o, data, biased, choice);
  std::vector<float> values(static_cast<std::size_t>(o.rows * o.out));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    if (o.output == DType::f32) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = o.output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
    }
  }
  return values;
}

void expect(const Size& size, const LinearOptions& o, const Data& unrounded, bool biased,
            const LinearStreamChoice& choice = {}) {
  const Data data = rounded(unrounded, o.precision);
  const ConvGeometry g = geometry_of(size);
  const Conv2dOptions as_convolution = {.precision = o.precision, .relu = o.relu};
  expect_outputs(g, as_convolution, reference_for(g, data, biased), run(o, data, biased, choice),
                 detail::concat(name(o.precision), ", ", size.rows, " rows, ", size.in, " to ", size.out, ", tile ",
                                choice.outputs, ", splits ", choice.splits));
}

std::int64_t most_rows(Precision precision) { return precision == Precision::fp32 ? 8 : 32; }

// Around tiles of 64 and 128 outputs, of 1 to 32 rows, and steps of 32 and 64 terms.
constexpr Size sizes[] = {{1, 8, 1},      {1, 64, 64},     {1, 72, 63},    {2, 24, 65},     {3, 136, 130},
                          {4, 1000, 77},  {5, 512, 200},   {7, 2056, 129}, {8, 4096, 1000}, {9, 64, 100},
                          {15, 200, 50},  {16, 1032, 257}, {17, 264, 128}, {31, 4608, 70},  {32, 520, 1000},
                          {1, 9216, 300}, {2, 4608, 1000}};

TEST_F(LinearStream, KeepsTheContract) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    for (const Size& size : sizes) {
      if (size.rows > most_rows(precision)) continue;
      for (const bool relu : {false, true}) {
        if (reduced() && size.in * size.out > 100000) continue;
        LinearOptions o = options_of(size, precision, relu);
        if (seed % 3 == 0) o.output = DType::f32;
        ASSERT_TRUE(linear_stream_supports(o));
        expect(size, o, draw(geometry_of(size), normal, normal, seed), relu || seed % 2 == 0);
        ++seed;
      }
    }
  }
}

TEST_F(LinearStream, EveryTileAndNumberOfSplits) {
  unsigned seed = 100;
  for (const Precision precision : precisions) {
    for (const std::int64_t rows : {1, 6, 16, 27}) {
      const Size size = {rows, 1032, 150};
      if (rows > most_rows(precision)) continue;
      for (const int outputs : {64, 128}) {
        if (outputs == 128 && (precision == Precision::fp32 || rows <= 8)) continue;
        for (int splits = 1; splits <= 8; ++splits) {
          expect(size, options_of(size, precision, true), draw(geometry_of(size), normal, normal, ++seed), true,
                 {outputs, splits});
          if (reduced() && splits == 3) break;
        }
      }
    }
  }
  EXPECT_THROW(make_linear_stream(options_of({1, 64, 64}, Precision::fp16), nullptr, nullptr, {.outputs = 96}), Error);
}

TEST_F(LinearStream, NanAndInfReachTheirRowsAlone) {
  unsigned seed = 200;
  for (const Precision precision : precisions) {
    for (const std::int64_t rows : {1, 8, 20}) {
      if (rows > most_rows(precision)) continue;
      const Size size = {rows, 328, 70};
      const LinearOptions o = options_of(size, precision, true);
      Data data = draw(geometry_of(size), normal, positive, ++seed);
      const auto at = [&](std::int64_t row, int column) -> float& {
        return data.x[static_cast<std::size_t>(row * size.in + column)];
      };
      // The last terms share their step with zeros that only pad it.
      at(0, size.in - 1) = infinity;
      if (rows > 2) at(2, 0) = -infinity, at(2, 7) = infinity, at(3, 100) = std::nanf("");
      expect(size, o, data, true);
      for (float& x : data.x) x = std::nanf("");
      expect(size, o, data, true);
    }
  }
}

// Sums beyond the format's largest number are Inf, not NaN.
TEST_F(LinearStream, Overflow) {
  const Size size = {5, 328, 70};
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    Data data = draw(geometry_of(size), positive, positive, 13);
    for (float& x : data.x) x *= 1e38f;
    for (float& w : data.w) w *= 100.0f;
    for (const float y : run(options_of(size, precision), data, true, {})) ASSERT_EQ(y, infinity);
  }
}

// Magnitudes from 1e-18 to 1e18, and long sums of one sign, which drift if their chains are long.
TEST_F(LinearStream, Fp32HoldsOnAwkwardValues) {
  unsigned seed = 300;
  for (const auto& [x, w] :
       {std::pair<Draw, Draw>{positive, positive}, {mixed, normal}, {normal, mixed}, {mixed, mixed}}) {
    const Size size = {7, reduced() ? 520 : 9216, 68};
    expect(size, options_of(size, Precision::fp32), draw(geometry_of(size), x, w, ++seed), true);
  }
}

TEST_F(LinearStream, SameBitsEveryRunAndForEveryRowOfAlikeRows) {
  for (const Precision precision : precisions) {
    const Size size = {8, 2056, 300};
    Data data = draw(geometry_of(size), normal, normal, 43);
    for (std::size_t i = static_cast<std::size_t>(size.in); i < data.x.size(); ++i) {
      data.x[i] = data.x[i - static_cast<std::size_t>(size.in)];
    }
    const LinearOptions o = options_of(size, precision);
    const auto first = run_bytes(o, data, true, {});
    for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(first, run_bytes(o, data, true, {}));
    const std::size_t row = first.size() / static_cast<std::size_t>(size.rows);
    for (std::size_t i = row; i < first.size(); ++i) ASSERT_EQ(first[i], first[i - row]);
  }
}

// Layers whose blocks fill their rings while the one before still runs, in a graph that is replayed back to back.
TEST_F(LinearStream, LayersOverlapWithoutRunningAhead) {
  for (const Precision precision : precisions) {
    for (const std::int64_t rows : {1, 8, 32}) {
      if (rows > most_rows(precision)) continue;
      const int widths[] = {2304, 1024, 1024, 2304, 264, 1000};
      std::vector<std::unique_ptr<LinearKernel>> layers;
      std::vector<Buffer> values;
      values.emplace_back(0, static_cast<std::size_t>(rows * widths[0]) * size_of(storage_type(precision)));
      for (std::size_t i = 0; i + 1 < std::size(widths); ++i) {
        const Size size = {rows, widths[i], widths[i + 1]};
        const Data data = draw(geometry_of(size), normal, normal, static_cast<unsigned>(i) + 400);
        layers.push_back(make_linear_stream(options_of(size, precision, true), data.w.data(), data.b.data()));
        values.emplace_back(0, static_cast<std::size_t>(rows * widths[i + 1]) * size_of(storage_type(precision)));
      }
      const OwnedStream stream(0);
      const auto run_layer = [&](std::size_t layer, Stream s) {
        layers[layer]->run(values[layer].data(), values[layer + 1].data(), nullptr, s);
      };
      const CapturedGraph graph(0, [&](Stream s) {
        for (std::size_t layer = 0; layer < layers.size(); ++layer) run_layer(layer, s);
      });
      for (unsigned input = 0; input < (reduced() ? 1 : 20); ++input) {
        std::mt19937 random(input);
        std::vector<float> x(static_cast<std::size_t>(rows * widths[0]));
        for (float& v : x) v = 0.03f * normal(random);
        const Buffer source = stored(x, storage_type(precision));
        copy_on_device(0, values[0].data(), source.data(), source.bytes(), stream.get());
        expect_no_running_ahead(values, run_layer, graph, 2, stream.get(),
                                detail::concat(name(precision), ", ", rows, " rows"));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(LinearStream, RefusesWhatItCannotRead) {
  EXPECT_FALSE(linear_stream_supports(options_of({1, 63, 64}, Precision::fp16)));
  EXPECT_FALSE(linear_stream_supports(options_of({1, 66, 64}, Precision::tf32)));
  EXPECT_FALSE(linear_stream_supports(options_of({33, 64, 64}, Precision::bf16)));
  EXPECT_FALSE(linear_stream_supports(options_of({9, 64, 64}, Precision::fp32)));
}

}  // namespace
}  // namespace lamina::cuda
