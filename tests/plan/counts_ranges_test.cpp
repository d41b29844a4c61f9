// What numbers that runs make may be, and what runs must refuse of them.

#include <limits>

#include "plan/positives.h"

namespace lamina::test::counts_ranges_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// 0, 1, ... 6 as [7].
Tensor ramp() { return numbers({0, 1, 2, 3, 4, 5, 6}, {7}); }
Tensor two_positive() { return numbers({-1, 5, -2, 3, 0, NAN}, {6}); }

/// What a run of that input throws, on every device.
void expect_fault(Positives& p, Value output, const Tensor& x, const std::vector<std::string>& words) {
  p.g.output(output);
  for (const Device device : devices_here()) {
    SCOPED_TRACE(to_string(device));
    Plan plan = p.g.compile({.device = device});
    expect_error([&] { (void)plan.run({&x, 1}); }, words);
  }
}

TEST(CountsRanges, NothingIsRepeated) {
  for (const char* mode : {"edge", "wrap", "reflect"}) {
    SCOPED_TRACE(mode);
    Positives p;
    expect_fault(p, p.add("Pad", {p.kept, p.list({1, 2})}, {{"mode", mode}}), Tensor::zeros({6}), {"0", "3"});
    Positives q;  // by as many as there are: of nothing, nothing
    const Value count = q.add("Shape", {q.kept}), pads = q.add("Concat", {count, count}, {{"axis", flag_off}});
    q.expect(q.add("Pad", {q.kept, pads}, {{"mode", mode}}), {}, {}, numbers({}, {0}));
    Positives r;  // what was cut off is not there to be repeated
    const Value all = r.add("Neg", {r.add("Shape", {r.kept})});
    const Value cut = r.add("Concat", {all, r.list({3})}, {{"axis", flag_off}});
    expect_fault(r, r.add("Pad", {r.kept, cut}, {{"mode", mode}}), two_positive(), {"0", "3"});
  }
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    SCOPED_TRACE(mode);
    Positives p;
    const Value row = p.add("Unsqueeze", {p.kept, p.list({0})});
    expect_fault(p, p.add("Resize", {row, Value(), Value(), p.list({1, 4})}, {{"mode", mode}}), Tensor::zeros({6}),
                 {"0", "4"});
  }
}

TEST(CountsRanges, ANumberIsPutAroundNothing) {
  {
    Positives p;
    p.expect(p.add("Pad", {p.kept, p.list({1, 2}), p.number(9)}), numbers({9, 5, 3, 9, 9}, {5}),
             numbers({9, 6, 5, 4, 3, 2, 1, 9, 9}, {9}), numbers({9, 9, 9}, {3}));
  }
  Positives p;
  const Value pads = p.add("Concat", {p.add("Shape", {p.kept}), p.list({1})}, {{"axis", flag_off}});
  p.expect(p.add("Pad", {p.constant(Tensor::zeros({0})), pads, p.number(9)}), numbers({9, 9, 9}, {3}),
           numbers({9, 9, 9, 9, 9, 9, 9}, {7}), numbers({9}, {1}));
}

TEST(CountsRanges, NoPartIsSmallerThanNone) {
  for (const std::int64_t output : {0, 1}) {
    Positives p;  // n - 3 and 10 - n
    const Value count = p.add("Shape", {p.kept}), one = p.add("Sub", {count, p.list({3})});
    const Value sizes = p.add("Concat", {one, p.add("Sub", {p.list({10}), count})}, {{"axis", flag_off}});
    expect_fault(p, p.add("Split", {p.constant(ramp()), sizes}, {{"output", output}}), two_positive(), {"-1"});
  }
  Positives p;
  const Value count = p.add("Shape", {p.kept}), rest = p.add("Sub", {p.list({8}), count});
  const Value sizes = p.add("Concat", {count, rest, p.list({-1})}, {{"axis", flag_off}});
  EXPECT_NE(p.refusal(p.add("Split", {p.constant(ramp()), sizes}, {{"output", flag_off}})).find("-1"),
            std::string::npos);
}

TEST(CountsRanges, NoStepIsZero) {
  Positives p;
  const Value none = p.constant(Tensor::zeros({0})), count = p.add("Shape", {p.kept}), zero = p.list({0});
  EXPECT_NE(p.refusal(p.add("Slice", {none, zero, count, zero, zero})).find("steps of 0"), std::string::npos);
}

TEST(CountsRanges, RemaindersAreBetweenWhatCountsSuggest) {
  Positives p;  // 6 mod 3 and 0 mod 3 are alike, 2 mod 3 is more
  const Value rest = p.add("Mod", {p.add("Shape", {p.kept}), p.list({3})});
  const Value pads = p.add("Concat", {p.list({0}), rest}, {{"axis", flag_off}});
  p.expect(p.add("Pad", {p.constant(ramp()), pads}), numbers({0, 1, 2, 3, 4, 5, 6, 0, 0}, {9}), ramp(), ramp());
}

TEST(CountsRanges, CountsAreNotTakenForOneAnother) {
  Positives p;  // as many behind as are not negative
  const Value negative = p.add("NonZero", {p.add("Less", {p.x, p.number(0)})});
  const Value count = p.add("Slice", {p.add("Shape", {negative}), p.list({1}), p.list({2})});
  const Value pads = p.add("Concat", {p.list({0}), p.add("Sub", {p.list({6}), count})}, {{"axis", flag_off}});
  p.expect(p.add("Pad", {p.kept, pads}), numbers({5, 3, 0, 0, 0, 0}, {6}),
           numbers({6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0}, {12}), Tensor::zeros({6}));
}

