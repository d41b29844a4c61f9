// Elements from places that a run computes, and what else is made of values with counts.

#include <limits>

#include "plan/positives.h"

namespace lamina::test::counts_places_test {
namespace {

/// 0, 1, ... 6 as [7].
Tensor ramp() { return numbers({0, 1, 2, 3, 4, 5, 6}, {7}); }

TEST(CountsPlaces, PartsBeginAndEndWhereARunSays) {
  {
    Positives p;
    const Value count = p.add("Shape", {p.kept});
    p.expect(p.add("Slice", {p.constant(ramp()), count, p.list({7})}), numbers({2, 3, 4, 5, 6}, {5}), numbers({6}, {1}),
             ramp());
  }
  {
    Positives p;  // the last ones, as many as there are
    const Value from_back = p.add("Neg", {p.add("Shape", {p.kept})});
    p.expect(p.add("Slice", {p.constant(ramp()), from_back, p.list({100})}), numbers({5, 6}, {2}),
             numbers({1, 2, 3, 4, 5, 6}, {6}));
  }
  const auto part = [](std::int64_t start, std::int64_t end, std::int64_t step, const Tensor& two, const Tensor& all) {
    SCOPED_TRACE(testing::Message() << start << ' ' << end << ' ' << step);
    Positives p;
    p.expect(p.add("Slice", {p.kept, p.list({start}), p.list({end}), p.list({0}), p.list({step})}), two, all,
             numbers({}, {0}));
  };
  part(-1, -100, -1, numbers({3, 5}, {2}), numbers({1, 2, 3, 4, 5, 6}, {6}));
  part(-1, -100, -2, numbers({3}, {1}), numbers({1, 3, 5}, {3}));
  part(-3, 100, 1, numbers({5, 3}, {2}), numbers({3, 2, 1}, {3}));
  part(1, 100, 2, numbers({3}, {1}), numbers({5, 3, 1}, {3}));
  part(4, 0, -1, numbers({3}, {1}), numbers({2, 3, 4, 5}, {4}));
  part(100, 101, 1, numbers({}, {0}), numbers({}, {0}));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  part(-most - 1, most, 1, numbers({5, 3}, {2}), numbers({6, 5, 4, 3, 2, 1}, {6}));
  part(most, -most - 1, -1, numbers({3, 5}, {2}), numbers({1, 2, 3, 4, 5, 6}, {6}));
  part(most, most, most, numbers({}, {0}), numbers({}, {0}));
  part(0, -most - 1, 1, numbers({}, {0}), numbers({}, {0}));
  part(1, most, most, numbers({3}, {1}), numbers({5}, {1}));
}

TEST(CountsPlaces, OfNothingNoOtherAxisIsTakenForTheOneWithTheCount) {
  Positives p;
  const Value pairs = p.add("Mul", {p.add("Unsqueeze", {p.kept, p.list({1})}), p.constant(numbers({1, 1}, {1, 2}))});
  const Value two = p.add("Slice", {pairs, p.list({0}), p.list({2})});  // [2, 2] at most
  p.expect(p.add("Slice", {two, p.list({1}), p.list({1}), p.list({1})}), Tensor::zeros({2, 0}), Tensor::zeros({2, 0}),
           Tensor::zeros({0, 0}));
}

TEST(CountsPlaces, PartsThatARunMakesAreAllThereIs) {
  const auto half = [](std::int64_t output) {
    Positives p;
    const Value count = p.add("Shape", {p.kept}), rest = p.add("Sub", {p.list({7}), count});
    const Value sizes = p.add("Concat", {count, rest}, {{"axis", flag_off}});
    const bool first = output == 0;
    p.expect(p.add("Split", {p.constant(ramp()), sizes}, {{"output", output}}),
             first ? numbers({0, 1}, {2}) : numbers({2, 3, 4, 5, 6}, {5}),
             first ? numbers({0, 1, 2, 3, 4, 5}, {6}) : numbers({6}, {1}), first ? numbers({}, {0}) : ramp());
  };
  half(0);
  half(1);
  Positives p;
  const Value count = p.add("Shape", {p.kept});
  const Value sizes = p.add("Concat", {count, count}, {{"axis", flag_off}});  // 12 of 7
  EXPECT_NE(p.refusal(p.add("Split", {p.constant(ramp()), sizes}, {{"output", flag_off}})), "nothing");
}

TEST(CountsPlaces, PaddedToWhatIsFixedThereIsNoCount) {
  Positives p;
  const Value missing = p.add("Sub", {p.list({6}), p.add("Shape", {p.kept})});
  const Value pads = p.add("Concat", {p.list({0}), missing}, {{"axis", flag_off}});
  const Value padded = p.add("Pad", {p.kept, pads, p.number(9)});
  p.expect(p.add("Reshape", {padded, p.list({2, 3})}), numbers({5, 3, 9, 9, 9, 9}, {2, 3}),
           numbers({6, 5, 4, 3, 2, 1}, {2, 3}), numbers({9, 9, 9, 9, 9, 9}, {2, 3}));
}

TEST(CountsPlaces, PaddedByAsManyAsARunFinds) {
  const auto padded = [](const char* mode, const Tensor& two, const Tensor& all) {
    SCOPED_TRACE(mode);
    Positives p;
    const Value count = p.add("Shape", {p.kept});
    const Value pads = p.add("Concat", {count, p.list({-1})}, {{"axis", flag_off}});  // of 0 to 6 without the last
    p.expect(p.add("Pad", {p.constant(ramp()), pads}, {{"mode", mode}}), two, all, numbers({0, 1, 2, 3, 4, 5}, {6}));
  };
  padded("constant", numbers({0, 0, 0, 1, 2, 3, 4, 5}, {8}), numbers({0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, {12}));
  padded("edge", numbers({0, 0, 0, 1, 2, 3, 4, 5}, {8}), numbers({0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, {12}));
  padded("wrap", numbers({4, 5, 0, 1, 2, 3, 4, 5}, {8}), numbers({0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, {12}));
  Positives far;
  const Value pads = far.list({0, std::numeric_limits<std::int64_t>::max()});
  EXPECT_NE(far.refusal(far.add("Pad", {far.kept, pads})).find("cannot pad an axis of 6"), std::string::npos);
  padded("reflect", numbers({2, 1, 0, 1, 2, 3, 4, 5}, {8}), numbers({4, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5}, {12}));
}

TEST(CountsPlaces, ResizedToASizeThatARunMakes) {
  const auto resized = [](const char* mode, const char* transformation, const Tensor& two, const Tensor& all) {
    SCOPED_TRACE(testing::Message() << mode << ' ' << transformation);
    Positives p;
    const Value x = p.constant(numbers({0, 4, 8}, {1, 3})), none = Value();
    const Value sizes = p.add("Concat", {p.list({1}), p.add("Shape", {p.kept})}, {{"axis", flag_off}});
    p.expect(
        p.add("Resize", {x, none, none, sizes}, {{"mode", mode}, {"coordinate_transformation_mode", transformation}}),
        two, all, Tensor::zeros({1, 0}));
  };
  resized("linear", "half_pixel", numbers({1, 7}, {1, 2}), numbers({0, 1, 3, 5, 7, 8}, {1, 6}));
  resized("linear", "align_corners", numbers({0, 8}, {1, 2}), {});
  resized("nearest", "asymmetric", numbers({0, 4}, {1, 2}), numbers({0, 0, 4, 4, 8, 8}, {1, 6}));
  Positives p;  // twice what there is
  const Value row = p.add("Unsqueeze", {p.kept, p.list({0})});
  p.expect(p.add("Resize", {row, Value(), p.constant(numbers({1, 2}, {2}))}, {{"mode", "nearest"}}),
           numbers({5, 5, 3, 3}, {1, 4}), numbers({6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1}, {1, 12}),
           Tensor::zeros({1, 0}));
}

TEST(CountsPlaces, SizesAreNotRoundedToTheValuesOfAPlan) {
  Positives p;
  const Value count = p.add("Cast", {p.add("Shape", {p.kept})}, {{"to", std::int64_t{1}}});
  const Value size = p.add("Cast", {p.add("Mul", {count, p.number(128.5F)})}, {{"to", std::int64_t{7}}});
  p.g.output(p.add("ConstantOfShape", {size}));
  const Tensor two = numbers({-1, 5, -2, 3, 0, 0}, {6});
  for (const Device device : devices_here())
    EXPECT_EQ(p.g.compile({.device = device, .precision = Precision::bf16}).run({&two, 1})[0].shape(), Shape{257});
}

TEST(CountsPlaces, TermsOfAProductAreThoseThatAreThere) {
  {
    Positives p;
    p.expect(p.add("MatMul", {p.kept, p.kept}), numbers({34}, {}), numbers({91}, {}), numbers({0}, {}));
  }
  Positives p;  // with others, of which there must be as many
  const Value two = p.add("Compress", {p.x, p.add("Greater", {p.x, p.number(2.5F)})});
  p.expect(p.add("MatMul", {p.kept, two}), numbers({34}, {}), {}, numbers({0}, {}));
  const Tensor all = numbers({6, 5, 4, 3, 2, 1}, {6});
  Plan plan = p.g.compile();
  expect_error([&] { (void)plan.run({&all, 1}); }, {"6", "4"});
}

TEST(CountsPlaces, StepsOfARecurrentLayerAreThoseThatAreThere) {
  const auto last = [](const char* direction, float two) {
    SCOPED_TRACE(direction);
    Positives p;  // h = relu(x + h): a sum
    const Value x = p.add("Reshape", {p.kept, p.list({-1, 1, 1})}), one = p.constant(numbers({1}, {1, 1, 1}));
    p.expect(p.add("RNN", {x, one, one},
                   {{"hidden_size", std::int64_t{1}}, {"activations", "Relu"}, {"direction", direction}}),
             {},
             numbers(two == 8 ? std::vector<float>{6, 11, 15, 18, 20, 21} : std::vector<float>{21, 15, 10, 6, 3, 1},
                     {6, 1, 1, 1}));
    Positives q;
    const Value y = q.add("Reshape", {q.kept, q.list({-1, 1, 1})}), factor = q.constant(numbers({1}, {1, 1, 1}));
    q.expect(q.add("RNN", {y, factor, factor},
                   {{"hidden_size", std::int64_t{1}},
                    {"activations", "Relu"},
                    {"direction", direction},
                    {"output", std::int64_t{1}}}),
             numbers({8}, {1, 1, 1}), numbers({21}, {1, 1, 1}), numbers({0}, {1, 1, 1}));
  };
  last("forward", 8);
  last("reverse", 3);
}

TEST(CountsPlaces, ImagesOfARecurrentLayerAreThoseThatAreThere) {
  Positives p;  // one step of relu(x + 2 h), where h is 1 for each
  const Value x = p.add("Reshape", {p.kept, p.list({1, -1, 1})}), h = p.add("Sign", {x});
  const Value one = p.constant(numbers({1}, {1, 1, 1})), two = p.constant(numbers({2}, {1, 1, 1}));
  p.expect(p.add("RNN", {x, one, two, Value(), Value(), h},
                 {{"hidden_size", std::int64_t{1}}, {"activations", "Relu"}, {"output", std::int64_t{1}}}),
           numbers({7, 5}, {1, 2, 1}), numbers({8, 7, 6, 5, 4, 3}, {1, 6, 1}), Tensor::zeros({1, 0, 1}));
}

TEST(CountsPlaces, RowsInFrontOfANormAreCarried) {
  Positives p;
  const Value rows = p.add("Mul", {p.add("Unsqueeze", {p.kept, p.list({1})}), p.constant(numbers({-1, 1}, {1, 2}))});
  p.expect(p.add("LayerNormalization", {rows, p.constant(numbers({1, 1}, {2}))}, {{"epsilon", 0.0}}),
           numbers({-1, 1, -1, 1}, {2, 2}), numbers({-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1}, {6, 2}),
           Tensor::zeros({0, 2}));
}

TEST(CountsPlaces, TrianglesHaveThoseOfTheirMatrices) {
  Positives p;
  const Value count = p.add("Shape", {p.kept}), sizes = p.add("Concat", {count, count}, {{"axis", flag_off}});
  const Value ones = p.add("Expand", {p.number(1), sizes});
  const Value upper = p.add("Trilu", {ones}), unit = p.add("EyeLike", {ones});
  p.expect(p.add("Sub", {upper, unit}), numbers({0, 1, 0, 0}, {2, 2}), {}, Tensor::zeros({0, 0}));
}

}  // namespace
}  // namespace lamina::test::counts_places_test
