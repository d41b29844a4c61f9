// Outputs of which a run decides how many elements they have.

#include <cmath>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "support/allocations.h"
#include "support/devices.h"
#include "support/file_test.h"

namespace lamina::counts_test {
namespace {

Tensor numbers(std::vector<float> values, Shape shape) { return Tensor::from(values, shape); }
Tensor whole(std::vector<std::int64_t> values, Shape shape) { return Tensor::from(values, shape); }

void expect_equal(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  ASSERT_EQ(got.dtype(), expected.dtype());
  const Tensor a = got.to(DType::f64), b = expected.to(DType::f64);
  for (std::size_t i = 0; i < b.values<double>().size(); ++i)
    EXPECT_EQ(a.values<double>()[i], b.values<double>()[i]) << i;
}

/// The places of what is not 0 in x [2, 3], and twice the elements there.
Graph places_and_elements() {
  Graph g;
  const Value x = g.input("x", {2, 3});
  const Value places = g.add("places", Op("NonZero"), {x});
  const Value rows = g.add("rows", Op("Transpose"), {places});
  const Value there = g.add("there", Op("GatherND"), {x, rows});
  g.output(places);
  g.output(g.add("twice", Op("Add"), {there, there}));
  return g;
}

void expect_none_some_and_all(Device device) {
  SCOPED_TRACE(to_string(device));
  const Graph graph = places_and_elements();
  Plan plan = graph.compile({.device = device});
  EXPECT_TRUE(plan.counted());
  EXPECT_FALSE(plan.batched());
  EXPECT_EQ(plan.output_shapes()[0], (Shape{2, 6}));  // the capacity
  const Tensor some = numbers({0, 2, 0, NAN, 0, -3}, {2, 3}), all = numbers({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor none = Tensor::zeros({2, 3}, DType::f32);
  for (int again = 0; again < 3; ++again) {  // after runs that found more, and fewer
    std::span<const Tensor> got = plan.run({&some, 1});
    expect_equal(got[0], whole({0, 1, 1, 1, 0, 2}, {2, 3}));
    ASSERT_EQ(got[1].shape(), (Shape{3}));
    EXPECT_EQ(got[1].values<float>()[0], 4);
    EXPECT_TRUE(std::isnan(got[1].values<float>()[1]));
    EXPECT_EQ(got[1].values<float>()[2], -6);
    got = plan.run({&none, 1});
    EXPECT_EQ(got[0].shape(), (Shape{2, 0}));
    EXPECT_EQ(got[1].shape(), (Shape{0}));
    got = plan.run({&all, 1});
    expect_equal(got[0], whole({0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}, {2, 6}));
    expect_equal(got[1], numbers({2, 4, 6, 8, 10, 12}, {6}));
  }
  expect_equal(plan.output("twice"), numbers({2, 4, 6, 8, 10, 12}, {6}));
}

TEST(Counts, NoneSomeAndAll) {
  for (const Device device : test::devices_here()) expect_none_some_and_all(device);
}

TEST(Counts, RunIntoIsToldToRun) {
  Plan plan = places_and_elements().compile();
  const Tensor x = numbers({1, 2, 3, 4, 5, 6}, {2, 3});
  std::vector<Tensor> outputs = {Tensor({2, 6}, DType::i64), Tensor({6}, DType::f32)};
  test::expect_error([&] { plan.run_into({&x, 1}, outputs); }, {"places", "expected run, got run_into"});
}

TEST(Counts, WhatDoesNotCarryOneIsRefusedByOpAndAxis) {
  const auto refused = [](const Op& op, std::vector<std::string> words) {
    Graph g;
    const Value x = g.input("x", {2, 3});
    const Value found = g.add("found", Op("Cast", {{"to", std::int64_t{1}}}), {g.add("places", Op("NonZero"), {x})});
    g.output(g.add("last", op, {found}));
    words.push_back("last: ");
    words.push_back("axis 1 of operand 1 [2, 6] has a count");
    test::expect_error([&] { (void)g.compile(); }, words);
  };
  refused(Op("Roll", {{"shifts", std::vector<std::int64_t>{1}}, {"dims", std::vector<std::int64_t>{1}}}), {"Roll"});
  refused(Op("Flatten", {{"axis", std::int64_t{0}}}), {"reshape"});
}

TEST(Counts, ThatMeetMustAgree) {
  Graph g;
  const Value x = g.input("x", {4}), y = g.input("y", {4});
  const auto places = [&](const char* name, Value of) { return g.add(name, Op("NonZero"), {of}); };
  g.output(g.add("sum", Op("Add"), {places("a", x), places("b", y)}));
  Plan plan = g.compile();
  const Tensor two = numbers({1, 0, 0, 1}, {4}), other = numbers({0, 1, 1, 0}, {4}), three = numbers({1, 1, 1, 0}, {4});
  const std::vector<Tensor> fits = {two, other}, differ = {two, three};
  expect_equal(plan.run(fits)[0], whole({1, 5}, {1, 2}));
  test::expect_error([&] { (void)plan.run(differ); }, {"this run has 3 along an axis where it must have 2"});
  expect_equal(plan.run(fits)[0], whole({1, 5}, {1, 2}));
}

TEST(Counts, BoxesThatStay) {
  Graph g;
  const Value boxes = g.input("boxes", {1, 4, 4}), scores = g.input("scores", {1, 1, 4});
  const auto constant = [&](const char* name, const Tensor& value) { return g.add(name, Constant(value), {}); };
  const Value most = constant("most", whole({3}, {1})), overlap = constant("overlap", numbers({0.5F}, {1}));
  g.output(g.add("kept", Op("NonMaxSuppression"), {boxes, scores, most, overlap}));
  Plan plan = g.compile();
  const Tensor at = numbers({0, 0, 1, 1, 0, 0.1F, 1, 1.1F, 0, 2, 1, 3, 3, 3, 2, 2}, {1, 4, 4});
  const auto kept = [&](std::vector<float> of) {
    const std::vector<Tensor> inputs = {at, numbers(std::move(of), {1, 1, 4})};
    return plan.run(inputs)[0].clone();
  };
  expect_equal(kept({0.5F, 0.9F, 0.1F, 0.2F}), whole({0, 0, 1, 0, 0, 3, 0, 0, 2}, {3, 3}));
  expect_equal(kept({NAN, NAN, NAN, NAN}), Tensor({0, 3}, DType::i64));  // no score is none
  expect_equal(kept({0.5F, NAN, NAN, 0.2F}), whole({0, 0, 0, 0, 0, 3}, {2, 3}));
}

TEST(Counts, RunsAllocateNothing) {
  Plan plan = places_and_elements().compile({.threads = 1});
  const Tensor x = numbers({0, 2, 0, 1, 0, -3}, {2, 3});
  for (int i = 0; i < 10; ++i) (void)plan.run({&x, 1});
  const long before = test::allocations();
  for (int i = 0; i < 100; ++i) (void)plan.run({&x, 1});
  EXPECT_LE(test::allocations(), before + 1);
}

}  // namespace
}  // namespace lamina::counts_test
