// Compiling takes time in proportion to the network: to its nodes, and to the operands of one.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/views.h"
#include "lamina/ops/op.h"

namespace lamina::test::linear_time_test {
namespace {

Graph chain(int n) {
  Graph g;
  Value x = g.input("x", {2, 3});
  for (int i = 0; i < n; ++i) x = g.add(ReLU(), x);
  g.output(x);
  return g;
}

/// Nodes that are steps of their own.
Graph row_of_steps(int n) {
  Graph g;
  Value x = g.input("x", {2, 3});
  for (int i = 0; i < n; ++i) x = g.add(Op("Softmax"), x);
  g.output(x);
  return g;
}

/// What a layer takes in becomes part of its weights.
Graph layer_with_summands(int n) {
  Graph g;
  Linear linear({.in = 3, .out = 3, .bias = false});
  linear.set_weight(Tensor::zeros({3, 3}));
  Value x = g.add(std::move(linear), g.input("x", {2, 3}));
  const Value summand = g.add("summand", std::make_shared<Constant>(Tensor::zeros({3})), {});
  for (int i = 0; i < n; ++i) x = g.add("sum" + std::to_string(i), Add(), {x, summand});
  g.output(x);
  return g;
}

std::vector<Value> computed(Graph& g, int n) {
  std::vector<Value> result;
  const Value x = g.input("x", {1, 1, 2, 2});
  for (int i = 0; i < n; ++i) result.push_back(g.add(Op("Softmax"), x));
  return result;
}

Graph of_operands(const char* op, int n) {
  Graph g;
  const std::vector<Value> operands = computed(g, n);
  const Attributes attributes = op == std::string("Concat") ? Attributes{{"axis", std::int64_t{1}}} : Attributes{};
  g.output(g.add(op, std::make_shared<Op>(op, attributes), operands));
  return g;
}
Graph wide_sum(int n) { return of_operands("Sum", n); }
Graph wide_concat(int n) { return of_operands("Concat", n); }

/// Moves of one value, each of which is joined with what follows it.
Graph many_moves(int n) {
  Graph g;
  const Value x = g.input("x", {2, 3, 5});
  const Attributes to = {{"perm", std::vector<std::int64_t>{1, 2, 0}}};
  std::vector<Value> moved;
  for (int i = 0; i < n; ++i) moved.push_back(g.add(Op("Transpose", to), g.add(Op("Transpose", to), x)));
  g.output(g.add("sum", std::make_shared<Op>("Sum"), moved));
  return g;
}

double seconds_of_this_process() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_to_compile(const Graph& graph) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = seconds_of_this_process();
    (void)graph.plan_memory({.threads = 1});
    least = std::min(least, seconds_of_this_process() - begin);
  }
  return least;
}

struct Network {
  const char* name;
  Graph (*graph)(int);
  int nodes;
};

class LinearTime : public testing::TestWithParam<Network> {};

TEST_P(LinearTime, FourTimesTheNodesTakeFourTimesAsLong) {
  const auto [name, graph, nodes] = GetParam();
  std::string seconds;
  for (int tries = 0; tries < 4; ++tries) {  // other processes share the caches
    const double n = seconds_to_compile(graph(nodes)), n2 = seconds_to_compile(graph(2 * nodes)),
                 n4 = seconds_to_compile(graph(4 * nodes));
    seconds += std::to_string(n) + ' ' + std::to_string(n2) + ' ' + std::to_string(n4) + "; ";
    // In proportion 2 and 4, squared 4 and 16; caches make some of the difference.
    if (n2 < 3.2 * n + 2e-3 && n4 < 8 * n + 4e-3) return;
  }
  ADD_FAILURE() << "of n, 2 n and 4 n nodes: " << seconds;
}

INSTANTIATE_TEST_SUITE_P(Networks, LinearTime,
                         testing::Values(Network{"chain", chain, 4000}, Network{"row_of_steps", row_of_steps, 4000},
                                         Network{"layer_with_summands", layer_with_summands, 8000},
                                         Network{"wide_sum", wide_sum, 1000}, Network{"wide_concat", wide_concat, 1000},
                                         Network{"many_moves", many_moves, 1000}),
                         [](const auto& network) { return std::string(network.param.name); });

TEST(LinearMemory, OfManyOperands) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what was freed";
#endif
  const auto most = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;  // MB
  };
  const Graph sum = wide_sum(10'000);
  const auto before = most();
  (void)sum.plan_memory({.threads = 1});
  EXPECT_LT(most() - before, 300) << "MB";
}

}  // namespace
}  // namespace lamina::test::linear_time_test
