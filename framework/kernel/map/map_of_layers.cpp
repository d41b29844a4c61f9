// Norms, softmax, pooling and products of a few channels as Maps.

#include <algorithm>
#include <limits>

#include "lamina/kernel/map/compose.h"
#include "lamina/kernel/map/parts.h"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina {

using namespace map_parts;

std::optional<MapProblem> map_of(const NormProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.has_slices() || p.has_strides() || !has_activations_or_codes(p)) return std::nullopt;
  const bool images = p.input().format.layout == Layout::nhwc;
  if (images ? !detail::is_of_groups(problem, p) : !detail::is_normalisable(problem, p)) return std::nullopt;
  // An empty array is no rows of any length.
  const auto at_least_one = [](std::int64_t extent) { return std::max<std::int64_t>(extent, 1); };
  const std::int64_t count = p.input().shape.numel(), length_of_row = at_least_one(problem.length);
  const std::int64_t inner = at_least_one(images ? p.input().shape[2] * p.input().shape[3] : problem.inner),
                     channels = at_least_one(images ? p.input().shape[1] : problem.channels);
  if (length_of_row % inner != 0) return std::nullopt;
  // [rows, groups, repeats, channels of one, inner]: a row is one group of the channels, or has all of them repeatedly.
  const std::int64_t lines = length_of_row / inner, of_one = std::min(lines, channels);
  if (lines % of_one != 0 || channels % of_one != 0) return std::nullopt;
  const std::int64_t groups = channels / of_one, all = groups * length_of_row;
  if (count % all != 0) return std::nullopt;
  MapProblem map{.extents = {count / all, groups, lines / of_one, of_one, inner}, .reduced = 0b11100};
  const MapAxes rows = {all, length_of_row, of_one * inner, inner, 1}, last = {all, of_one, 0, 1, channels};
  const auto view = [&](const View& of, int array) {
    return MapView{.array = array, .dtype = of.format.dtype, .strides = images ? last : rows};
  };
  const auto parameter = [&](const Tensor& values) {
    map.parameters.push_back(values);
    return map.load(
        {.array = static_cast<int>(p.inputs.size() + map.parameters.size()) - 1, .strides = {0, of_one, 0, 1, 0}});
  };
  const auto f = [&](Pointwise function, int a, int b = -1) { return map.function(function, a, b); };
  const int x = load(map, view(p.input(), 0), p.input()), length = map.number(static_cast<double>(problem.length)),
            eps = map.number(problem.eps);
  const auto mean = [&](int of) { return f(Pointwise::div, map.reduce(MapReduction::sum, of), length); };
  int y = x;
  switch (problem.kind) {
    case NormKind::centred: {
      const int apart = f(Pointwise::sub, x, mean(x));
      y = f(Pointwise::mul, apart, f(Pointwise::rsqrt, f(Pointwise::add, mean(f(Pointwise::mul, apart, apart)), eps)));
      break;
    }
    case NormKind::root_mean_square:
      y = f(Pointwise::mul, x, f(Pointwise::rsqrt, f(Pointwise::add, mean(f(Pointwise::mul, x, x)), eps)));
      break;
    case NormKind::mean: y = f(Pointwise::div, x, f(Pointwise::add, mean(x), eps)); break;
    case NormKind::length: {
      const int root = f(Pointwise::sqrt, map.reduce(MapReduction::sum, f(Pointwise::mul, x, x)));
      y = f(Pointwise::div, x, f(Pointwise::max, root, eps));
      break;
    }
  }
  if (problem.scale.defined()) y = f(Pointwise::mul, y, parameter(problem.scale));
  if (problem.shift.defined()) y = f(Pointwise::add, y, parameter(problem.shift));
  y = chained(map, problem.epilogue.chain, y, [&](int input) {
    const View& added = p.inputs[static_cast<std::size_t>(input)];
    return load(map, view(added, input), added);
  });
  store(map, y, view(p.output(), 0), p.output());
  return map;
}

