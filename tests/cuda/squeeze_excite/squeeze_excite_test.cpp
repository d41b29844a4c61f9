// Squeeze and excitation, and a response norm's factors, in one launch, against doubles.

#include "lamina/kernel/squeeze_excite.h"

#include <numeric>

#include "support/kernel_harness.h"

namespace lamina::test::squeeze_excite_test {
namespace {

struct GateCase {
  std::int64_t images;
  int channels, height, width, hidden;
  Pointwise squeeze = Pointwise::relu, excite = Pointwise::sigmoid;
};

/// Fewer pixels than blocks, hidden values and channels that eight blocks do not share out evenly.
const GateCase cases[] = {
    {1, 32, 112, 112, 8, Pointwise::silu},
    {3, 96, 28, 27, 4, Pointwise::silu},
    {2, 1152, 7, 7, 48, Pointwise::silu},
    {2, 72, 13, 9, 24, Pointwise::relu, Pointwise::hard_sigmoid},
    {5, 8, 1, 1, 1},
    {2, 120, 1, 3, 10},
    {1, 4096, 3, 2, 17},
    {33, 888, 7, 7, 222},
};

/// What the rule believes of the device: clusters of so many blocks that fit at a time, and one of eight, for
/// parameters that need as many; 0 of them: as it is.
struct Believed {
  int clusters = 0, blocks = 8;
};

struct Gate {
  GateCase c;
  std::vector<float> x, w1, b1, w2, b2;  // [N, C, H, W], [S, C], [S], [C, S], [C]
};

Gate draw_gate(const GateCase& c, unsigned seed) {
  std::mt19937 random(seed);
  const auto filled = [&](std::int64_t count, float scale) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = normal(random) * scale;
    return values;
  };
  const std::int64_t both = std::int64_t{c.channels} * c.hidden;
  Gate gate = {.c = c,
               .x = filled(c.images * c.channels * c.height * c.width, 1),
               .w1 = filled(both, 2 / std::sqrt(static_cast<float>(c.channels))),
               .b1 = filled(c.hidden, 1),
               .w2 = filled(both, 2 / std::sqrt(static_cast<float>(c.hidden))),
               .b2 = filled(c.channels, 1)};
  // Means that differ: those of what is drawn alone would be small.
  const auto plane = static_cast<std::size_t>(c.height * c.width);
  for (std::size_t i = 0; i < gate.x.size(); ++i) gate.x[i] += static_cast<float>(i / plane % 5) - 2;
  return gate;
}

class SqueezeExcite : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (!IsSkipped() && describe(Device::cuda()).architecture < 90) GTEST_SKIP() << "needs compute capability 9.0";
  }

  static SqueezeExciteProblem problem_of(const Gate& gate) {
    const GateCase& c = gate.c;
    const auto layer = [&](int in, int out, const std::vector<float>& w, const std::vector<float>& b, Pointwise f) {
      return ConvProblem{.geometry = geometry_of(Case{.batch = c.images, .in = in, .out = out}),
                         .weight = Tensor::from(w, {out, in, 1, 1}),
                         .bias = Tensor::from(b, {out}),
                         .epilogue = {.chain = {{f}}}};
    };
    return {layer(c.channels, c.hidden, gate.w1, gate.b1, c.squeeze),
            layer(c.hidden, c.channels, gate.w2, gate.b2, c.excite)};
  }

  static NormProblem norm_of(const Gate& gate) {
    return {.length = gate.c.channels,
            .eps = 1e-6,
            .kind = NormKind::mean,
            .channels = gate.c.channels,
            .scale = Tensor::from(gate.b2, {gate.c.channels}),
            .shift = Tensor::from(std::vector<float>(gate.b2.size(), 1.0f), {gate.c.channels})};
  }

  static Prepared prepare_gate(const Gate& gate, Precision precision, bool multiplies = true, Believed believed = {},
                               bool responds = false) {
    const GateCase& c = gate.c;
    const View view = {.shape = {c.images, c.channels, c.height, c.width},
                       .format = {storage_type(precision), Layout::nhwc}};
    View output = view;
    if (!multiplies) output.shape = {c.images, c.channels, 1, 1};
    Preparation p = {.inputs = {&view, 1},
                     .outputs = {&output, 1},
                     .device = describe(Device::cuda()),
                     .precision = precision,
                     .images = c.images};
    if (believed.clusters > 0) {
      p.device.clusters.fill(0);
      p.device.clusters[8] = 1;
      p.device.clusters[static_cast<std::size_t>(believed.blocks)] = believed.clusters;
    }
    SqueezeExciteProblem problem = problem_of(gate);
    problem.multiplies = multiplies;
    if (responds) problem.norm = norm_of(gate);
    return {choose(problem, p).prepare(problem, p), view, output};
  }

  /// The factors of image `n`.
  static std::vector<double> factors(const Gate& gate, Precision precision, std::int64_t n, bool responds = false) {
    const GateCase& c = gate.c;
    const auto channels = static_cast<std::size_t>(c.channels), hidden = static_cast<std::size_t>(c.hidden);
    const auto pixels = static_cast<std::size_t>(c.height * c.width);
    const auto rounded_to = [&](double v) { return double{rounded(static_cast<float>(v), precision)}; };
    std::vector<double> means(channels), between(hidden), result(channels);
    for (std::size_t k = 0; k < channels; ++k) {
      const float* plane = gate.x.data() + (static_cast<std::size_t>(n) * channels + k) * pixels;
      for (std::size_t i = 0; i < pixels; ++i) means[k] += std::pow(rounded_to(plane[i]), responds ? 2 : 1);
      means[k] = rounded_to(responds ? std::sqrt(means[k]) : means[k] / static_cast<double>(pixels));
    }
    if (responds) {
      const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(channels) + 1e-6;
      for (std::size_t k = 0; k < channels; ++k) result[k] = means[k] / mean * double{gate.b2[k]} + 1;
      return result;
    }
    for (std::size_t s = 0; s < hidden; ++s) {
      double sum = gate.b1[s];
      for (std::size_t k = 0; k < channels; ++k) sum += rounded_to(gate.w1[s * channels + k]) * means[k];
      between[s] = rounded_to(reference(c.squeeze, sum, 0, 0));
    }
    for (std::size_t k = 0; k < channels; ++k) {
      double sum = gate.b2[k];
      for (std::size_t s = 0; s < hidden; ++s) sum += rounded_to(gate.w2[k * hidden + s]) * between[s];
      result[k] = reference(c.excite, sum, 0, 0);
    }
    return result;
  }
};

