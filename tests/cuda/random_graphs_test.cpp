// Graphs drawn at random: a GPU's plans give what the CPU gives with nothing fused. Where operands are rounded,
// results may differ by what the graph makes of that, which the CPU's bf16 tells: it keeps the same values, with an
// eighth of the precision of fp16 and tf32.

#include <array>

#include "lamina/cuda/runtime/device.h"
#include "support/devices.h"
#include "support/on_gpu.h"
#include "support/random_graph.h"

namespace lamina::test::random_graphs_test {
namespace {

class CudaRandomGraphs : public OnGpu {};
LAMINA_ON_GPUS(CudaRandomGraphs);

std::vector<Tensor> copies(std::span<const Tensor> results) {
  std::vector<Tensor> all;
  for (const Tensor& result : results) all.push_back(result.clone());
  return all;
}

std::vector<Tensor> on_cpu(const Graph& graph, const Tensor& input, Precision precision) {
  Plan plan = graph.compile({.precision = precision, .threads = 1, .fuse = false});
  return copies(plan.run(std::span(&input, 1)));
}

/// No value on the way is beyond what f16 holds.
bool fits_half(const Graph& graph, const Tensor& input) {
  Plan plan = graph.compile({.threads = 1, .keep_all = true});
  (void)plan.run(std::span(&input, 1));
  return std::ranges::all_of(graph.nodes(), [&](const Graph::Node& node) {
    if (node.module == nullptr || node.module->op() == "Constant") return true;
    const Tensor values = plan.activation(node.name);
    return std::ranges::all_of(values.values<float>(), [](float v) { return std::abs(v) < 1e4f; });
  });
}

struct Difference {
  double most = 0, largest = 1;
  std::size_t at = 0;
};

/// The largest difference of two results, and the largest value. NaN differs from all else by infinity.
Difference difference(const Tensor& found, const Tensor& expected) {
  Difference d;
  const std::span<const float> x = found.values<float>(), y = expected.values<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    d.largest = std::max(d.largest, static_cast<double>(std::abs(y[i])));
    const double off = std::isnan(x[i]) == std::isnan(y[i]) ? std::abs(static_cast<double>(x[i]) - y[i]) : INFINITY;
    if (off > d.most) d.most = off, d.at = i;
  }
  return d;
}

std::string described(const Graph& graph) {
  std::string text;
  for (const Graph::Node& node : graph.nodes()) {
    text += "\n  " + node.name + " = " + (node.module ? std::string(node.module->op()) : "input") + '(';
    for (const int input : node.inputs) text += ' ' + graph.nodes()[static_cast<std::size_t>(input)].name;
    text += " )";
    if (node.module && node.module->op() == "Constant") text += ' ' + node.module->parameters()[0].shape.to_string();
  }
  return text;
}

/// With LAMINA_TEST_LONG more of them, from LAMINA_RANDOM_FROM on.
int graphs() { return std::getenv("LAMINA_TEST_LONG") != nullptr ? 3000 : 300; }

/// One of those whose operands are rounded, by turns; fp32 is there always.
Precision rounded_precision(unsigned seed) {
  constexpr std::array choices = {Precision::fp16, Precision::fp16, Precision::tf32, Precision::bf16};
  return choices[seed / 2 % choices.size()];
}

/// How far results may be off, as a part of the largest, and of what the CPU's bf16 is.
struct Tolerance {
  double of_largest, of_rounding;
};
Tolerance tolerance(Precision precision) {
  if (precision == Precision::fp32) return {1e-3, 0};
  return precision == Precision::bf16 ? Tolerance{2e-2, 6} : Tolerance{4e-3, 1};
}

/// The choices of a plan that do not change its meaning, by turns.
CompileOptions options_of(unsigned seed, Device device, Precision precision) {
  CompileOptions options = {.device = device, .precision = precision};
  if (seed % 3 == 1) options.description = as_ampere(describe(device));
  options.batch_invariant = seed % 5 == 2;
  options.capture = seed % 4 != 3;
  return options;
}

TEST_P(CudaRandomGraphs, PlansGiveWhatTheCpuGivesUnfused) {
  int compared = 0;
  const char* const from = std::getenv("LAMINA_RANDOM_FROM");
  const auto first_seed =
      static_cast<unsigned>(GetParam() * graphs() + (from ? std::atoi(from) : 0));  // each GPU has graphs of its own
  for (unsigned seed = first_seed; seed < first_seed + static_cast<unsigned>(graphs()); ++seed) {
    const RandomGraph drawn(seed, seed % 2 == 0 ? wide_extents() : RandomExtents());
    const Tensor input = random_tensor(drawn.input_shape, seed);
    const std::vector<Tensor> expected = on_cpu(drawn.graph, input, Precision::fp32);
    const bool half = fits_half(drawn.graph, input);
    const std::vector<Tensor> rounded = half ? on_cpu(drawn.graph, input, Precision::bf16) : expected;
    for (const Precision precision : {Precision::fp32, rounded_precision(seed)}) {
      if (precision != Precision::fp32 && !half) continue;
      Plan plan = drawn.graph.compile(options_of(seed, gpu(), precision));
      std::vector<Tensor> first = copies(plan.run(std::span(&input, 1)));
      for (int again = 0; again < 2; ++again) {  // captured, then replayed
        const std::span<const Tensor> results = plan.run(std::span(&input, 1));
        for (std::size_t o = 0; o < first.size(); ++o) {
          EXPECT_TRUE(same_bits(results[o], first[o]))
              << "graph " << seed << ", run " << again + 2 << described(drawn.graph);
        }
      }
      ASSERT_EQ(first.size(), expected.size());
      for (std::size_t o = 0; o < first.size(); ++o) {
        ASSERT_EQ(first[o].shape(), expected[o].shape()) << "graph " << seed << ", output " << o;
        const Difference off = difference(first[o], expected[o]);
        const auto [of_largest, of_rounding] = tolerance(precision);
        const double bound = of_largest * off.largest + of_rounding * difference(rounded[o], expected[o]).most;
        EXPECT_LE(off.most, bound) << "graph " << seed << " in " << name(precision) << ", output " << o << ", element "
                                   << off.at << ": " << first[o].values<float>()[off.at] << ", expected "
                                   << expected[o].values<float>()[off.at] << described(drawn.graph) << '\n'
                                   << plan.summary();
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, graphs());
}

}  // namespace
}  // namespace lamina::test::random_graphs_test
