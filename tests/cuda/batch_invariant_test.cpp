// CompileOptions::batch_invariant on a GPU: the choices that bits depend on, on devices that need not be there; and the
// bits themselves, where there is one, as it is and forced to be one before Hopper.

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <regex>
#include <sstream>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/architectures.h"
#include "lamina/graph/model.h"
#include "support/batches.h"
#include "support/devices.h"
#include "support/on_gpu.h"

namespace lamina::test::batch_invariant_test {
namespace {

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16};

bool is_long() { return std::getenv("LAMINA_TEST_LONG") != nullptr; }

/// Of each step of a plan what its kernel says of the order of its sums: the kernel, its instruction, the pieces of K.
std::vector<std::string> orders(const Graph& graph, const CompileOptions& options) {
  std::vector<std::string> steps;
  std::istringstream lines(graph.plan_summary(options));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ')) {
      steps.emplace_back();  // its row of the table; what its kernel says follows, indented
    } else if (!steps.empty()) {
      const std::size_t begin = line.find_first_not_of(' ');
      if (begin > 6) continue;  // a long cell of the row goes on there
      steps.back() += line.substr(begin) + ' ';
    }
  }
  // What only moves elements, or computes each by itself, has no sums, and those of Maps are an image's own: which
  // kernel does it, and whether a pooling is a step, is a matter of bytes.
  static const std::regex alone(R"(^(map \(|elementwise|copies|conversion|scale and shift))");
  static const std::regex kernel(R"(^[a-z_0-9]+( \([^)]*\))?( by [a-z0-9 ]+)?)"), pieces(R"(over \d+ splits)");
  for (std::string& step : steps) {
    std::smatch name, split;
    const bool named = std::regex_search(step, name, kernel), is_split = std::regex_search(step, split, pieces);
    if (std::regex_search(step, alone)) {
      step.clear();
      continue;
    }
    step = (named ? name[0].str() : "") + (is_split ? ' ' + split[0].str() : "");
  }
  std::erase(steps, "");
  return steps;
}

/// The steps' names, and of what became part of each.
std::vector<std::string> names_of_steps(const Graph& graph, const CompileOptions& options) {
  static const std::regex spaces(" +");
  std::vector<std::string> names;
  std::istringstream lines(graph.plan_summary(options));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t shape = line.find(" [");
    if (line.starts_with(' ') || shape == std::string::npos) continue;  // what goes on, or is no row of the table
    names.push_back(std::regex_replace(line.substr(0, shape), spaces, " "));
  }
  return names;
}

void expect_one_order(const Graph& graph, const DeviceDescription& device, bool differs_otherwise) {
  for (const Precision precision : precisions) {
    CompileOptions options = {
        .device = device.device, .batch = 1, .precision = precision, .batch_invariant = true, .description = device};
    const std::vector<std::string> expected = orders(graph, options);
    EXPECT_GT(expected.size(), 2u);
    for (const std::int64_t n : {3, 8, 32, 256}) {
      options.batch = n;
      EXPECT_EQ(orders(graph, options), expected) << "batch " << n << ", " << name(precision);
    }
    options.batch_invariant = false;
    const std::vector<std::string> many = orders(graph, options);
    options.batch = 1;
    EXPECT_TRUE(!differs_otherwise || orders(graph, options) != many) << name(precision);
  }
}

/// Known positions, added to what two others read: large beside one image, and small beside many.
Graph positions_read_twice() {
  Graph g;
  const auto known = [&](const char* what, const Shape& shape) {
    return g.add(what, Constant(Tensor::zeros(shape)), std::initializer_list<Value>{});
  };
  const Value x = g.add("first", Linear({.in = 192, .out = 192}), g.input("input", {batch, 196, 192}));
  const Value placed = g.add("placed", Add(), {x, known("positions", {1, 196, 192})});
  const std::vector<Value> normed = {placed, known("scale", {192})};
  const Value norm = g.add("norm", std::make_shared<Op>("LayerNormalization"), normed);
  const Value second = g.add("second", Linear({.in = 192, .out = 192}), norm);
  g.output(g.add("sum", Add(), {g.add("third", Linear({.in = 192, .out = 192}), second), placed}));
  seed_parameters(g);
  return g;
}

TEST(OrderOfSums, KnownNumbersBecomePartOfTheSameStepsInEveryBatch) {
  const Graph graph = positions_read_twice();
  CompileOptions options = {.device = Device::cuda(),
                            .batch = 1,
                            .precision = Precision::fp16,
                            .batch_invariant = true,
                            .description = h200()};
  const std::vector<std::string> expected = names_of_steps(graph, options);
  for (const std::int64_t n : {3, 15, 16, 256}) {
    options.batch = n;
    EXPECT_EQ(names_of_steps(graph, options), expected) << "batch " << n;
  }
}

TEST(OrderOfSums, IsTheLayersOnAnH200) {
  if (!cuda::compiled_for_90a()) GTEST_SKIP() << "this build has no sm_90a code";
  expect_one_order(every_layer_of_images(), h200(), true);
  expect_one_order(every_layer_of_tokens(), h200(), false);
  if (!is_long()) return;
  for (const std::string_view network : network_names()) expect_one_order(seeded_network(network), h200(), true);
}

