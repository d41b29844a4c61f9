// What the rule makes of the ready-made networks on devices that need not be there: tests/golden/plans holds the plans.
// LAMINA_UPDATE_GOLDEN=1 in the environment writes them anew, to be read in the difference that follows;
// LAMINA_TEST_LONG=1, as scripts/test.sh --long sets it, checks the batches between
// the least and the most too.

#include "lamina/cuda/runtime/architectures.h"
#include "support/devices.h"
#include "support/plans/golden_plans.h"
#include "support/plans/seeded_network.h"

namespace lamina::test::rule_test {
namespace {

/// One weight set for all plans of a network.
const Graph& network_of(const std::string& name) {
  static std::map<std::string, Graph> known;
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, seeded_network(name)).first->second;
}

/// Of a summary, the lines that are about convolutions, without the padding of the columns: the rest depends on whether
/// this machine has cuBLAS, on which the fully connected layers of such a device run.
std::string convolutions_of(const Graph& graph, const std::string& summary) {
  std::string result;
  bool wanted = false;
  std::istringstream lines(summary);
  for (std::string line; std::getline(lines, line);) {
    const std::string text = single_spaced(line);
    if (!line.empty() && line[0] != ' ') {  // a step; what follows it is indented
      const Graph::Node* node = graph.find(text.substr(0, text.find(' ')));
      wanted = node != nullptr && node->module != nullptr && node->module->op() == "conv2d";
    }
    if (wanted) result += text + '\n';
  }
  return result;
}

class Rule : public testing::TestWithParam<std::string_view> {
 protected:
  /// Compares `text(graph, options)` with golden/plans/<network>-<precision><suffix>.txt, or writes that file.
  template <class Text>
  static void check(const DeviceDescription& device, const std::vector<std::int64_t>& batches,
                    const std::string& suffix, Text&& text) {
    const std::string network(GetParam());
    const Graph& graph = network_of(network);
    const bool update = is_set("LAMINA_UPDATE_GOLDEN");
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      const std::filesystem::path path = std::filesystem::path(LAMINA_TEST_DATA) / "golden" / "plans" /
                                         (network + '-' + std::string(name(precision)) + suffix + ".txt");
      const auto plan = [&](std::int64_t n) {
        return text(graph, {.device = device.device, .batch = n, .precision = precision, .description = device});
      };
      if (update) {
        std::string all;
        for (const std::int64_t n : batches) all += "# " + std::to_string(n) + '\n' + plan(n);
        std::filesystem::create_directories(path.parent_path());
        write_file(path, all);
        continue;
      }
      ASSERT_TRUE(std::filesystem::exists(path)) << path << ": LAMINA_UPDATE_GOLDEN=1 writes it";
      auto expected = sections_of(read_file(path));
      EXPECT_EQ(expected.size(), batches.size()) << path;
      for (const std::int64_t n : batches) {
        // A plan packs every weight, a second or two each: the least and the most say most of what a rule does.
        const bool between = n != batches.front() && n != batches.back();
        if (between && !is_set("LAMINA_TEST_LONG")) continue;
        EXPECT_EQ(plan(n), expected[std::to_string(n)]) << path << ", batch " << n;
      }
    }
  }
};

TEST_P(Rule, PlansForAnH200AreAsWritten) {
  if (!cuda::compiled_for_90a()) GTEST_SKIP() << "this build has no sm_90a code";
  check(h200(), {1, 8, 32, 256}, "",
        [](const Graph& graph, const CompileOptions& options) { return graph.plan_summary(options); });
}

TEST_P(Rule, ConvolutionsOnAnA100AreAsWritten) {
  check(a100(), {1, 32}, "-sm80", [](const Graph& graph, const CompileOptions& options) {
    return convolutions_of(graph, graph.plan_summary(options));
  });
}

/// Turing has no tensor cores that kernels here use, Ada less shared memory than others.
TEST_P(Rule, EveryGenerationHasAPlan) {
  if (GetParam() != "resnet18" && !is_set("LAMINA_TEST_LONG")) GTEST_SKIP() << "LAMINA_TEST_LONG=1 runs it";
  for (const int architecture : {75, 86, 89}) {
    const DeviceDescription device = detail::limited_to(architecture, h200());
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      EXPECT_NO_THROW(network_of(std::string(GetParam()))
                          .plan_summary({.device = device.device, .precision = precision, .description = device}))
          << architecture << ' ' << name(precision);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Rule, testing::ValuesIn(network_names().begin(), network_names().end()),
                         [](const auto& parameter) {
                           std::string text(parameter.param);
                           for (char& c : text) {
                             if (c == '-') c = '_';
                           }
                           return text;
                         });

}  // namespace
}  // namespace lamina::test::rule_test
