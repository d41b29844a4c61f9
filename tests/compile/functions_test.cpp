// Functions of a layer's result as exporters and people write them: parts of the layer, whoever wrote them.

#include <cmath>
#include <functional>

#include "compile/fused.h"
#include "support/networks.h"

namespace lamina::test::functions_test {
namespace {

struct Formula {
  const char* name;
  std::function<Value(Graph&, Value)> of;
  std::function<double(double)> is;
};

Value number(Graph& g, float value) { return constant(g, Tensor::from(std::vector<float>{value}, Shape{})); }

Value times(Graph& g, Value a, Value b) { return op(g, "Mul", {a, b}); }
Value times(Graph& g, Value a, float b) { return op(g, "Mul", {a, number(g, b)}); }
Value over(Graph& g, Value a, float b) { return op(g, "Div", {a, number(g, b)}); }
Value plus(Graph& g, Value a, float b) { return op(g, "Add", {a, number(g, b)}); }
Value plus(Graph& g, Value a, Value b) { return op(g, "Add", {a, b}); }

constexpr float root = 1.41421356f, slope = 0.797884561f, cubic = 0.044715f;

Value to_six(Graph& g, Value x) { return op(g, "Clip", {x, number(g, 0), number(g, 6)}); }
Value erf_and_one(Graph& g, Value x) { return plus(g, op(g, "Erf", {over(g, x, root)}), 1); }
Value tanh_and_one(Graph& g, Value x) { return plus(g, op(g, "Tanh", {x}), 1); }
Value cube(Graph& g, Value x) { return op(g, "Pow", {x, number(g, 3)}); }

double gelu(double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) { return x * 0.5 * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }
double quick_gelu(double x) { return x / (1 + std::exp(-1.702 * x)); }
double hard_sigmoid(double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }
double hard_swish(double x) { return x * hard_sigmoid(x); }

const Formula formulas[] = {
    {"(x (1 + erf)) / 2", [](Graph& g, Value x) { return times(g, times(g, x, erf_and_one(g, x)), 0.5f); }, gelu},
    {"x ((1 + erf) / 2)", [](Graph& g, Value x) { return times(g, x, times(g, erf_and_one(g, x), 0.5f)); }, gelu},
    {"(x / 2) (1 + erf)", [](Graph& g, Value x) { return times(g, times(g, x, 0.5f), erf_and_one(g, x)); }, gelu},
    {"(1 + erf) (x / 2)", [](Graph& g, Value x) { return times(g, erf_and_one(g, x), times(g, x, 0.5f)); }, gelu},
    {"(x / 2) (1 + tanh(s (x + c x^3)))",
     [](Graph& g, Value x) {
       const Value inner = times(g, plus(g, x, times(g, cube(g, x), cubic)), slope);
       return times(g, times(g, x, 0.5f), tanh_and_one(g, inner));
     },
     gelu_tanh},
    {"x ((1 + tanh(s (x + c x^3))) / 2)",
     [](Graph& g, Value x) {
       const Value inner = times(g, plus(g, x, times(g, cube(g, x), cubic)), slope);
       return times(g, x, times(g, tanh_and_one(g, inner), 0.5f));
     },
     gelu_tanh},
    {"(x / 2) (1 + tanh((s x) (1 + c x x)))",
     [](Graph& g, Value x) {
       const Value inner = times(g, times(g, x, slope), plus(g, times(g, times(g, x, cubic), x), 1));
       return times(g, times(g, x, 0.5f), tanh_and_one(g, inner));
     },
     gelu_tanh},
    {"x sigmoid(1.702 x)", [](Graph& g, Value x) { return times(g, x, op(g, "Sigmoid", {times(g, x, 1.702f)})); },
     quick_gelu},
    {"x relu6(x + 3) / 6", [](Graph& g, Value x) { return over(g, times(g, x, to_six(g, plus(g, x, 3))), 6); },
     hard_swish},
    {"x (relu6(x + 3) / 6)", [](Graph& g, Value x) { return times(g, x, over(g, to_six(g, plus(g, x, 3)), 6)); },
     hard_swish},
    {"relu6(x + 3) / 6", [](Graph& g, Value x) { return over(g, to_six(g, plus(g, x, 3)), 6); }, hard_sigmoid},
};

TEST(Functions, AreTheLayersWhoeverWroteThem) {
  for (const Formula& formula : formulas) {
    SCOPED_TRACE(formula.name);
    Graph g;
    const Value x = g.input("x", {batch, 4, 5, 5});
    g.output(formula.of(g, g.add("layer", Conv2d({.in = 4, .out = 4, .kernel = 1, .groups = 4, .bias = false}), x)));
    Tensor ones({4, 1, 1, 1});
    std::ranges::fill(ones.values<float>(), 1.0f);
    g.nodes()[1].module->set_parameter("weight", ones);
    const std::vector<std::string> steps = fused(g);
    EXPECT_EQ(steps.size(), 1u) << steps.back();
    Tensor input = random_tensor({2, 4, 5, 5}, 3);
    for (float& value : input.values<float>()) value *= 4;
    Plan plan = g.compile({.batch = 2, .threads = 1});
    const Tensor y = plan.run({&input, 1})[0].clone();
    for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
      const double is = formula.is(static_cast<double>(input.values<float>()[i]));
      ASSERT_NEAR(y.values<float>()[i], is, 1e-6 + 1e-5 * std::abs(is)) << input.values<float>()[i];
    }
  }
}

/// In whatever order the axes are named.
TEST(Functions, AMeanOfBothSidesIsAPooling) {
  for (const std::vector<std::int64_t>& axes : {std::vector<std::int64_t>{2, 3}, {-1, -2}}) {
    Graph g;
    const Value x = g.input("x", {batch, 4, 5, 5});
    g.output(op(g, "ReduceMean", {x, integers(g, axes)}));
    EXPECT_TRUE(fused(g)[0].starts_with("adaptive_avg_pool2d")) << fused(g)[0];
    expect_same_unfused(g, 2, {random_tensor({2, 4, 5, 5}, 3)});
  }
}

/// Where something else is between, it stays what it is.
TEST(Functions, OfOtherNumbersAreNot) {
  Graph g;
  const Value x = g.input("x", {batch, 4, 5, 5});
  g.output(times(g, times(g, x, erf_and_one(g, x)), 0.25f));
  g.output(times(g, x, op(g, "Sigmoid", {times(g, x, 1.5f)})));
  g.output(over(g, to_six(g, plus(g, x, 2)), 6));
  expect_same_unfused(g, 1, {random_tensor({1, 4, 5, 5}, 4)});
}

}  // namespace
}  // namespace lamina::test::functions_test