/// A mean that is rounded the other way changes a factor by far less than its sums' own bound.
TEST_F(SqueezeExcite, IsTheProductOfImageAndFactors) {
  unsigned seed = 1;
  for (const Precision precision : of_16_bits) {
    const double unit = precision == Precision::fp16 ? 0x1p-11 : 0x1p-8;
    for (const GateCase& c : cases) {
      const Gate gate = draw_gate(c, ++seed);
      const Prepared op = prepare_gate(gate, precision);
      const std::vector<float> actual = run(op, gate.x);
      const std::size_t pixels = static_cast<std::size_t>(c.height * c.width);
      const auto channels = static_cast<std::size_t>(c.channels);
      for (std::int64_t n = 0; n < c.images; ++n) {
        const std::vector<double> factor = factors(gate, precision, n);
        for (std::size_t k = 0; k < channels; ++k) {
          for (std::size_t i = 0; i < pixels; ++i) {
            const std::size_t at = (static_cast<std::size_t>(n) * channels + k) * pixels + i;
            const double x = rounded(gate.x[at], precision), expected = x * factor[k];
            // Sums are of the size of 5, and what they are made of may be off by a unit each.
            const double bound = std::abs(x) * 40 * unit + 1e-6;
            ASSERT_NEAR(actual[at], expected, bound)
                << name(precision) << ", " << c.channels << " x " << c.height << " x " << c.width << ", " << c.hidden
                << " hidden, image " << n << ", channel " << k << ", pixel " << i << ", " << op.op->description();
          }
        }
      }
    }
  }
}

