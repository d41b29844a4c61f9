// Attributes as text: in summaries, in errors.

#include "lamina/module/attributes.h"

#include <gtest/gtest.h>

#include "lamina/graph/graph.h"
#include "lamina/layers/elementwise.h"
#include "support/german.h"

namespace lamina::attributes_test {
namespace {

const Attributes attributes = {{"size", std::int64_t{1234567}},
                               {"scale", 0.5},
                               {"flag", true},
                               {"name", std::string("cubic")},
                               {"kernel", std::vector<std::int64_t>{1024, 3}},
                               {"scales", std::vector<double>{1.5, 2000}}};

TEST(Attributes, AreWrittenAlikeInEveryLocale) {
  const char* const expected = "size=1234567, scale=0.5, flag=true, name=cubic, kernel=[1024, 3], scales=[1.5, 2000]";
  EXPECT_EQ(to_string(attributes), expected);
  const test::GermanNumbers german;
  EXPECT_EQ(to_string(attributes), expected);
}

TEST(Attributes, ASummaryIsWrittenAlikeInEveryLocale) {
  Graph graph;
  graph.output(graph.add("relu", ReLU(), graph.input("input", {batch, 3000})));
  const Plan plan = graph.compile({.batch = 1234, .threads = 1});
  const std::string expected = plan.summary();
  EXPECT_NE(expected.find("batch 1234"), std::string::npos);
  const test::GermanNumbers german;
  EXPECT_EQ(plan.summary(), expected);
}

}  // namespace
}  // namespace lamina::attributes_test
