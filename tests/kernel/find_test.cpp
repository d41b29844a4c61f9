// What only a run finds, against plain loops.

#include <numeric>

#include "lamina/base/error.h"
#include "lamina/kernel/rules/lookup/find.h"
#include "support/problem_data.h"

namespace lamina::test::find_test {
namespace {

using Kind = FindProblem::Kind;
using Numbers = std::vector<std::int64_t>;

Tensor whole(const Numbers& numbers) { return Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())}); }

Tensor run(const FindProblem& problem, const std::vector<Tensor>& inputs, std::int64_t length, Device device) {
  return run_problem(problem, inputs, {length}, DType::i64, device);
}

TEST(Find, PlacesOfWhatIsTrue) {
  for (const std::int64_t elements : {0, 1, 16, 4095, 4097, 300'001, 9'000'000}) {
    for (const int every : {1, 3, 1000}) {
      const auto all = static_cast<std::size_t>(elements);
      std::vector<std::uint8_t> truths(all);
      Numbers expected = {0};
      for (std::size_t i = 0; i < all; ++i) {
        truths[i] = static_cast<std::uint8_t>(i * 2'654'435'761 % 4'294'967'291 % static_cast<std::size_t>(every) == 0);
        if (truths[i] != 0) ++expected[0], expected.push_back(static_cast<std::int64_t>(i));
      }
      Tensor x = Tensor::zeros({elements}, DType::boolean);
      std::copy(truths.begin(), truths.end(), static_cast<std::uint8_t*>(x.raw()));
      for (const std::int64_t room : {std::int64_t{2}, elements / 2, elements + 5}) {
        Numbers list = expected;
        list.resize(static_cast<std::size_t>(1 + room), 0);
        for (const Device device : devices_here()) {
          const Tensor found = run({.kind = Kind::places}, {x}, 1 + room, device);
          EXPECT_TRUE(std::ranges::equal(found.values<std::int64_t>(), list))
              << elements << " elements, every " << every << ", room for " << room << " on " << device;
        }
      }
    }
  }
}

TEST(Find, BoxesOfWhichNoTwoOverlap) {
  constexpr std::int64_t boxes = 2500;
  const Tensor corners = draw_whole({1, boxes, 4}, 7, 0, 100).to(DType::f32);
  Tensor scores = draw_whole({1, 2, boxes}, 8, 0, 400).to(DType::f32);
  scores.values<float>()[17] = NAN;
  for (const Device device : devices_here()) {
    const Tensor list =
        run({.kind = Kind::boxes}, {corners, scores, Tensor::from(std::vector<double>{1e9, 0.5, 3}, {3})},
            1 + 6 * boxes, device);
    const auto found = list.values<std::int64_t>();
    // By the definition: whichever is not there has a score that is too small, or overlaps with one before it.
    for (std::int64_t c = 0, at = 1; c < 2; ++c) {
      std::vector<std::int64_t> order(boxes), stay;
      std::iota(order.begin(), order.end(), 0);
      const float* const score = scores.values<float>().data() + c * boxes;
      std::erase_if(order, [&](std::int64_t i) { return !(score[i] > 3); });
      std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
      const auto side = [&](std::int64_t i, int d, bool far) {
        const float* const b = corners.values<float>().data() + 4 * i + d;
        return far ? std::max(b[0], b[2]) : std::min(b[0], b[2]);
      };
      const auto area = [&](std::int64_t i) {
        return (side(i, 0, true) - side(i, 0, false)) * (side(i, 1, true) - side(i, 1, false));
      };
      for (const std::int64_t i : order) {
        const bool hidden = std::ranges::any_of(stay, [&](std::int64_t other) {
          float both = 1;
          for (const int d : {0, 1})
            both *= std::max(0.0F, std::min(side(i, d, true), side(other, d, true)) -
                                       std::max(side(i, d, false), side(other, d, false)));
          return both > 0 && both > 0.5F * (area(i) + area(other) - both);
        });
        if (!hidden) stay.push_back(i);
      }
      for (const std::int64_t i : stay) {
        ASSERT_TRUE(found[static_cast<std::size_t>(at)] == 0 && found[static_cast<std::size_t>(at + 1)] == c &&
                    found[static_cast<std::size_t>(at + 2)] == i)
            << "box " << i << " of class " << c << " on " << device;
        at += 3;
      }
      EXPECT_LE(at - 1, 3 * found[0]);
      EXPECT_TRUE(c == 0 || 3 * found[0] == at - 1) << device;
    }
  }
}

TEST(Find, CountsByTheirRule) {
  struct Case {
    CountRule rule;
    Numbers counts;
    std::int64_t result;  // -1: refused
  };
  for (const auto& [rule, counts, result] :
       {Case{{}, {7, 7}, 7}, Case{{}, {7, 8}, -1}, Case{{.times = 6, .per = 4}, {10}, 15},
        Case{{.times = 6, .per = 4}, {11}, -1}, Case{{.expected = 3}, {3, 3}, 3}, Case{{.expected = 3}, {2}, -1},
        Case{{.most = 5}, {5}, 5}, Case{{.most = 5}, {6}, -1}, Case{{.most = 5}, {-1}, -1},
        Case{{.enough = true}, {2, 9}, 2}, Case{{.enough = true}, {2, 1}, -1}}) {
    Fault fault;
    const std::int64_t said = rule.apply(counts.data(), std::ssize(counts), fault);
    EXPECT_EQ(fault.kind == Fault::none, result >= 0);
    if (result < 0) {
      EXPECT_THROW((void)run({.rule = rule}, {whole(counts)}, 1, Device::cpu()), Error);
      continue;
    }
    EXPECT_EQ(said, result);
    for (const Device device : devices_here()) {
      EXPECT_EQ(run({.rule = rule}, {whole(counts)}, 1, device).values<std::int64_t>()[0], result) << device;
    }
  }
}

}  // namespace
}  // namespace lamina::test::find_test
