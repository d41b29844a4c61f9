// CompileOptions::capacity: the most that a number may be of which sizes are made, or that a run may find.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "support/devices.h"

namespace lamina::capacity_test {
namespace {

/// Of an input n, i64 [1], that sizes are made of.
struct Sized {
  Graph g;
  Value n = g.input("n", {1}, DType::i64);

  Value constant(const Tensor& value) { return g.add(detail::concat("c", g.nodes().size()), Constant(value), {}); }
  Value number(std::int64_t value, Shape shape = {1}) { return constant(Tensor::from(std::vector{value}, shape)); }
  Value add(const std::string& op, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(detail::concat(op, g.nodes().size()), std::make_shared<Op>(op, std::move(attributes)), inputs);
  }

  /// "[2]: 0 1"
  static std::string text(const Tensor& result) {
    std::string found = detail::concat(result.shape(), ':');
    const Tensor wide = result.to(DType::f64);
    for (const double value : wide.values<double>()) found += detail::concat(' ', value);
    return found;
  }

  /// What a run gives for 3 where at most 4 may come, and that 9 is more.
  void expect(Value y, const std::string& wanted) {
    g.output(y);
    for (const Device device : test::devices_here()) expect_on(device, wanted);
  }
  void expect_on(Device device, const std::string& wanted) {
    SCOPED_TRACE(to_string(device));
    try {
      Plan plan = g.compile({.device = device, .threads = 1, .capacity = {{"n", 4}}});
      EXPECT_EQ(text(plan.run(Tensor::from(std::vector<std::int64_t>{3}, {1}))), wanted);
      try {
        (void)plan.run(Tensor::from(std::vector<std::int64_t>{9}, {1}));
        ADD_FAILURE() << wanted << ": no Error";
      } catch (const Error& error) {
        const std::string said = error.what();
        EXPECT_NE(said.find("along an axis where there is room for 4"), said.npos) << said;
      }
    } catch (const Error& error) {
      ADD_FAILURE() << wanted << ": " << error.what();
    }
  }
};

const std::vector<float> values = {1, 5, 2, 4, 3, 0};

TEST(Capacity, OfANumberThatSizesAreMadeOf) {
  const auto expect = [](const std::string& wanted, const std::function<Value(Sized&)>& make) {
    Sized s;
    s.expect(make(s), wanted);
  };
  const auto list = [](Sized& s) { return s.constant(Tensor::from(values, {6})); };
  const auto scalar = [](Sized& s) { return s.add("Squeeze", {s.n}); };
  expect("[3]: 0 1 2", [&](Sized& s) { return s.add("Range", {s.number(0, {}), scalar(s), s.number(1, {})}); });
  expect("[3]: 7 7 7", [&](Sized& s) { return s.add("ConstantOfShape", {s.n}, {{"value", std::vector<double>{7}}}); });
  expect("[3, 1]: 2 2 2", [&](Sized& s) {
    return s.add("Expand", {s.number(2, {1, 1}), s.add("Concat", {s.n, s.number(1)}, {{"axis", std::int64_t{0}}})});
  });
  expect("[6]: 8 9 8 9 8 9", [&](Sized& s) {
    return s.add("Tile", {s.constant(Tensor::from(std::vector<std::int64_t>{8, 9}, {2})), s.n});
  });
  expect("[3]: 0 0 1", [&](Sized& s) {  // counted from the end
    return s.add("OneHot", {s.number(-1, {}), scalar(s), s.constant(Tensor::from(std::vector<float>{0, 1}, {2}))});
  });
  expect("[3]: 1 5 2", [&](Sized& s) { return s.add("Slice", {list(s), s.number(0), s.n}); });
  expect("[3]: 5 4 3", [&](Sized& s) { return s.add("TopK", {list(s), s.n}); });
  expect("[6]: 0 0 0 1 1 1", [&](Sized& s) {
    const Value shape = s.add("Concat", {s.number(2), s.n}, {{"axis", std::int64_t{0}}});
    return s.add("Transpose",
                 {s.add("Squeeze", {s.add("Slice", {s.add("NonZero", {s.add("ConstantOfShape", {shape},
                                                                            {{"value", std::vector<double>{1}}})}),
                                                    s.number(0), s.number(1)})})});
  });
}

TEST(Capacity, GoesAlongArithmetic) {
  Sized s;
  const Value twice = s.add("Mul", {s.n, s.number(2)});
  s.g.output(s.add("ConstantOfShape", {twice}));
  Plan plan = s.g.compile({.capacity = {{"n", 4}}});
  EXPECT_EQ(plan.output_shapes()[0], Shape{8});
  EXPECT_EQ(Sized::text(plan.run(Tensor::from(std::vector<std::int64_t>{1}, {1}))), "[2]: 0 0");
  EXPECT_THROW((void)plan.run(Tensor::from(std::vector<std::int64_t>{-1}, {1})), Error);
}

TEST(Capacity, OfWhatARunFinds) {
  Graph g;
  const Value x = g.input("x", {100});
  const Value found = g.add("found", std::make_shared<Op>("NonZero"), {&x, 1});
  g.output(g.add("y", std::make_shared<Op>("Neg"), {&found, 1}));
  Plan plan = g.compile({.capacity = {{"found", 2}}});
  EXPECT_EQ(plan.output_shapes()[0], (Shape{1, 2}));
  std::vector<float> some(100, 0);
  some[7] = 1;
  EXPECT_EQ(Sized::text(plan.run(Tensor::from(some, {100}))), "[1, 1]: -7");
  some[9] = 1;
  EXPECT_EQ(Sized::text(plan.run(Tensor::from(some, {100}))), "[1, 2]: -7 -9");
  some[99] = 1;
  try {
    (void)plan.run(Tensor::from(some, {100}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "found (count 1): this run has 3 along an axis where there is room for 2");
  }
}

TEST(Capacity, WrongOnesAreRefused) {
  const auto refused = [](std::map<std::string, std::int64_t, std::less<>> capacity) {
    Sized s;
    s.g.output(s.add("ConstantOfShape", {s.n}));
    s.g.output(s.g.add("half", std::make_shared<Op>("Neg"), std::vector{s.g.input("x", {2})}));
    try {
      (void)s.g.compile({.capacity = std::move(capacity)});
      return std::string("no Error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused({}),
            "ConstantOfShape1: ConstantOfShape: operand 1 must be known when the network is compiled, and depends on "
            "input \"n\"; give its value as CompileOptions::constants; or the most that it may be, as "
            "CompileOptions::capacity");
  EXPECT_EQ(refused({{"n", 0}}), "CompileOptions::capacity of \"n\": expected 1 or more, got 0");
  EXPECT_EQ(refused({{"m", 3}}).substr(0, 51), "CompileOptions::capacity: the graph has no node \"m\"");
  EXPECT_EQ(refused({{"n", 3}, {"half", 3}}),
            "half: CompileOptions::capacity: expected whole numbers, or a value with a count, got f32 [2]");
  EXPECT_NE(refused({{"n", std::int64_t{1} << 62}}).find("too large"), std::string::npos);
}

}  // namespace
}  // namespace lamina::capacity_test
