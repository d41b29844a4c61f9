#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lamina/kernel/map/map.h"

/// Maps of each schedule's kind.
namespace lamina::test {

struct MapCase {
  std::string name;
  MapProblem map;
  std::int64_t guarded = 0;  ///< elements of a guarded input
};

/// What networks have, stored in `d`, small.
inline std::vector<MapCase> map_cases(DType d) {
  using R = MapReduction;
  using P = Pointwise;
  std::vector<MapCase> cases;
  const auto add = [&](const char* name, MapAxes extents, unsigned reduced, auto write, std::int64_t guarded = 0) {
    MapProblem map{.extents = std::move(extents), .reduced = reduced};
    write(map);
    cases.push_back({name, std::move(map), guarded});
  };
  add("bias of odd rows", {4, 1003}, 0, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {1003, 1}}), b = m.load({1, d, 0, {0, 1}});
    m.store(m.function(P::relu, m.function(P::add, x, b)), {0, d, 0, {1003, 1}});
  });
  add("gate, bias, silu", {3, 40, 64}, 0, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {2560, 64, 1}}), b = m.load({1, d, 0, {0, 0, 1}}), g = m.load({2, d, 0, {64, 0, 1}});
    m.store(m.function(P::silu, m.function(P::add, m.function(P::mul, x, g), b)), {0, d, 0, {2560, 64, 1}});
  });
  add("mean of a pair of branches", {2, 2, 700, 64}, 0b0110, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {2 * 700 * 64, 700 * 64, 64, 1}});
    m.store(m.function(P::mul, m.reduce(R::sum, x), m.number(1.0 / 700)), {0, DType::f32, 0, {64, 0, 0, 1}});
  });
  add("mean of planes", {2, 64, 700}, 0b100, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {64 * 700, 700, 1}});
    m.store(m.function(P::mul, m.reduce(R::sum, x), m.number(1.0 / 700)), {0, d, 0, {64, 1, 0}});
  });
  add("layer norm and gelu", {37, 384}, 0b10, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {384, 1}}), g = m.load({1, d, 0, {0, 1}}), b = m.load({2, d, 0, {0, 1}});
    const int share = m.number(1.0 / 384),
              apart = m.function(P::sub, x, m.function(P::mul, m.reduce(R::sum, x), share));
    const int variance = m.function(P::mul, m.reduce(R::sum, m.function(P::mul, apart, apart)), share);
    const int y = m.function(P::mul, apart, m.function(P::rsqrt, m.function(P::add, variance, m.number(1e-5))));
    m.store(m.function(P::gelu, m.function(P::add, m.function(P::mul, y, g), b)), {0, d, 0, {384, 1}});
  });
  const auto softmax = [&](MapProblem& m, const MapAxes& strides) {
    const int x = m.load({0, d, 0, strides}), e = m.function(P::exp, m.function(P::sub, x, m.reduce(R::max, x)));
    m.store(m.function(P::div, e, m.reduce(R::sum, e)), {0, d, 0, strides});
  };
  add("softmax of long rows", {3, 5000}, 0b10, [&](MapProblem& m) { softmax(m, {5000, 1}); });
  add("softmax of channels", {2, 19, 77}, 0b10, [&](MapProblem& m) { softmax(m, {19 * 77, 77, 1}); });
  add(
      "largest of windows", {2, 7, 7, 16, 3, 3}, 0b110000,
      [&](MapProblem& m) {
        MapView x{0, d, -16 * 16, {15 * 15 * 16, 2 * 15 * 16, 2 * 16, 1, 15 * 16, 16}};
        x.guards = {{{0, 2, 0, 0, 1, 0}, -1, 15}, {{0, 0, 2, 0, 0, 1}, -1, 15}};
        x.fill = -INFINITY;
        m.store(m.reduce(R::max, m.load(x)), {0, d, 0, {7 * 7 * 16, 7 * 16, 16, 1, 0, 0}});
      },
      2 * 15 * 15 * 16);
  add("largest of all", {100000}, 1, [&](MapProblem& m) {
    m.store(m.reduce(R::max, m.load({0, d, 0, {1}})), {0, d, 0, {0}});
  });
  add("norm of all, twofold", {210000}, 1, [&](MapProblem& m) {
    m.compute = DType::f64;
    const int x = m.load({0, DType::f64, 0, {1}}), sum = m.reduce(R::sum, m.function(P::mul, x, x));
    m.store(m.function(P::sqrt, sum), {0, DType::f64, 0, {0}});
  });
  add("a table of places", {2, 9, 13}, 0, [&](MapProblem& m) {
    auto places = std::make_shared<std::vector<std::int64_t>>();
    for (int i = 0; i < 13; ++i) places->push_back(i == 5 ? -1 : i * 5 % 11);
    MapView x{0, d, 0, {99, 11, 0}};
    x.tables = {{{0, 0, 1}, 0, places}};
    x.fill = 2;
    m.store(m.load(x), {0, d, 0, {9 * 13, 13, 1}});
  });
  add("turn", {2, 136, 72}, 0, [&](MapProblem& m) {
    m.store(m.load({0, d, 0, {136 * 72, 1, 136}}), {0, d, 0, {136 * 72, 72, 1}});
  });
  add("turn of no whole squares", {3, 70, 50}, 0, [&](MapProblem& m) {
    m.store(m.load({0, d, 0, {3500, 1, 70}}), {0, d, 0, {3500, 50, 1}});
  });
  add("turn, bias, residual", {2, 96, 200}, 0, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {96 * 200, 1, 96}}), b = m.load({1, d, 0, {0, 1, 0}}),
              y = m.load({2, d, 0, {96 * 200, 200, 1}});
    m.store(m.function(P::relu, m.function(P::add, m.function(P::add, x, b), y)), {0, d, 0, {96 * 200, 200, 1}});
  });
  add("turn of windows", {2, 64, 80}, 0, [&](MapProblem& m) {  // squares of all of them have not room side by side
    int sum = -1;
    for (std::int64_t tap = 0; tap < 10; ++tap) {
      const int x = m.load({0, d, 64 * tap, {64 * 90, 1, 64}});
      sum = tap == 0 ? x : m.function(P::add, sum, x);
    }
    m.store(sum, {0, d, 0, {64 * 80, 80, 1}});
  });
  add("turn of two types", {2, 33, 57}, 0, [&](MapProblem& m) {
    const int x = m.load({0, d, 0, {33 * 57, 1, 33}}), b = m.load({1, DType::u8, 0, {33 * 57, 1, 33}});
    m.store(m.function(P::add, x, b), {0, DType::f32, 0, {33 * 57, 57, 1}});
  });
  for (const std::int64_t count : {3, 4, 8}) {
    add("images, their channels last", {2, count, 136}, 0, [&](MapProblem& m) {
      m.store(m.load({0, DType::f32, 0, {count * 136, 136, 1}}), {0, d, 0, {count * 136, 1, count}});
    });
    add("heads, the last first", {2, count, 136}, 0, [&](MapProblem& m) {
      const int x = m.load({0, d, 0, {count * 136, 1, count}}), b = m.load({1, d, 0, {0, 1, 0}});
      m.store(m.function(P::add, x, b), {0, d, 0, {count * 136, 136, 1}});
    });
  }
  add("a sum in every place of its row", {5, 400}, 0b10, [&](MapProblem& m) {
    m.store(m.reduce(R::sum, m.load({0, d, 0, {400, 1}})), {0, d, 0, {400, 1}});
  });
  add("a sum in every place of its column", {5, 90, 48}, 0b010, [&](MapProblem& m) {
    m.store(m.reduce(R::sum, m.load({0, d, 0, {90 * 48, 48, 1}})), {0, d, 0, {90 * 48, 48, 1}});
  });
  add("odd places", {40, 96}, 0, [&](MapProblem& m) {
    const int x = m.load({0, d, 97, {195, 1}}), y = m.load({1, d, 0, {96, 1}});
    m.store(m.function(P::mul, x, y), {0, d, 0, {96, 1}});
  });
  return cases;
}

}  // namespace lamina::test