std::optional<MapProblem> map_of(const SoftmaxProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.has_codes() || !has_activations(p) || p.inputs.size() != 1 ||
      p.input().shape != p.output().shape)
    return std::nullopt;
  MapProblem map{.extents = axes_of(p.output().shape), .reduced = 1u << problem.dim};
  const int x = map.load(as_it_is(p.input(), 0));
  const int below = map.function(Pointwise::sub, x, map.reduce(MapReduction::max, x)),
            e = map.function(Pointwise::exp, below);
  const int sum = map.reduce(MapReduction::sum, e);
  const int y = problem.kind == SoftmaxKind::softmax
                    ? map.function(Pointwise::div, e, sum)
                    : map.function(Pointwise::sub, below, map.function(Pointwise::log, sum));
  map.store(y, as_it_is(p.output(), 0));
  return map;
}

namespace {

/// What the sum of each window is divided by: how many cells of it are the image's, or the padding's as well; at
/// least 1.
Tensor cells_of(const PoolGeometry& g) {
  const auto along = [&](int outs, int stride, int padding, int kernel, int dilation, int extent) {
    const int first = g.count_padding ? -padding : 0, last = g.count_padding ? extent + padding : extent;
    std::vector<int> counts(static_cast<std::size_t>(outs));
    for (int out = 0; out < outs; ++out) {
      for (int k = 0, at = out * stride - padding; k < kernel; ++k, at += dilation)
        counts[static_cast<std::size_t>(out)] += at >= first && at < last;
    }
    return counts;
  };
  const std::vector<int> rows = along(g.out_height, g.stride_height, g.padding_height, g.kernel_height,
                                      g.dilation_height, g.in_height),
                         columns = along(g.out_width, g.stride_width, g.padding_width, g.kernel_width, g.dilation_width,
                                         g.in_width);
  Tensor result({g.out_height, g.out_width});
  float* to = result.values<float>().data();
  for (const int row : rows) {
    for (const int column : columns) *to++ = static_cast<float>(std::max(row * column, 1));
  }
  return result;
}

}  // namespace

std::optional<MapProblem> map_of(const PoolProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.has_codes() || !has_activations(p) || p.inputs.size() != 1 || p.input().shape.rank() != 4)
    return std::nullopt;
  PoolGeometry g = problem.geometry;
  if (problem.kind == PoolKind::adaptive) {
    if (g.in_height % g.out_height != 0 || g.in_width % g.out_width != 0) return std::nullopt;
    g.kernel_height = g.stride_height = g.in_height / g.out_height;
    g.kernel_width = g.stride_width = g.in_width / g.out_width;
    g.padding_height = g.padding_width = 0, g.dilation_height = g.dilation_width = 1;
  }
  const auto last = [](int out, int stride, int padding, int kernel, int dilation) {
    return (out - 1) * stride - padding + (kernel - 1) * dilation;
  };
  const bool pads = g.padding_height > 0 || g.padding_width > 0 ||
                    last(g.out_height, g.stride_height, 0, g.kernel_height, g.dilation_height) >= g.in_height ||
                    last(g.out_width, g.stride_width, 0, g.kernel_width, g.dilation_width) >= g.in_width;
  const bool largest = problem.kind == PoolKind::largest;
  const detail::Strides from = detail::strides_of(p.input()), to = detail::strides_of(p.output());
  const Shape& shape = p.output().shape;
  MapProblem map{.extents = {shape[0], shape[1], shape[2], shape[3], g.kernel_height, g.kernel_width},
                 .reduced = 0b110000};
  MapView view{.array = 0,
               .dtype = p.input().format.dtype,
               .offset = -g.padding_height * from[2] - g.padding_width * from[3],
               .strides = {from[0], from[1], from[2] * g.stride_height, from[3] * g.stride_width,
                           from[2] * g.dilation_height, from[3] * g.dilation_width},
               .fill = largest ? -std::numeric_limits<double>::infinity() : 0};
  if (pads) {
    view.guards = {{{0, 0, g.stride_height, 0, g.dilation_height, 0}, -g.padding_height, g.in_height},
                   {{0, 0, 0, g.stride_width, 0, g.dilation_width}, -g.padding_width, g.in_width}};
  }
  int y = map.reduce(largest ? MapReduction::max : MapReduction::sum, map.load(view));
  const auto area = static_cast<float>(g.kernel_height * g.kernel_width);
  const Tensor cells = pads && !largest ? cells_of(g) : Tensor();
  const auto is_whole = [=](float count) { return count == area; };
  if (cells.defined() && !std::ranges::all_of(cells.values<float>(), is_whole)) {
    map.parameters = {cells};
    y = map.function(Pointwise::div, y, map.load({.array = 1, .strides = {0, 0, g.out_width, 1, 0, 0}}));
  } else if (!largest) {
    y = map.function(Pointwise::div, y, map.number(area));
  }
  map.store(y, {.array = 0, .dtype = p.output().format.dtype, .strides = {to[0], to[1], to[2], to[3], 0, 0}});
  return map;
}

