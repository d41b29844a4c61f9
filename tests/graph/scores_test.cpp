// What the numbers of an output are, and what becomes of them.

#include "lamina/graph/scores.h"

#include <cmath>

#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test::scores_test {
namespace {

Graph ending_in(std::initializer_list<const char*> ops) {
  Graph graph;
  Value x = graph.input("x", {batch, 3});
  for (const char* op : ops) {
    std::vector<Value> inputs = {x};
    if (std::string_view(op) == "Reshape") {
      inputs.push_back(
          graph.add("shape", std::make_shared<Constant>(Tensor::from(std::vector<std::int64_t>{-1, 3}, {2})), {}));
    }
    x = graph.add(op, std::make_shared<Op>(op), inputs);
  }
  graph.output(x);
  return graph;
}

TEST(Scores, AreWhatTheLastOpThatMeansSomethingMakes) {
  EXPECT_EQ(scores_of(ending_in({})), Scores::logits);
  EXPECT_EQ(scores_of(ending_in({"Sigmoid", "Relu"})), Scores::logits);
  EXPECT_EQ(scores_of(ending_in({"LogSoftmax"})), Scores::logits);  // a softmax of it is that of the logits
  EXPECT_EQ(scores_of(ending_in({"Softmax"})), Scores::probabilities);
  EXPECT_EQ(scores_of(ending_in({"Softmax", "Reshape", "Identity"})), Scores::probabilities);
  EXPECT_EQ(scores_of(ending_in({"Sigmoid"})), Scores::independent);
  EXPECT_EQ(scores_of(ending_in({"Sigmoid", "Squeeze", "Flatten"})), Scores::independent);
  EXPECT_EQ(scores_of(ending_in({"HardSigmoid"})), Scores::independent);
}

TEST(Scores, BecomeProbabilitiesOnce) {
  const auto expect = [](std::vector<float> given, Scores scores, std::vector<float> wanted, bool probabilities) {
    const auto numbers = static_cast<std::int64_t>(given.size());
    const Tensor found = class_scores(Tensor::from(given, {1, numbers}), scores);
    EXPECT_EQ(are_probabilities(scores, numbers), probabilities);
    ASSERT_EQ(found.shape(), (Shape{1, static_cast<std::int64_t>(wanted.size())}));
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found.values<float>()[i], wanted[i], 1e-6) << i;
  };
  expect({0, std::log(3.0f)}, Scores::logits, {0.25f, 0.75f}, true);
  expect({0.25f, 0.75f}, Scores::probabilities, {0.25f, 0.75f}, true);
  expect({1, 1, 0}, Scores::independent, {1, 1, 0}, true);
  expect({0.25f}, Scores::independent, {0.75f, 0.25f}, true);  // of the sigmoid's class, and of the other
  expect({2.5f}, Scores::logits, {2.5f}, false);               // a softmax would say 1 whatever it is
  expect_error([] { (void)class_scores(Tensor({3}), Scores::logits); }, {"expected scores f32 [N, classes]", "[3]"});
}

}  // namespace
}  // namespace lamina::test::scores_test