TEST(OrderOfSums, IsTheLayersOnAnA100) {
  expect_one_order(every_layer_of_images(), a100(), true);
  expect_one_order(every_layer_of_tokens(), a100(), false);
  if (!is_long()) return;
  for (const std::string_view network : network_names()) expect_one_order(seeded_network(network), a100(), true);
}

class CudaBatchInvariant : public OnGpu {
 protected:
  static void check(const Graph& graph, const DeviceDescription& device) {
    for (const Precision precision : precisions) {
      const CompileOptions options = {.device = device.device, .precision = precision, .description = device};
      expect_no_bit_depends_on_the_batch(graph, options, std::vector<std::int64_t>{1, 3, 8, 32, 256});
    }
  }
  /// As one of 8.0 would do it.
  static DeviceDescription before_hopper() { return as_ampere(describe(gpu())); }
};
LAMINA_ON_GPUS(CudaBatchInvariant);

TEST_P(CudaBatchInvariant, LayersOfImages) { check(every_layer_of_images(), describe(gpu())); }
TEST_P(CudaBatchInvariant, LayersOfTokens) { check(every_layer_of_tokens(), describe(gpu())); }
TEST_P(CudaBatchInvariant, LayersOfImagesBeforeHopper) { check(every_layer_of_images(), before_hopper()); }
TEST_P(CudaBatchInvariant, LayersOfTokensBeforeHopper) { check(every_layer_of_tokens(), before_hopper()); }

TEST_P(CudaBatchInvariant, LayersOfImagesWithoutTensorCores) {
  const DeviceDescription device = detail::limited_to(75, describe(gpu()));
  expect_no_bit_depends_on_the_batch(every_layer_of_images(), {.device = device.device, .description = device},
                                     std::vector<std::int64_t>{1, 3, 8, 32});
}

/// Along another dimension than the last, where threads share a position as long as there are few of them.
TEST_P(CudaBatchInvariant, SoftmaxAcrossRows) {
  Graph graph;
  const Value x = graph.input("input", {batch, 64, 600});
  graph.output(graph.add("across", Op("Softmax", {{"axis", std::int64_t{1}}}), {x}));
  check(graph, describe(gpu()));
}

/// One convolution by each kernel that plans of fp32 may ask for by name.
TEST_P(CudaBatchInvariant, EveryAlgorithm) {
  Graph graph;
  const Value x = graph.input("input", {batch, 3, 40, 36});
  graph.output(graph.add("conv", Conv2d({.in = 3, .out = 20, .kernel = 11, .stride = 4, .padding = 2}), x));
  seed_parameters(graph);
  for (const std::string_view algorithm : conv_algorithms(DeviceType::cuda)) {
    if (algorithm == "channels_last" || algorithm == "depthwise" || algorithm == "mma") continue;  // other layers
    if (algorithm == "narrow" || algorithm == "planes" || algorithm == "stem" || algorithm == "map")
      continue;                                         // and precisions
    if (algorithm.starts_with("int8")) continue;        // codes
    if (algorithm == "im2col" && !is_long()) continue;  // cuBLAS
    SCOPED_TRACE(algorithm);
    expect_no_bit_depends_on_the_batch(graph, {.device = gpu(), .algorithm = std::string(algorithm)},
                                       std::vector<std::int64_t>{1, 3, 8, 32});
  }
}

/// Whole networks: the ready-made ones, or every model file of the folder LAMINA_TEST_NETWORKS; LAMINA_TEST_PRECISIONS
/// names other precisions than fp16.
TEST_P(CudaBatchInvariant, Networks) {
  const char* folder = std::getenv("LAMINA_TEST_NETWORKS");
  const char* wanted = std::getenv("LAMINA_TEST_PRECISIONS");
  if (!is_long() && folder == nullptr) GTEST_SKIP() << "for LAMINA_TEST_LONG, or LAMINA_TEST_NETWORKS=folder";
  std::vector<std::filesystem::path> files;
  if (folder != nullptr) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  } else {
    files.assign(network_names().begin(), network_names().end());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const Graph graph = folder == nullptr ? seeded_network(file.string()) : load_model(file).graph;
    std::istringstream words(wanted == nullptr ? "fp16" : wanted);
    for (std::string precision; words >> precision;) {
      for (const DeviceDescription& device : {describe(gpu()), before_hopper()}) {
        SCOPED_TRACE(detail::concat(file.stem().string(), ", ", precision, ", ", device.architecture));
        expect_no_bit_depends_on_the_batch(
            graph,
            {.device = device.device, .precision = parse_precision(precision), .capture = false, .description = device},
            std::vector<std::int64_t>{3, 8, 32, 256});
        std::cout << file.stem().string() << ' ' << precision << ' ' << device.architecture
                  << (HasFailure() ? ": bits differ somewhere" : ": equal bits") << std::endl;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::batch_invariant_test
