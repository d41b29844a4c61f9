#include "lamina/kernel/map/compose.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cuda/map/map_data.h"

namespace lamina::test::compose_test {
namespace {

/// Two Maps, the second of which reads what the first writes as if it had another shape: axes are split, taken in
/// another order, and cut. Input 2 is what is between them.
class Pair {
 public:
  explicit Pair(unsigned seed) : random_(seed) {
    const int rank = up_to(2) + 1;
    std::int64_t points = 1;
    for (int a = 0; a < rank; ++a) writer.extents.push_back(lengths[up_to(4)]);
    if (one_of(3)) writer.reduced = 1u << up_to(rank - 1);
    const bool keeps = one_of(2);  // stores at every point
    MapView first = any_view(writer, 0);
    if (one_of(4)) {  // padding on both sides of an axis
      const auto axis = static_cast<std::size_t>(up_to(rank - 1));
      MapAxes along(writer.extents.size());
      along[axis] = 1;
      first.guards.push_back({along, -1, writer.extents[axis] - 1}), first.fill = 3;
    }
    int x = writer.load(first);
    x = writer.function(Pointwise::add, x, writer.load(any_view(writer, 1)));
    if (writer.reduced != 0) {
      const int sum = writer.reduce(one_of(2) ? MapReduction::sum : MapReduction::max, x);
      x = keeps ? writer.function(Pointwise::sub, x, sum) : writer.function(Pointwise::relu, sum);
    }
    std::vector<std::int64_t> memory;  // of what is between, the last first
    MapView to{.array = 0, .strides = MapAxes(writer.extents.size())};
    for (const std::size_t a : order_of(writer.extents.size())) {
      if (writer.reduces(a) && !keeps) continue;
      to.strides[a] = points;
      points *= writer.extents[a];
      memory.push_back(writer.extents[a]);
    }
    writer.store(x, to);

    MapView from{.array = 2};
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      std::int64_t rest = memory[i];
      const std::int64_t inner = one_of(2) && rest % 2 == 0 ? 2 : rest % 3 == 0 ? 3 : rest;
      for (const std::int64_t extent : {inner, rest / inner}) {
        const std::int64_t cut = extent > 2 && one_of(6) ? 1 : 0;  // the first of them is left out
        reader.extents.push_back(extent - cut);
        from.strides.push_back(stride);
        from.offset += cut * stride;
        stride *= extent;
      }
    }
    const std::vector<std::size_t> order = order_of(reader.extents.size());
    MapProblem turned{.extents = MapAxes(order.size())};
    MapView along = from;
    for (std::size_t a = 0; a < order.size(); ++a)
      turned.extents[a] = reader.extents[order[a]], along.strides[a] = from.strides[order[a]];
    reader = turned;
    // Any order of what is read along an axis: rolls, flips.
    for (std::size_t a = 0; a < order.size(); ++a) {
      if (!one_of(5)) continue;
      auto places = std::make_shared<std::vector<std::int64_t>>();
      for (const std::size_t i : order_of(static_cast<std::size_t>(reader.extents[a]))) {
        places->push_back(static_cast<std::int64_t>(i) * along.strides[a]);
      }
      MapAxes steps(order.size());
      steps[a] = 1, along.strides[a] = 0;
      along.tables.push_back({steps, 0, places});
    }
    if (!order.empty() && one_of(3)) reader.reduced = 1u << up_to(static_cast<int>(order.size()) - 1);
    int y = reader.function(Pointwise::mul, reader.load(along), reader.load(any_view(reader, 3)));
    if (reader.reduced != 0) y = reader.reduce(MapReduction::sum, y);
    MapView result{.array = 0, .strides = MapAxes(reader.extents.size())};
    std::int64_t place = 1;
    for (std::size_t a = reader.extents.size(); a-- > 0;) {
      if (reader.reduces(a)) continue;
      result.strides[a] = place;
      place *= reader.extents[a];
    }
    reader.store(y, result);
  }

  MapProblem writer, reader;

 private:
  static constexpr std::int64_t lengths[] = {2, 4, 6, 9, 12};

