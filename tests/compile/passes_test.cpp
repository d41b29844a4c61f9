// What every pass leaves is a Program that can run in its order, and the table of passes as `lamina inspect` prints it;
// what compiling asks of a module, once for each pair of formats.

#include "lamina/compile/passes.h"

#include <array>
#include <map>
#include <memory>

#include "lamina/kernel/finding.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/pool2d.h"
#include "support/random_graph.h"

namespace lamina::test::passes_test {
namespace {

/// Every operation reads what is there by then, and no two give the same value.
void expect_in_order(const detail::Program& program) {
  std::vector<bool> there(program.values.size(), false);
  const auto is_there = [&](int value) { return there[static_cast<std::size_t>(value)]; };
  for (const int input : program.inputs) there[static_cast<std::size_t>(input)] = true;
  for (std::size_t v = 0; v < there.size(); ++v) there[v] = there[v] || program.values[v].constant.defined();
  for (const auto& op : program.operations) {
    for (const int input : op.inputs) ASSERT_TRUE(is_there(input)) << op.name;
    for (const int result : {op.output, op.second_output}) {
      if (result < 0) continue;
      ASSERT_FALSE(is_there(result)) << op.name;
      there[static_cast<std::size_t>(result)] = true;
    }
  }
  for (const int output : program.outputs) ASSERT_TRUE(is_there(output));
}

TEST(Passes, LeaveAProgramThatRunsInItsOrder) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const RandomGraph drawing(seed, seed % 16 == 0 ? wide_extents() : RandomExtents());
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      detail::Compilation compilation{drawing.graph, {}};
      compilation.plan->options = {.precision = precision, .threads = 1};
      detail::settle_options(drawing.graph, compilation.plan->options);
      detail::take_passes(compilation, [&](const detail::Pass& pass) {
        SCOPED_TRACE("graph " + std::to_string(seed) + ", " + std::string(pass.name));
        expect_in_order(compilation.program);
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Passes, AreListedWithTheStepsThatTheyLeave) {
  Graph g;
  const Value x = g.input("x", {2, 3});
  g.output(g.add(Sigmoid(), g.add(ReLU(), x)));
  const auto line_of = [&](const std::string& text, const std::string& pass) {
    const std::size_t begin = text.find('\n' + pass + ' ') + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string all = detail::describe_passes(g, {.threads = 1});
  EXPECT_NE(line_of(all, "resolve").find(" 2 "), std::string::npos) << all;
  EXPECT_NE(line_of(all, "fold").find(" 1 "), std::string::npos) << all;
  const std::string unfused = detail::describe_passes(g, {.threads = 1, .fuse = false});
  EXPECT_EQ(unfused.find("\nfold "), std::string::npos) << unfused;
  for (const detail::Pass& pass : detail::passes()) {
    EXPECT_FALSE(line_of(detail::describe_passes(), std::string(pass.name)).empty()) << pass.name;
  }
}

using Question = std::array<Layout, 2>;

/// Takes images channels last, and finds a number as it says so.
class Asked final : public Module {
 public:
  explicit Asked(std::shared_ptr<std::map<Question, int>> times) : times_(std::move(times)) {}
  std::string_view op() const override { return "asked"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation& p) const override {
    ++(*times_)[{p.input().format.layout, p.output().format.layout}];
    const bool nhwc = p.keeps_format() && p.input().format.layout == Layout::nhwc;
    return keep(nhwc ? std::optional(42) : std::nullopt, p);
  }
  std::unique_ptr<Operator> prepare(const Preparation& p) const override {
    EXPECT_EQ(kept(p, [] { return std::optional(0); }), 42);
    return detail::make_operator("asked", [](auto, auto, const Execution&) {});
  }

 private:
  std::shared_ptr<std::map<Question, int>> times_;
};

TEST(AskedOnce, AModuleForEachPairOfFormatsAndItsPrepareIsToldWhatItFound) {
  const auto times = std::make_shared<std::map<Question, int>>();
  Graph g;
  const Value x = g.input("input", {batch, 8, 6, 6});
  const Value a = g.add("a", MaxPool2d({.kernel = 2}), x);
  g.output(g.add("c", MaxPool2d({.kernel = 2}), g.add("b", Asked(times), a)));
  (void)g.plan_summary({.device = Device::cpu()});
  EXPECT_FALSE(times->empty());
  for (const auto& [question, count] : *times) EXPECT_EQ(count, 1) << name(question[0]) << " to " << name(question[1]);
}

}  // namespace
}  // namespace lamina::test::passes_test
