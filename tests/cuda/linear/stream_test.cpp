// Linear layers whose weights are streamed through shared memory, against the double reference: a fully connected
// layer is a 1x1 convolution of 1x1 images.

#include "lamina/cuda/linear/kernels.h"

#include "cuda/runtime/overlap_harness.h"
#include "support/kernel_harness.h"

namespace lamina::test::stream_test {
namespace {

struct Size {
  std::int64_t rows;
  int in, out;
};

ConvGeometry geometry_of(const Size& size) {
  return geometry_of(Case{.batch = size.rows, .in = size.in, .height = 1, .width = 1, .out = size.out});
}

KernelOptions stream(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  const Format stored = {storage_type(precision)};
  return {
      .kernel = "stream", .precision = precision, .input = stored, .output = stored, .relu = relu, .tuning = tuning};
}

class LinearStream : public OnHopper {};

bool taken(const Size& size, Precision precision) { return takes<LinearProblem>(geometry_of(size), stream(precision)); }

void expect(const Size& size, const KernelOptions& o, const ConvData& data, bool biased) {
  const ConvGeometry g = geometry_of(size);
  const Prepared kernel = prepare<LinearProblem>(g, o, data, biased);
  EXPECT_EQ(kernel.op->workspace_bytes(), 0u);
  EXPECT_EQ(kernel_name(*kernel.op), "stream");
  expect_outputs(expected_outputs(g, o, reference_of(g, o.precision, data, biased)), run(kernel, data.x),
                 describe(g, o));
}

std::int64_t max_rows(Precision precision) { return precision == Precision::fp32 ? 8 : 32; }

// Around tiles of 64 and 128 outputs, of 1 to 32 rows, and steps of 32 and 64 terms.
constexpr Size sizes[] = {{1, 8, 1},      {1, 64, 64},     {1, 72, 63},    {2, 24, 65},     {3, 136, 130},
                          {4, 1000, 77},  {5, 512, 200},   {7, 2056, 129}, {8, 4096, 1000}, {9, 64, 100},
                          {15, 200, 50},  {16, 1032, 257}, {17, 264, 128}, {31, 4608, 70},  {32, 520, 1000},
                          {1, 9216, 300}, {2, 4608, 1000}};

TEST_F(LinearStream, KeepsTheContract) {
  unsigned seed = 1;
  for (const Precision precision : precisions) {
    for (const Size& size : sizes) {
      if (size.rows > max_rows(precision)) continue;
      for (const bool relu : {false, true}) {
        if (reduced() && size.in * size.out > 100000) continue;
        KernelOptions o = stream(precision, relu);
        if (seed % 3 == 0) o.output.dtype = DType::f32;
        ASSERT_TRUE(takes<LinearProblem>(geometry_of(size), o));
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
      if (rows > max_rows(precision)) continue;
      for (const int outputs : {64, 128}) {
        if (outputs == 128 && (precision == Precision::fp32 || rows <= 8)) continue;
        for (int splits = 1; splits <= 8; ++splits) {
          expect(size, stream(precision, true, {.splits = splits, .outputs = outputs}),
                 draw(geometry_of(size), normal, normal, ++seed), true);
          if (reduced() && splits == 3) break;
        }
      }
    }
  }
  const ConvGeometry g = geometry_of(Size{1, 64, 64});
  EXPECT_THROW(
      prepare<LinearProblem>(g, stream(Precision::fp16, false, {.outputs = 96}), draw(g, normal, normal, 1), true),
      Error);
}

TEST_F(LinearStream, NanAndInfReachTheirRowsAlone) {
  unsigned seed = 200;
  for (const Precision precision : precisions) {
    for (const std::int64_t rows : {1, 8, 20}) {
      if (rows > max_rows(precision)) continue;
      const Size size = {rows, 328, 70};
      const KernelOptions o = stream(precision, true);
      ConvData data = draw(geometry_of(size), normal, positive, ++seed);
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
    ConvData data = draw(geometry_of(size), positive, positive, 13);
    for (float& x : data.x) x *= 1e38f;
    for (float& w : data.w) w *= 100.0f;
    for (const float y : run<LinearProblem>(geometry_of(size), stream(precision), data, true)) ASSERT_EQ(y, infinity);
  }
}

// Magnitudes from 1e-18 to 1e18, and long sums of one sign, which drift if their chains are long.
TEST_F(LinearStream, Fp32HoldsOnAwkwardValues) {
  unsigned seed = 300;
  for (const auto& [x, w] :
       {std::pair<Draw, Draw>{positive, positive}, {mixed, normal}, {normal, mixed}, {mixed, mixed}}) {
    const Size size = {7, reduced() ? 520 : 9216, 68};
    expect(size, stream(Precision::fp32), draw(geometry_of(size), x, w, ++seed), true);
  }
}

TEST_F(LinearStream, SameBitsEveryRunAndForEveryRowOfAlikeRows) {
  for (const Precision precision : precisions) {
    const Size size = {8, 2056, 300};
    ConvData data = draw(geometry_of(size), normal, normal, 43);
    for (std::size_t i = static_cast<std::size_t>(size.in); i < data.x.size(); ++i) {
      data.x[i] = data.x[i - static_cast<std::size_t>(size.in)];
    }
    const auto again = [&] { return run_bytes<LinearProblem>(geometry_of(size), stream(precision), data, true); };
    const auto first = again();
    for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(first, again());
    const std::size_t row = first.size() / static_cast<std::size_t>(size.rows);
    for (std::size_t i = row; i < first.size(); ++i) ASSERT_EQ(first[i], first[i - row]);
  }
}

// Layers whose blocks fill their rings while the one before still runs, in a graph that is replayed back to back.
TEST_F(LinearStream, LayersOverlapWithoutRunningAhead) {
  for (const Precision precision : precisions) {
    for (const std::int64_t rows : {1, 8, 32}) {
      if (rows > max_rows(precision)) continue;
      const int widths[] = {2304, 1024, 1024, 2304, 264, 1000};
      std::vector<Prepared> layers;
      std::vector<cuda::Buffer> values;
      for (std::size_t i = 0; i + 1 < std::size(widths); ++i) {
        const ConvGeometry g = geometry_of(Size{rows, widths[i], widths[i + 1]});
        const ConvData data = draw(g, normal, normal, static_cast<unsigned>(i) + 400);
        layers.push_back(prepare<LinearProblem>(g, stream(precision, true), data, true));
        if (values.empty()) values.emplace_back(0, layers.back().input_bytes());
        values.emplace_back(0, layers.back().output_bytes());
      }
      const cuda::OwnedStream own(0);
      const auto run_layer = [&](std::size_t layer, cuda::Stream s) {
        layers[layer].enqueue(values[layer].data(), values[layer + 1].data(), nullptr, s);
      };
      const cuda::CapturedGraph graph(0, [&](cuda::Stream s) {
        for (std::size_t layer = 0; layer < layers.size(); ++layer) run_layer(layer, s);
      });
      for (unsigned input = 0; input < (reduced() ? 1 : 20); ++input) {
        std::mt19937 random(input);
        std::vector<float> x(static_cast<std::size_t>(rows * widths[0]));
        for (float& v : x) v = 0.03f * normal(random);
        const auto bytes = to_bytes(x, layers[0].input.shape, layers[0].input.format);
        cuda::upload(0, values[0].data(), bytes.data(), bytes.size(), own.get());
        expect_no_running_ahead(values, run_layer, graph, 2, own.get(),
                                detail::concat(name(precision), ", ", rows, " rows"));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(LinearStream, RefusesWhatItCannotRead) {
  EXPECT_FALSE(taken({1, 63, 64}, Precision::fp16));
  EXPECT_FALSE(taken({1, 66, 64}, Precision::tf32));
  EXPECT_FALSE(taken({33, 64, 64}, Precision::bf16));
  EXPECT_FALSE(taken({9, 64, 64}, Precision::fp32));
}

}  // namespace
}  // namespace lamina::test::stream_test