  int up_to(int most) { return std::uniform_int_distribution(0, most)(random_); }
  bool one_of(int n) { return up_to(n - 1) == 0; }
  std::vector<std::size_t> order_of(std::size_t count) {
    std::vector<std::size_t> order(count);
    for (std::size_t a = 0; a < count; ++a) order[a] = a;
    std::ranges::shuffle(order, random_);
    return order;
  }
  MapView any_view(const MapProblem& map, int array) {
    MapView view{.array = array, .strides = MapAxes(map.extents.size())};
    std::int64_t stride = 1;
    for (const std::size_t a : order_of(map.extents.size())) {
      if (one_of(5)) continue;
      view.strides[a] = stride;
      stride *= map.extents[a];
    }
    return view;
  }

  std::mt19937 random_;
};

/// LAMINA_MAPS: how many, instead of 300.
TEST(Map, TwoAreOne) {
  int found = 0;
  const char* const asked = std::getenv("LAMINA_MAPS");
  const unsigned count = asked == nullptr ? 300 : static_cast<unsigned>(std::atoi(asked));
  for (unsigned seed = 0; seed < count; ++seed) {
    const Pair pair(seed);
    const std::optional<MapProblem> one = composed({&pair.writer, 1}, pair.reader, 2);
    if (!one) continue;
    ++found;
    MapRun first(pair.writer, seed), second(pair.reader, seed + count), both(*one);
    first.plainly();
    both.inputs = first.inputs;
    both.inputs.resize(4);
    second.inputs[2] = first.outputs[0], both.inputs[3] = second.inputs[3];
    second.plainly(), both.plainly();
    const std::vector<double> want = second.outputs[0].doubles(), got = both.outputs[0].doubles();
    ASSERT_EQ(want.size(), got.size()) << seed;
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(want[i], got[i], 1e-4 * (1 + std::abs(want[i]))) << "pair " << seed << ", element " << i;
    }
  }
  EXPECT_GT(found, static_cast<int>(count) / 2);
}

/// y = where(f(x, 3), x, -1), the f in a Map of its own that stores `between`; whole numbers but for what is asked for.
std::optional<MapProblem> chosen(Pointwise f, DType between, DType compute) {
  MapProblem writer{.extents = {8}, .compute = compute}, reader{.extents = {8}, .compute = compute};
  const auto view = [](int array, DType dtype) { return MapView{.array = array, .dtype = dtype, .strides = {1}}; };
  writer.store(writer.function(f, writer.load(view(0, compute)), writer.number(3)), view(0, between));
  const int condition = reader.load(view(1, between)), x = reader.load(view(0, compute));
  reader.store(reader.function(Pointwise::where, condition, x, reader.number(-1)), view(0, compute));
  return composed({&writer, 1}, reader, 1);
}

TEST(Map, WhatIsStoredAsItWasComputedNeedNotBe) {
  for (const DType compute : {DType::i64, DType::f64, DType::f32}) {
    const std::optional<MapProblem> one = chosen(Pointwise::less, DType::boolean, compute);
    ASSERT_TRUE(one) << compute;
    MapRun run(*one, 1);
    run.plainly();
    const std::vector<double> x = run.inputs[0].doubles(), y = run.outputs[0].doubles();
    ASSERT_EQ(y.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i], x[i] < 3 ? x[i] : -1) << compute;
    EXPECT_TRUE(chosen(Pointwise::add, compute, compute)) << compute;
    EXPECT_FALSE(chosen(Pointwise::add, DType::boolean, compute)) << compute;  // of which 2 is 1
    EXPECT_FALSE(chosen(Pointwise::add, DType::i32, compute)) << compute;      // which wraps
  }
}

TEST(Map, ShortReductionsAreFunctions) {
  int found = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Pair pair(seed);
    for (const MapProblem* map : {&pair.writer, &pair.reader}) {
      const MapProblem functions = unrolled(*map, 12);
      if (map->reduced == 0 || functions.reduced != 0) continue;
      ++found;
      MapRun want(*map, seed), got(functions);
      got.inputs = want.inputs;
      want.plainly(), got.plainly();
      const std::vector<double> a = want.outputs[0].doubles(), b = got.outputs[0].doubles();
      ASSERT_EQ(a.size(), b.size()) << seed;
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(a[i]))) << seed;
    }
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace lamina::test::compose_test
