// What goes along an axis of which a run knows how many there are.

#include "plan/positives.h"

namespace lamina::test::counts_along_test {
namespace {

TEST(CountsAlong, AreOperandsOfWhatGoesAlongThem) {
  const auto reduced = [](const char* op, float two, float all) {
    Positives p;
    p.expect(p.add(op, {p.kept}, {{"keepdims", flag_off}}), numbers({two}, {}), numbers({all}, {}));
  };
  reduced("ReduceSum", 8, 21);
  reduced("ReduceProd", 15, 720);
  reduced("ReduceMean", 4, 3.5F);
  reduced("ReduceMax", 5, 6);
  reduced("ReduceMin", 3, 1);
  {
    Positives p;
    p.expect(p.add("ArgMin", {p.kept}, {{"keepdims", flag_off}}), whole({1}, {}), whole({5}, {}));
  }
  {
    Positives p;  // the places of what was kept, as whole numbers
    const Value places = p.add("NonZero", {p.add("Greater", {p.x, p.number(0)})});
    p.expect(p.add("ReduceMax", {places}), whole({3}, {1, 1}), whole({5}, {1, 1}));
  }
  {
    Positives p;
    const Value shares = p.add("Softmax", {p.add("Mul", {p.kept, p.number(0)})});
    const float sixth = 1.0F / 6;
    p.expect(shares, numbers({0.5F, 0.5F}, {2}), numbers(std::vector<float>(6, sixth), {6}), numbers({}, {0}));
  }
  {
    Positives p;
    p.expect(p.add("Hardmax", {p.kept}), numbers({1, 0}, {2}), numbers({1, 0, 0, 0, 0, 0}, {6}), numbers({}, {0}));
  }
  {
    Positives p;
    const Value logarithms = p.add("LogSoftmax", {p.add("Mul", {p.kept, p.number(0)})});
    p.expect(p.add("Round", {p.add("Mul", {logarithms, p.number(100)})}), numbers({-69, -69}, {2}),
             numbers(std::vector<float>(6, -179), {6}), numbers({}, {0}));
  }
  {
    Positives p;
    p.expect(p.add("CumSum", {p.kept, p.list({0})}), numbers({5, 8}, {2}), numbers({6, 11, 15, 18, 20, 21}, {6}));
  }
}

TEST(CountsAlong, AnAxisThatReshapeKeepsStaysThatAxis) {
  const auto rows = [](Positives& p, std::size_t count) {
    const Value row = p.add("Unsqueeze", {p.kept, p.list({0})});
    return p.add("Concat", std::vector<Value>(count, row), {{"axis", flag_off}});
  };
  {
    Positives p;
    p.expect(p.add("Reshape", {rows(p, 4), p.list({4, 0, 1})}), numbers({5, 3, 5, 3, 5, 3, 5, 3}, {4, 2, 1}), {});
  }
  Positives p;
  const Value turned = p.add("Reshape", {rows(p, 12), p.list({2, 0, -1})});  // [2, 6, 6], where all are there
  EXPECT_NE(p.refusal(turned).find("would be another axis"), std::string::npos);
}

TEST(CountsAlong, OfTwoAxesOfNothingEachHasItsOwn) {
  Positives p;
  const Value one = p.add("Less", {p.add("Slice", {p.x, p.list({0}), p.list({1})}), p.number(100)});
  const Value columns = p.add("Compress", {p.constant(Tensor::zeros({0, 1, 6})), p.add("Greater", {p.x, p.number(0)})},
                              {{"axis", std::int64_t{2}}});
  p.expect(p.add("Compress", {columns, one}, {{"axis", std::int64_t{1}}}), Tensor::zeros({0, 1, 2}),
           Tensor::zeros({0, 1, 6}), Tensor::zeros({0, 1, 0}));
}

TEST(CountsAlong, AreWhatTopKAndPartsAreTakenOf) {
  {
    Positives p;  // as many of the smallest as there are, 3 at most
    const Value most =
        p.add("ReduceMin", {p.add("Concat", {p.list({3}), p.add("Shape", {p.kept})}, {{"axis", flag_off}})});
    p.expect(p.add("TopK", {p.kept, most}, {{"largest", flag_off}}), numbers({3, 5}, {2}), numbers({1, 2, 3}, {3}),
             numbers({}, {0}));
  }
  {
    Positives p;  // across the axis that has the count
    const Value rows =
        p.add("Concat",
              {p.add("Unsqueeze", {p.kept, p.list({0})}), p.add("Unsqueeze", {p.add("Neg", {p.kept}), p.list({0})})},
              {{"axis", flag_off}});
    p.expect(p.add("TopK", {rows, p.list({1})}, {{"axis", flag_off}}), numbers({5, 3}, {1, 2}),
             numbers({6, 5, 4, 3, 2, 1}, {1, 6}), numbers({}, {1, 0}));
  }
  {
    Positives p;
    const Value places = p.add("TopK", {p.kept, p.list({2})}, {{"output", std::int64_t{1}}});
    p.expect(places, whole({0, 1}, {2}), whole({0, 1}, {2}));
  }
  {
    Positives p;
    p.expect(p.add("Slice", {p.kept, p.list({1}), p.list({4})}), numbers({3}, {1}), numbers({5, 4, 3}, {3}),
             numbers({}, {0}));
  }
  {
    Positives p;
    p.expect(p.add("Slice", {p.kept, p.list({0}), p.list({-1})}), numbers({5}, {1}), numbers({6, 5, 4, 3, 2}, {5}));
  }
  {
    Positives p;
    p.expect(p.add("Gather", {p.kept, p.list({-1, 0})}), numbers({3, 5}, {2}), numbers({1, 6}, {2}));
  }
  Positives p;
  p.g.output(p.add("Gather", {p.kept, p.list({2})}));
  Plan plan = p.g.compile();
  const Tensor two = numbers({-1, 5, -2, 3, 0, 0}, {6});
  expect_error([&] { (void)plan.run({&two, 1}); }, {"index 6"});
}

TEST(CountsAlong, StandBesideEachOther) {
  Positives p;
  const Value low = p.add("Compress", {p.x, p.add("Less", {p.x, p.number(3.5F)})});
  p.expect(p.add("Concat", {p.kept, p.number(7), low}, {{"axis", flag_off}}), numbers({5, 3, 7, -1, -2, 3, 0}, {7}),
           numbers({6, 5, 4, 3, 2, 1, 7, 3, 2, 1}, {10}), numbers({7, 0, 0, 0, 0, 0, 0}, {7}));
}

TEST(CountsAlong, AreShapes) {
  {
    Positives p;
    const Value shape = p.add("Concat", {p.add("Shape", {p.kept}), p.list({2})}, {{"axis", flag_off}});
    const Value ones = p.add("Expand", {p.number(1), shape});  // [count, 2]
    const Value row = p.add("Reshape", {ones, p.add("Mul", {p.add("Shape", {p.kept}), p.list({2})})});
    p.expect(row, numbers({1, 1, 1, 1}, {4}), numbers(std::vector<float>(12, 1), {12}), numbers({}, {0}));
  }
  {
    Positives p;
    const Value count = p.add("Size", {p.kept}), zero = p.constant(whole({0}, {})), one = p.constant(whole({1}, {}));
    p.expect(p.add("Range", {zero, count, one}), whole({0, 1}, {2}), whole({0, 1, 2, 3, 4, 5}, {6}), whole({}, {0}));
  }
  Positives p;  // what is known of a shape stays so
  const Value places = p.add("NonZero", {p.x});
  const Value first = p.add("Gather", {p.add("Shape", {places}), p.list({0})});
  p.g.output(p.add("Expand", {p.number(1), first}));
  EXPECT_EQ(p.g.compile().output_shapes()[0], Shape{1});
}

TEST(CountsAlong, LeaveOutWhatIsBehindThem) {
  const auto scattered = [](const char* op, bool rows) {
    Positives p;
    Value places = p.add("NonZero", {p.add("Greater", {p.x, p.number(0)})});
    places =
        p.add("Reshape", {places, p.list(rows ? std::vector<std::int64_t>{-1, 1} : std::vector<std::int64_t>{-1})});
    const Value data = p.constant(numbers({9, 9, 9, 9, 9, 9}, {6}));
    p.expect(p.add(op, {data, places, p.kept}), numbers({9, 5, 9, 3, 9, 9}, {6}), numbers({6, 5, 4, 3, 2, 1}, {6}),
             numbers({9, 9, 9, 9, 9, 9}, {6}));
  };
  scattered("ScatterElements", false);
  scattered("ScatterND", true);
}

/// An index for each element, the same all along a row, as PyTorch's exporter writes it; of as many as there are, or of
/// all, the largest first.
TEST(CountsAlong, RowsAreScatteredByOneIndexEach) {
  for (const bool counted : {true, false}) {
    Positives p;
    const auto in_rows = [&](Value list) {
      return p.add("Expand", {p.add("Reshape", {list, p.list({-1, 1})}), p.list({1, 2})});
    };
    const Value places =
        counted ? p.add("Reshape", {p.add("NonZero", {p.add("Greater", {p.x, p.number(0)})}), p.list({-1})})
                : p.add("TopK", {p.add("Abs", {p.x}), p.list({6})}, {{"output", std::int64_t{1}}});
    const Value index = in_rows(places), updates = in_rows(counted ? p.kept : p.x);
    const Value data = p.constant(Tensor::from(std::vector<float>(12, 9), {6, 2}));
    const Value result =
        p.add("ScatterElements", {data, index, p.add("Mul", {updates, p.constant(numbers({1, 10}, {2}))})});
    const Tensor all = numbers({6, 60, 5, 50, 4, 40, 3, 30, 2, 20, 1, 10}, {6, 2});
    if (counted) {
      p.expect(result, numbers({9, 9, 5, 50, 9, 9, 3, 30, 9, 9, 9, 9}, {6, 2}), all,
               Tensor::from(std::vector<float>(12, 9), {6, 2}));
    } else {
      p.expect(result, {}, all);
    }
  }
}

TEST(CountsAlong, OfWhatIsThereOnceOrMore) {
  const auto expect = [](std::int64_t sorted, std::int64_t output, const Tensor& expected) {
    Positives p;
    const Value halves = p.add("Floor", {p.add("Mul", {p.add("Abs", {p.x}), p.number(0.5F)})});
    p.expect(p.add("Unique", {halves}, {{"sorted", sorted}, {"output", output}}), {}, expected);
  };  // of 3 2 2 1 1 0
  expect(1, 0, numbers({0, 1, 2, 3}, {4}));
  expect(1, 1, whole({5, 3, 1, 0}, {4}));
  expect(1, 2, whole({3, 2, 2, 1, 1, 0}, {6}));
  expect(1, 3, whole({1, 2, 2, 1}, {4}));
  expect(0, 0, numbers({3, 2, 1, 0}, {4}));
  expect(0, 1, whole({0, 1, 3, 5}, {4}));
  expect(0, 2, whole({0, 1, 1, 2, 2, 3}, {6}));
  expect(0, 3, whole({1, 2, 2, 1}, {4}));
}

TEST(CountsAlong, OfTheBranchThatARunTakes) {
  Positives p;
  const Value none = p.add("Equal", {p.add("Size", {p.kept}), p.constant(whole({0}, {}))});
  p.expect(p.add("If", {none, p.constant(numbers({-1, -2, -3}, {3})), p.kept}), numbers({5, 3}, {2}),
           numbers({6, 5, 4, 3, 2, 1}, {6}), numbers({-1, -2, -3}, {3}));
  Positives other;
  const Value condition = other.add("Greater", {other.add("Size", {other.kept}), other.constant(whole({0}, {}))});
  const std::string said = other.refusal(other.add("If", {condition, other.kept, other.add("NonZero", {other.x})}));
  EXPECT_NE(said.find("If: expected branches of one rank and type, got f32 [6] and i64 [1, 6]"), said.npos) << said;
}

}  // namespace
}  // namespace lamina::test::counts_along_test