namespace {

/// Whether a product of few channels is of the numbers, and in the layouts, of which a Map multiplies it.
bool is_map_of_floats(const Epilogue& epilogue, const EightBitWeights& eight, const Preparation& p) {
  return !eight.defined() && !epilogue.pool && !has_no_arrays(p) && p.output().shape.numel() > 0 && !p.has_codes() &&
         has_activations(p) && p.input().format.dtype == storage_type(p.precision) &&
         p.input().format.layout == p.output().format.layout;  // it is not to turn what nobody wants turned
}

/// The product of rows of `in` channels; those are axis `channel` of the operand and of the result. [out, in] weights.
MapProblem product_of_few(int in, int out, std::size_t channel, const Tensor& weight, const Tensor& bias,
                          const Epilogue& epilogue, const Preparation& p) {
  MapProblem map{.extents = axes_of(p.output().shape)};
  const std::size_t terms = map.extents.size();
  map.reduced = 1u << terms;
  map.extents.push_back(in);
  const auto view = [](const View& of, int array) {
    MapView result = as_it_is(of, array);
    result.strides.push_back(0);
    return result;
  };
  MapAxes by_filter(terms + 1), by_weight(terms + 1);
  by_filter[channel] = by_weight[channel] = 1, by_weight[terms] = out;
  const auto parameter = [&](Tensor values, const MapAxes& strides) {
    map.parameters.push_back(std::move(values));
    return map.load({.array = static_cast<int>(p.inputs.size() + map.parameters.size()) - 1, .strides = strides});
  };
  const Tensor rounded = weight.defined() ? weight.to(storage_type(p.precision)).to(DType::f32) : Tensor({out, in});
  Tensor turned({in, out});  // filters side by side, as results are
  for (int i = 0; i < in * out; ++i)
    turned.values<float>()[static_cast<std::size_t>(i)] =
        rounded.values<float>()[static_cast<std::size_t>(i % out * in + i / out)];
  MapView rows = view(p.input(), 0);
  std::swap(rows.strides[channel], rows.strides[terms]);
  const int x = map.load(rows), w = parameter(turned, by_weight);
  int y = map.reduce(MapReduction::sum, map.function(Pointwise::mul, x, w));
  if (bias.defined()) y = map.function(Pointwise::add, y, parameter(bias, by_filter));
  y = chained(map, epilogue.chain, y,
              [&](int input) { return map.load(view(p.inputs[static_cast<std::size_t>(input)], input)); });
  map.store(y, view(p.output(), 0));
  return unrolled(map, detail::few_channels);
}

}  // namespace

std::optional<MapProblem> map_of(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (!detail::is_of_few_channels(g) || !problem.prologue.empty() ||
      !is_map_of_floats(problem.epilogue, problem.eight, p)) {
    return std::nullopt;
  }
  return product_of_few(g.in_channels, g.out_channels, 1, problem.weight, problem.bias, problem.epilogue, p);
}

std::optional<MapProblem> map_of(const LinearProblem& problem, const Preparation& p) {
  if (std::max(problem.in, problem.out) > detail::few_channels ||
      !is_map_of_floats(problem.epilogue, problem.eight, p)) {
    return std::nullopt;
  }
  const std::size_t rank = p.output().shape.rank();
  if (p.input().shape.rank() != rank) return std::nullopt;
  return product_of_few(problem.in, problem.out, rank - 1, problem.weight, problem.bias, problem.epilogue, p);
}

}  // namespace lamina
