// Opening a model and planning it is work in proportion to the file, counted in what is allocated: a machine that is
// busy with something else has no say.

#include "lamina/graph/model.h"
#include "onnx/functions.h"
#include "support/allocations.h"
#include "support/file_test.h"

namespace lamina::test::onnx::linear_work_test {
namespace {

const std::vector<Message> small = {value_info("x", {2, 3})};

std::string value(int i, int last) { return i == last ? "y" : detail::concat('v', i); }

std::string chain(int n) {
  Graph g = {.inputs = small};
  for (int i = 0; i < n; ++i) g.nodes.push_back({"Relu", {i == 0 ? "x" : value(i, n)}, {value(i + 1, n)}});
  return model(g);
}

std::string wide_sum(int n) {
  Graph g = {.inputs = small};
  std::vector<std::string> operands;
  for (int i = 0; i < n; ++i) {
    operands.push_back(detail::concat('v', i));
    g.nodes.push_back({"Softmax", {"x"}, {operands.back()}});
  }
  g.nodes.push_back({"Sum", operands, {"y"}});
  return model(g);
}

/// Each call becomes nine nodes.
std::string nested_functions(int n) {
  Graph g = {.inputs = small};
  for (int i = 0; i < n; ++i) g.nodes.push_back(call("F0", {i == 0 ? "x" : value(i, n)}, {value(i + 1, n)}));
  return model(g, 18, functions(nest(2, 3)));
}

/// Ifs in a row, each of which chooses between the one before and its opposite.
std::string branches(int n) {
  Graph g = {.initializers = {ints("one", {1})}, .inputs = small};
  g.nodes = {{"Shape", {"x"}, {"s"}}, {"Size", {"s"}, {"r"}}, {"Equal", {"r", "one"}, {"c"}}};
  for (int i = 0; i < n; ++i) {
    const std::string from = i == 0 ? "x" : value(i, n);
    const Message neg = graph(Graph{.nodes = {{"Neg", {from}, {"t"}}}, .inputs = {}, .outputs = {"t"}});
    const Message relu = graph(Graph{.nodes = {{"Relu", {from}, {"t"}}}, .inputs = {}, .outputs = {"t"}});
    g.nodes.push_back(
        {"If", {"c"}, {value(i + 1, n)}, {graph_attribute("then_branch", neg), graph_attribute("else_branch", relu)}});
  }
  return model(g);
}

struct Case {
  const char* name;
  std::string (*model)(int n);
};

class LinearWork : public testing::TestWithParam<Case> {};

TEST_P(LinearWork, FourTimesTheNodesAllocateFourTimesAsMuch) {
  const TemporaryDirectory dir;
  const auto work = [&](int n) {
    write_file(dir / "x.onnx", GetParam().model(n));
    const long before = allocated_bytes();
    (void)load_model(dir / "x.onnx").graph.plan_memory({.threads = 1});
    return static_cast<double>(allocated_bytes() - before);
  };
  const double n = work(500), n2 = work(1000), n4 = work(2000);
  // In proportion 2 and 4, squared 4 and 16; some vectors are twice as long as they need be.
  EXPECT_LT(n2, 3 * n) << n << ' ' << n2 << ' ' << n4;
  EXPECT_LT(n4, 7 * n) << n << ' ' << n2 << ' ' << n4;
}

INSTANTIATE_TEST_SUITE_P(Models, LinearWork,
                         testing::Values(Case{"chain", chain}, Case{"wide_sum", wide_sum},
                                         Case{"nested_functions", nested_functions}, Case{"branches", branches}),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace lamina::test::onnx::linear_work_test
