#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/file_test.h"

/// Values of which a run knows how many elements they have, for tests of what is made of them.
namespace lamina::test {

inline Tensor numbers(std::vector<float> values, Shape shape) { return Tensor::from(values, shape); }
inline Tensor whole(std::vector<std::int64_t> values, Shape shape) { return Tensor::from(values, shape); }

inline void expect_equal(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  ASSERT_EQ(got.dtype(), expected.dtype());
  const Tensor a = got.to(DType::f64), b = expected.to(DType::f64);
  for (std::size_t i = 0; i < b.values<double>().size(); ++i)
    EXPECT_EQ(a.values<double>()[i], b.values<double>()[i]) << i;
}

/// What a graph makes of the elements of x [6] that are above 0, of which a run knows how many there are.
struct Positives {
  Graph g;
  int nodes = 0;
  Value x = g.input("x", {6});
  Value kept = add("Compress", {x, add("Greater", {x, number(0.0F)})});

  Value constant(const Tensor& value) { return g.add("constant " + std::to_string(++nodes), Constant(value), {}); }
  Value number(float value) { return constant(numbers({value}, {1})); }
  Value list(std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return constant(whole(std::move(values), {count}));
  }
  Value add(const char* op, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(detail::concat(op, ' ', ++nodes), std::make_shared<Op>(op, std::move(attributes)), inputs);
  }
  /// Of two positive elements, of all and, where that is no error, of none, each after the other.
  void expect(Value output, const Tensor& two, const Tensor& all, const Tensor& none = {}) {
    g.output(output);
    for (const Device device : devices_here()) expect_on(device, two, all, none);
  }
  void expect_on(Device device, const Tensor& two, const Tensor& all, const Tensor& none) {
    SCOPED_TRACE(to_string(device));
    Plan plan = g.compile({.device = device});
    const Tensor xs[] = {numbers({-1, 5, -2, 3, 0, NAN}, {6}), numbers({6, 5, 4, 3, 2, 1}, {6}), Tensor::zeros({6})};
    for (const int i : {0, 1, 2, 0, 2, 1}) {
      const Tensor& expected = i == 0 ? two : i == 1 ? all : none;
      if (expected.defined()) expect_equal(plan.run({&xs[i], 1})[0], expected);
    }
  }
  std::string refusal(Value output, const CompileOptions& options = {}) {
    g.output(output);
    try {
      Plan plan = g.compile(options);
      const Tensor all = numbers({6, 5, 4, 3, 2, 1}, {6});
      (void)plan.run({&all, 1});
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  }
};

const Attribute flag_off = std::int64_t{0};

}  // namespace lamina::test
