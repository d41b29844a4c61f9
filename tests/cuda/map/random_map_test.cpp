#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "cuda/map/map_data.h"
#include "lamina/kernel/map/map_of.h"
#include "lamina/kernel/map/stages.h"

namespace lamina::test::random_map_test {
namespace {

/// Draws Maps: extents, orders and signs of strides, broadcasts, pads, reductions over any axes, several operands and
/// results, numbers of each type.
class Drawing {
 public:
  explicit Drawing(unsigned seed) : random_(seed) {}

  MapProblem map() {
    const int rank = up_to(4) + 1;
    MapProblem map;
    constexpr DType computed[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::i64, DType::u64};
    map.compute = computed[up_to(5)];
    for (int a = 0; a < rank; ++a) map.extents.push_back(one_of(4) ? 64 : up_to(rank > 2 ? 11 : 90) + 1);
    const auto points = [&] { return std::accumulate(map.extents.begin(), map.extents.end(), 1, std::multiplies<>()); };
    for (constexpr int most = 20'000; points() > most;) *std::ranges::max_element(map.extents) /= 2;
    if (one_of(2)) map.reduced = static_cast<unsigned>(up_to((1 << rank) - 1));
    std::vector<int> nodes;
    for (int i = up_to(2); i >= 0; --i) nodes.push_back(map.load(view(map, i, true)));
    for (int i = up_to(4); i-- > 0;) nodes.push_back(function(map, nodes));
    if (map.reduced != 0) {
      constexpr MapReduction kinds[] = {MapReduction::sum, MapReduction::max, MapReduction::min, MapReduction::spread};
      const bool floats = is_float(map.compute);
      const int reduced =
          floats && one_of(4) ? variance(map, nodes.back()) : map.reduce(kinds[up_to(floats ? 3 : 2)], nodes.back());
      if (one_of(2))
        nodes.push_back(map.function(
            Pointwise::sub, nodes[static_cast<std::size_t>(up_to(static_cast<int>(nodes.size()) - 1))], reduced));
      if (one_of(3)) nodes.push_back(map.reduce(MapReduction::max, nodes.back()));
      nodes.push_back(map.function(is_float(map.compute) ? Pointwise::sigmoid : Pointwise::abs, reduced));
    }
    const int stores = one_of(4) ? 2 : 1;
    for (int i = 0; i < stores; ++i) {
      const int node = nodes[nodes.size() - 1 - static_cast<std::size_t>(i)];
      MapView to = view(map, i, false);
      const unsigned axes = dependence(map)[static_cast<std::size_t>(node)];
      shrink(map, to, map.reduced & ~axes);
      map.store(node, to);
    }
    return map;
  }

 private:
  /// As a norm has it, in two passes.
  static int variance(MapProblem& map, int x) {
    const int count = map.number(static_cast<double>(reduced_points(map)));
    const int mean = map.function(Pointwise::div, map.reduce(MapReduction::sum, x), count);
    const int apart = map.function(Pointwise::sub, x, mean);
    return map.function(Pointwise::div, map.reduce(MapReduction::sum, map.function(Pointwise::mul, apart, apart)),
                        count);
  }
  int up_to(int most) { return std::uniform_int_distribution(0, most)(random_); }
  bool one_of(int n) { return up_to(n - 1) == 0; }

  /// Strides in any order of the axes, without overlaps; of a load broadcast along some.
  MapView view(const MapProblem& map, int array, bool load) {
    constexpr DType floats[] = {DType::f32, DType::f32, DType::f16, DType::bf16},
                    loaded[] = {DType::u8, DType::i8, DType::i32, DType::boolean, DType::i64};
    const DType own = map.compute == DType::f32 ? floats[up_to(3)] : map.compute;
    MapView view{
        .array = array, .dtype = load && one_of(6) ? loaded[up_to(4)] : own, .strides = MapAxes(map.extents.size())};
    std::vector<std::size_t> order(map.extents.size());
    for (std::size_t a = 0; a < order.size(); ++a) order[a] = a;
    if (one_of(2)) std::ranges::shuffle(order, random_);
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::size_t a = order[i];
      if (load && one_of(5)) continue;
      view.strides[a] = stride;
      stride *= map.extents[a] + (one_of(8) ? 1 : 0);
    }
    if (one_of(8)) view.offset = up_to(20);
    const auto back = static_cast<std::size_t>(up_to(static_cast<int>(map.extents.size()) - 1));
    if (load && one_of(4)) view.offset += (map.extents[back] - 1) * view.strides[back], view.strides[back] *= -1;
    if (load && one_of(6)) {
      const auto a = static_cast<std::size_t>(up_to(static_cast<int>(map.extents.size()) - 1));
      MapView::Table table{MapAxes(map.extents.size()), 0, nullptr};
      table.strides[a] = 1;
      std::vector<std::int64_t> entries;
      for (std::int64_t i = 0; i < map.extents[a]; ++i) entries.push_back(one_of(5) ? -1 : up_to(30));
      entries.back() = 3;
      table.entries = std::make_shared<const std::vector<std::int64_t>>(entries);
      view.tables.push_back(table);
      view.fill = 0.5;
    }
    return view;
  }

