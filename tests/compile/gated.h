#pragma once

#include "compile/fused.h"
#include "lamina/layers/conv2d.h"

namespace lamina::test {

/// As MambaOut's blocks are exported, of images [N, side, side, 64] with the channels last: of a layer's rows some are
/// a gate, some stay and some go through a depthwise convolution; what stays and what comes back are joined.
inline Graph gated_network(std::int64_t side, std::int64_t kept = 40, int convolved = 24) {
  Graph g;
  const std::int64_t width = 64, gate = kept + convolved, all = gate + gate;
  Value x = g.input("x", {batch, side, side, width});
  const auto part = [&](Value of, std::int64_t from, std::int64_t to) {
    return op(g, "Slice", {of, integers(g, {from}), integers(g, {to}), integers(g, {-1})});
  };
  for (unsigned block = 0; block < 2; ++block) {
    const Value rows = multiplied(g, op(g, "LayerNormalization", {x, constant(g, random_tensor({width}, 3))}), width,
                                  all, 10 * block + 20);
    const Value turned = transposed(g, part(rows, gate + kept, all), {0, 3, 1, 2});
    Conv2d depthwise({.in = convolved, .out = convolved, .kernel = 3, .padding = 1, .groups = convolved});
    const Value back = transposed(g, g.add(next_name(), std::move(depthwise), turned), {0, 2, 3, 1});
    const Value joined = op(g, "Concat", {part(rows, gate, gate + kept), back}, {{"axis", std::int64_t{-1}}});
    const Value gated = op(g, "Mul", {op(g, "Gelu", {part(rows, 0, gate)}), joined});
    x = op(g, "Add", {x, multiplied(g, gated, gate, width, 10 * block + 25)});
  }
  g.output(x);
  randomize(g);
  return g;
}

}  // namespace lamina::test
