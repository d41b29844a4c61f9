#pragma once

#include "lamina/kernel/map/map_of.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/walk.h"

/// What problems have in common as Maps.
namespace lamina::map_parts {

inline MapAxes axes_of(const Shape& shape) {
  MapAxes axes;
  for (int dim = 0; dim < static_cast<int>(shape.rank()); ++dim) axes.push_back(shape[dim]);
  return axes;
}

/// A view whose dimensions are the axes.
inline MapView as_it_is(const View& view, int array) {
  const detail::Strides strides = detail::strides_of(view);
  return {.array = array,
          .dtype = view.format.dtype,
          .strides = {strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(view.shape.rank())}};
}

/// The number that an element of `of` stands for.
inline int load(MapProblem& map, MapView view, const View& of) {
  const int x = map.load(std::move(view));
  if (!detail::is_code(of)) return x;
  const auto& [scale, zero_point] = of.quantization;
  return map.function(Pointwise::mul, map.function(Pointwise::sub, x, map.number(zero_point)), map.number(scale));
}
/// The element that stands for a number.
inline void store(MapProblem& map, int node, MapView view, const View& of) {
  if (detail::is_code(of)) {
    const auto& [scale, zero_point] = of.quantization;
    node = map.function(Pointwise::quantize, node, map.number(scale), map.number(zero_point));
  }
  map.store(node, std::move(view));
}

/// The steps of a chain behind a node; `load` gives the node of an operand.
template <class Load>
int chained(MapProblem& map, const PointwiseChain& chain, int value, Load&& load) {
  const auto operand = [&](int input, double number) { return input >= 0 ? load(input) : map.number(number); };
  for (const PointwiseStep& step : chain) {
    const int operands = describe(step.function).operands;
    const int x = operands > 1 ? operand(step.operand, step.a) : -1,
              y = operands > 2 ? operand(step.second, step.b) : -1;
    value = map.function(step.function, value, x, y);
  }
  return value;
}

inline bool has_no_arrays(const Preparation& p) { return p.inputs.empty() || p.outputs.empty(); }

/// Images and what is no image, f32 of every kind: what a layer's kernel is given.
inline bool has_activations(const Preparation& p) {
  return is_activation(p.input().format.dtype) && is_activation(p.output().format.dtype);
}
inline bool has_activations_or_codes(const Preparation& p) {
  const auto is = [](const View& view) { return detail::is_code(view) || is_activation(view.format.dtype); };
  return is(p.input()) && is(p.output());
}

}  // namespace lamina::map_parts