  /// A result that is the same along some axes has one element for all of them.
  static void shrink(const MapProblem& map, MapView& view, unsigned axes) {
    for (std::size_t a = 0; a < map.extents.size(); ++a) {
      if ((axes >> a & 1u) != 0) view.strides[a] = 0;
    }
  }

  int function(MapProblem& map, const std::vector<int>& nodes) {
    constexpr Pointwise functions[] = {Pointwise::add,  Pointwise::sub,       Pointwise::max,     Pointwise::min,
                                       Pointwise::relu, Pointwise::abs,       Pointwise::sigmoid, Pointwise::tanh,
                                       Pointwise::clip, Pointwise::hard_swish};
    const auto any = [&] {
      return one_of(4) ? map.number(0.25 * up_to(8) - 1)
                       : nodes[static_cast<std::size_t>(up_to(static_cast<int>(nodes.size()) - 1))];
    };
    const int x = any(), y = any(), z = any();
    const Pointwise f = is_float(map.compute) ? functions[up_to(9)] : functions[up_to(5)];
    const int operands = describe(f).operands;
    return map.function(f, x, operands > 1 ? y : -1, operands > 2 ? z : -1);
  }

  std::mt19937 random_;
};

/// LAMINA_MAPS: how many, instead of 200.
TEST(Map, RandomOnesByTheEmulator) {
  const char* const asked = std::getenv("LAMINA_MAPS");
  const unsigned count = asked == nullptr ? 200 : static_cast<unsigned>(std::atoi(asked));
  for (unsigned seed = 0; seed < count; ++seed) {
    const MapProblem map = Drawing(seed).map();
    expect_right(map, seed % 3 == 0 ? 75 : 90, "map " + std::to_string(seed), 0, seed, seed % 2 == 0 ? 1 : 132);
    if (HasFatalFailure()) return;
  }
}

/// Computes a Map by its stages, one after the other, with the plain loops; how many there were.
std::size_t run_in_stages(MapRun& run) {
  const MapStages stages = stages_of(run.map, static_cast<int>(run.inputs.size()));
  std::vector<std::vector<std::byte>> between;
  std::vector<const void*> from;
  for (const auto& input : run.inputs) from.push_back(input.bytes.data());
  for (const std::int64_t elements : stages.elements) {
    from.push_back(between.emplace_back(static_cast<std::size_t>(elements) * size_of(run.map.compute)).data());
  }
  for (std::size_t i = 0; i < stages.maps.size(); ++i) {
    validate(stages.maps[i]);
    std::vector<void*> to;
    if (i < between.size()) to.push_back(between[i].data());
    for (auto& output : run.outputs) {
      if (i < between.size()) break;
      output.set(std::vector<double>(static_cast<std::size_t>(output.count))), to.push_back(output.bytes.data());
    }
    cpu::evaluate(stages.maps[i], from, to);
  }
  EXPECT_TRUE(between.empty() || stages.maps.back().reduced == 0);
  return stages.maps.size();
}

/// A long norm is two launches, and its spread what two passes in double say, also far from zero.
TEST(Map, SpreadsOfLongRows) {
  MapProblem norm{.extents = {4, 30'000}, .reduced = 0b10};
  const int x = norm.load({0, DType::f32, 0, {30'000, 1}}), count = norm.number(30'000);
  const auto mean = [&](int of) { return norm.function(Pointwise::div, norm.reduce(MapReduction::sum, of), count); };
  const int apart = norm.function(Pointwise::sub, x, mean(x));
  const int variance = mean(norm.function(Pointwise::mul, apart, apart));
  norm.store(norm.function(Pointwise::mul, apart, norm.function(Pointwise::rsqrt, variance)),
             {0, DType::f32, 0, {30'000, 1}});
  const MapStages stages = stages_of(norm, 1);
  ASSERT_EQ(stages.maps.size(), 2u);
  MapProblem first = stages.maps[0];
  for (auto& store : first.stores) store.view.array = 0;
  for (const int architecture : {75, 90}) {
    MapRun want(first), got(first);
    std::vector<double> values = want.inputs[0].doubles();
    for (std::size_t i = 0; i < 30'000; ++i) {
      values[i] += 10'000;                     // far from zero
      values[30'000 + i] = 1e30;               // all the same
      values[60'000 + i] = i == 0 ? 1000 : 0;  // one far away from all others
      values[90'000 + i] = i == 77 ? INFINITY : 1;
    }
    want.inputs[0].set(values), got.inputs[0].set(values);
    want.plainly(), got.emulated(architecture);
    const std::vector<double> a = want.outputs[0].doubles(), b = got.outputs[0].doubles();
    for (const std::size_t row : {4, 6}) EXPECT_NEAR(b[row], a[row], 1e-5 * a[row]) << architecture;
    EXPECT_EQ(b[5], INFINITY) << architecture;  // one over the root of 0
    EXPECT_TRUE(std::isnan(b[7])) << architecture;
  }
}

/// A norm of groups of few channels, stored channels last: sums of groups, of each of which a thread reads all
/// channels, and a Map without reductions.
TEST(Map, GroupsOfFewChannels) {
  const Shape shape = {2, 24, 23, 31};
  for (const NormKind kind : {NormKind::centred, NormKind::root_mean_square}) {
    for (const int few : {2, 4, 6}) {
      const NormProblem norm = {.length = few * 713, .kind = kind, .inner = 713, .channels = 24};
      const View image = {.shape = shape, .format = {.layout = Layout::nhwc}};
      const auto map = map_of(norm, {.inputs = {&image, 1}, .outputs = {&image, 1}, .device = describe(Device::cpu())});
      ASSERT_TRUE(map);
      MapRun want(*map, 3), got(*map, 3);
      ASSERT_NE(few_beside_next_row(got.map), 0u);
      std::vector<double> values = want.inputs[0].doubles();
      for (double& value : values) value += 3;
      want.inputs[0].set(values), got.inputs[0].set(values);
      want.plainly();
      EXPECT_EQ(run_in_stages(got), 2u);
      expect_same(got, want, "groups of " + std::to_string(few));
      for (const MapProblem& stage : stages_of(got.map, 1).maps) {
        MapProblem alone = stage;
        for (MapView& view : alone.loads) view.array = std::min(view.array, 1);
        expect_right(alone, 90, "a stage of groups of " + std::to_string(few));
      }
    }
  }
  // Rows that are read in whole sectors, or that are short, are left as they are.
  for (const auto& [extents, few] : {std::pair(Shape{2, 64, 23, 31}, 8), {{2, 24, 15, 15}, 2}}) {
    const std::int64_t pixels = extents[2] * extents[3];
    const View image = {.shape = extents, .format = {.layout = Layout::nhwc}};
    const auto map = map_of(NormProblem{.length = few * pixels, .inner = pixels, .channels = extents[1]},
                            {.inputs = {&image, 1}, .outputs = {&image, 1}, .device = describe(Device::cpu())});
    EXPECT_EQ(few_beside_next_row(simplified(*map)), 0u);
  }
}

/// Sums over neighbouring channels, of which those at the ends have fewer, beside the channel itself.
TEST(Map, WindowsOverChannels) {
  constexpr std::int64_t channels = 12, pixels = 35;
  for (const auto& [of_channel, of_pixel] : {std::pair<std::int64_t, std::int64_t>{pixels, 1}, {1, channels}}) {
    for (const std::int64_t size : {1, 4, 5, 40}) {
      MapProblem map{.extents = {2, channels, pixels, size}, .reduced = 0b1000};
      const MapAxes own = {channels * pixels, of_channel, of_pixel, 0};
      MapView window = {.offset = -size / 2 * of_channel, .strides = own};
      window.strides[3] = of_channel;
      window.guards = {{{0, 1, 0, 1}, -size / 2, channels}};
      const int x = map.load({.strides = own}), one = map.load(window);
      const int sum = map.reduce(MapReduction::sum, map.function(Pointwise::mul, one, one));
      map.store(map.function(Pointwise::div, x, map.function(Pointwise::add, sum, map.number(2))), {.strides = own});
      for (const int architecture : {75, 90}) {
        expect_right(map, architecture, "a window of " + std::to_string(size), 2 * channels * pixels);
      }
    }
  }
}

TEST(Map, RandomOnesInStages) {
  int longer = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const MapProblem map = Drawing(seed).map();
    if (map.reduced == 0) continue;
    MapRun want(map, seed), got(map, seed);
    want.plainly();
    longer += run_in_stages(got) > 2 ? 1 : 0;
    expect_same(got, want, "map " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(longer, 10);
}

}  // namespace
}  // namespace lamina::test::random_map_test
