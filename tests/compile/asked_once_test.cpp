// What compiling asks of a module: which formats it takes, once for each.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>

#include "lamina/graph/graph.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/pool2d.h"

namespace lamina::test {
namespace {

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
}  // namespace lamina::test