TEST(CountsRanges, WhatIsFoundTwiceByOneConditionIsAsMany) {
  Positives p;
  const Value flags = p.add("Cast", {p.add("Greater", {p.x, p.number(0)})}, {{"to", std::int64_t{7}}});
  const Value some = p.add("Compress", {p.x, p.add("Cast", {flags}, {{"to", std::int64_t{9}}})});
  const Value count = p.add("Slice", {p.add("Shape", {p.add("NonZero", {flags})}), p.list({1}), p.list({2})});
  const Value pads = p.add("Concat", {p.list({0}), p.add("Sub", {p.list({6}), count})}, {{"axis", flag_off}});
  p.expect(p.add("Reshape", {p.add("Pad", {some, pads}), p.list({2, 3})}), numbers({5, 3, 0, 0, 0, 0}, {2, 3}),
           numbers({6, 5, 4, 3, 2, 1}, {2, 3}), Tensor::zeros({2, 3}));
}

TEST(CountsRanges, SizesAreWhatFunctionsMakeOfCounts) {
  const auto length = [](const auto& make, std::int64_t two, std::int64_t all, std::int64_t none) {
    Positives p;
    const Value size = make(p, p.add("Shape", {p.kept}));
    const auto zeros = [](std::int64_t number) { return number < 0 ? Tensor() : Tensor::zeros({number}); };
    p.expect(p.add("ConstantOfShape", {size}), zeros(two), zeros(all), zeros(none));
  };
  using N = std::int64_t;
  length([](Positives& p, Value n) { return p.add("Abs", {p.add("Sub", {n, p.list({4})})}); }, 2, 2, 4);
  length([](Positives& p, Value n) { return p.add("Max", {p.add("Neg", {n}), p.list({3})}); }, 3, 3, 3);
  length([](Positives& p, Value n) { return p.add("Div", {p.list({12}), p.add("Sub", {n, p.list({3})})}); }, -1, 4, -1);
  length([](Positives& p, Value n) { return p.add("Mul", {p.add("Sub", {n, p.list({3})}), p.list({-1})}); }, 1, -1, 3);
  length(
      [](Positives& p, Value n) {
        const Value small = p.add("Less", {n, p.list({3})});
        return p.add("Where", {small, p.list({9}), p.add("Mod", {n, p.list({4})})});
      },
      9, 2, 9);
  length(
      [](Positives& p, Value n) {  // halves of n, rounded up by floats
        const Value half = p.add("Mul", {p.add("Cast", {n}, {{"to", N{1}}}), p.number(0.4F)});
        return p.add("Cast", {p.add("Ceil", {half})}, {{"to", N{7}}});
      },
      1, 3, 0);
  length(
      [](Positives& p, Value n) {  // the square of what may be below 0
        const Value less = p.add("Sub", {n, p.list({5})});
        return p.add("Mul", {less, less});
      },
      9, 1, 25);
  length(
      [](Positives& p, Value n) {  // one of a list
        const Value list = p.add("Concat", {p.list({4, 5}), n}, {{"axis", flag_off}});
        return p.add("Slice", {p.add("Mul", {list, p.list({2})}), p.list({2}), p.list({3})});
      },
      4, 12, 0);
}

TEST(CountsRanges, WhatOverflowsHasNone) {
  for (const char* op : {"ReduceSum", "ReduceProd"}) {
    Positives p;
    const Value count = p.add("Shape", {p.kept});
    const Value list =
        p.add("Concat", {count, p.list({std::numeric_limits<std::int64_t>::max()})}, {{"axis", flag_off}});
    const Value size = p.add("Abs", {p.add(op, {list})});
    EXPECT_NE(p.refusal(p.add("ConstantOfShape", {size})), "nothing");
  }
}

TEST(CountsRanges, BytesAreResizedToASizeOfARunAsToOneThatIsKnown) {
  const Tensor x = numbers({0, 255, 0, 255}, {1, 4}).to(DType::u8), all = numbers({6, 5, 4, 3, 2, 1}, {6});
  const auto resized = [&](bool made) {
    Positives p;
    const Value sizes =
        p.add("Concat", {p.list({1}), made ? p.add("Shape", {p.kept}) : p.list({6})}, {{"axis", flag_off}});
    p.g.output(p.add("Resize", {p.constant(x), Value(), Value(), sizes}, {{"mode", "cubic"}}));
    return p.g.compile().run({&all, 1})[0].clone();
  };
  expect_equal(resized(true), resized(false));
  const auto bytes = resized(true);  // the cubic overshoots
  EXPECT_EQ(std::ranges::min(bytes.values<std::uint8_t>()), 0);
  EXPECT_EQ(std::ranges::max(bytes.values<std::uint8_t>()), 255);
}

TEST(CountsRanges, OfNothingButMinusInfinityThereIsNoSoftmax) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    Positives p;
    const Value lowest = p.add("Sub", {p.kept, p.number(infinity)});
    const Value bad = p.add("IsNaN", {p.add(op, {lowest}, {{"axis", flag_off}})});
    p.expect(p.add("Cast", {bad}, {{"to", std::int64_t{1}}}), numbers({1, 1}, {2}), numbers({1, 1, 1, 1, 1, 1}, {6}),
             Tensor::zeros({0}));
  }
  Positives p;
  p.expect(p.add("Hardmax", {p.add("Sub", {p.kept, p.number(infinity)})}, {{"axis", flag_off}}), numbers({1, 0}, {2}),
           numbers({1, 0, 0, 0, 0, 0}, {6}), Tensor::zeros({0}));
}

TEST(CountsRanges, TermsOfAProductAreAsManyAsThoseOfWhatHasNoCount) {
  Positives p;
  expect_fault(p, p.add("MatMul", {p.kept, p.x}), two_positive(), {"2", "6"});
}

}  // namespace
}  // namespace lamina::test::counts_ranges_test