/// Of two layers, and of a response norm, there also of a channel 1e-4 of the others, and of an image of zeros.
TEST_F(SqueezeExcite, FactorsAlone) {
  unsigned seed = 100;
  for (const auto& [precision, responds] : {std::pair(Precision::fp16, false), std::pair(Precision::bf16, false),
                                            std::pair(Precision::fp16, true), std::pair(Precision::bf16, true)}) {
    const double unit = precision == Precision::fp16 ? 0x1p-11 : 0x1p-8;
    for (const GateCase& c : cases) {
      Gate gate = draw_gate(c, ++seed);
      const std::ptrdiff_t plane = c.height * c.width, image = plane * c.channels;
      std::for_each_n(gate.x.begin(), responds ? plane : 0, [](float& v) { v *= 1e-4f; });
      if (responds && c.images > 1) std::fill(gate.x.end() - image, gate.x.end(), 0.0f);
      const std::vector<unsigned char> bytes = run_bytes(prepare_gate(gate, precision, false, {}, responds), gate.x);
      // Images of a cluster, as many as there are and fewer; blocks of one, 1000 of which fit.
      for (const Believed believed :
           {Believed{1}, Believed{2}, Believed{3}, Believed{1000, 4}, Believed{1000, 2}, Believed{1000, 1}}) {
        const Prepared few = prepare_gate(gate, precision, false, believed, responds);
        EXPECT_EQ(run_bytes(few, gate.x), bytes) << few.op->description();
        if (responds) continue;
        EXPECT_EQ(run_bytes(prepare_gate(gate, precision, true, believed), gate.x),
                  run_bytes(prepare_gate(gate, precision), gate.x));
      }
      const std::vector<float> actual = to_values(bytes, {c.images, c.channels, 1, 1}, Format{storage_type(precision)});
      const auto channels = static_cast<std::size_t>(c.channels);
      for (std::int64_t n = 0; n < c.images; ++n) {
        const std::vector<double> factor = factors(gate, precision, n, responds);
        for (std::size_t k = 0; k < channels; ++k) {
          const double bound = (responds ? 4 * (1 + std::abs(factor[k] - 1)) : 40) * unit;
          ASSERT_NEAR(actual[static_cast<std::size_t>(n) * channels + k], factor[k], bound)
              << name(precision) << ", image " << n << ", channel " << k << ", responds " << responds;
        }
      }
    }
  }
}

TEST_F(SqueezeExcite, AnImageHasItsBitsWhateverIsBesideIt) {
  for (const Precision precision : of_16_bits) {
    Gate gate = draw_gate(cases[1], 50);
    const std::vector<unsigned char> expected = run_bytes(prepare_gate(gate, precision), gate.x);
    EXPECT_EQ(run_bytes(prepare_gate(gate, precision), gate.x), expected);
    const std::size_t one = gate.x.size() / 3, bytes = expected.size() / 3;
    gate.x[one + 5] = std::nanf(""), gate.x[one + 700] = infinity;
    const std::vector<unsigned char> beside = run_bytes(prepare_gate(gate, precision), gate.x);
    const auto image = [&](const std::vector<unsigned char>& of, std::size_t n) {
      return std::vector<unsigned char>(of.begin() + static_cast<std::ptrdiff_t>(n * bytes),
                                        of.begin() + static_cast<std::ptrdiff_t>((n + 1) * bytes));
    };
    EXPECT_EQ(image(beside, 0), image(expected, 0));
    EXPECT_EQ(image(beside, 2), image(expected, 2));
    const Prepared op = prepare_gate(gate, precision);
    const std::vector<float> values = to_values(beside, op.output.shape, op.output.format);
    EXPECT_TRUE(std::isnan(values[one + 3]));
    Gate alone = gate;
    alone.c.images = 1;
    alone.x.assign(gate.x.end() - static_cast<std::ptrdiff_t>(one), gate.x.end());
    EXPECT_EQ(run_bytes(prepare_gate(alone, precision), alone.x), image(expected, 2));
  }
}

}  // namespace
}  // namespace lamina::test::squeeze_excite_test
