#include "lamina/kernel/map/map_of.h"

#include <memory>

#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/reduce_plan.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina {
namespace {

MapAxes axes_of(const Shape& shape) {
  MapAxes axes;
  for (int dim = 0; dim < static_cast<int>(shape.rank()); ++dim) axes.push_back(shape[dim]);
  return axes;
}

/// A view whose dimensions are the axes.
MapView as_it_is(const View& view, int array) {
  const detail::Strides strides = detail::strides_of(view);
  return {.array = array,
          .dtype = view.format.dtype,
          .strides = {strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(view.shape.rank())}};
}

MapView broadcast(const View& view, int array, const Shape& shape) {
  const detail::Strides strides = detail::broadcast_strides(view, shape);
  return {.array = array,
          .dtype = view.format.dtype,
          .strides = {strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(shape.rank())}};
}

/// What elements are that are only moved: f64 and whole numbers of 64 bits stay what they are, others are words.
DType word_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    default: return dtype;
  }
}

/// What numbers of that type are computed in where their type changes on the way.
DType carrier_of(DType dtype) {
  if (is_float(dtype)) return dtype == DType::f64 ? DType::f64 : DType::f32;
  return dtype == DType::u64 ? DType::u64 : DType::i64;
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

bool is_empty(const Preparation& p) { return p.inputs.empty() || p.outputs.empty() || p.output().shape.numel() == 0; }

/// Images and what is no image, f32 of every kind: what a layer's kernel is given.
bool has_activations(const Preparation& p) {
  return is_activation(p.input().format.dtype) && is_activation(p.output().format.dtype);
}

}  // namespace

std::optional<MapOf> map_of(const PointwiseProblem& problem, const Preparation& p) {
  if (is_empty(p) || problem.table != nullptr || p.has_codes() || !detail::is_computable(problem, p))
    return std::nullopt;
  const Shape& shape = p.output().shape;
  for (const View& view : p.inputs) {
    if (!detail::broadcasts(view.shape, shape)) return std::nullopt;
  }
  MapOf result{{.extents = axes_of(shape), .compute = problem.compute}};
  MapProblem& map = result.map;
  std::vector<int> loaded(p.inputs.size(), -1);
  const auto load = [&](int input) {
    int& node = loaded[static_cast<std::size_t>(input)];
    if (node < 0) node = map.load(broadcast(p.inputs[static_cast<std::size_t>(input)], input, shape));
    return node;
  };
  map.store(chained(map, problem.chain, load(0), load), as_it_is(p.output(), 0));
  return result;
}

std::optional<MapOf> map_of(const AffineProblem& problem, const Preparation& p) {
  if (is_empty(p) || p.has_codes() || !has_activations(p) || p.inputs.size() != 1 || problem.epilogue.pool ||
      p.input().shape.rank() < 2)
    return std::nullopt;
  if (problem.epilogue.reads_operands()) return std::nullopt;
  MapOf result{{.extents = axes_of(p.output().shape)}, {problem.scale, problem.shift}};
  MapProblem& map = result.map;
  MapAxes by_channel(map.extents.size());
  by_channel[1] = 1;
  const int x = map.load(as_it_is(p.input(), 0));
  const int scale = map.load({.array = 1, .strides = by_channel}),
            shift = map.load({.array = 2, .strides = by_channel});
  const int y = map.function(Pointwise::add, map.function(Pointwise::mul, x, scale), shift);
  map.store(chained(map, problem.epilogue.chain, y, [](int) { return -1; }), as_it_is(p.output(), 0));
  return result;
}

std::optional<MapOf> map_of(const ConversionProblem&, const Preparation& p) {
  if (is_empty(p) || p.has_codes() || p.inputs.size() != 1 || p.input().shape != p.output().shape) return std::nullopt;
  const DType dtype = p.input().format.dtype;
  MapView from = as_it_is(p.input(), 0), to = as_it_is(p.output(), 0);
  MapOf result{{.extents = axes_of(p.output().shape), .compute = carrier_of(dtype)}};
  if (dtype == p.output().format.dtype && size_of(dtype) < 8) {
    from.dtype = to.dtype = word_of(dtype);
    result.map.compute = DType::u32;
  }
  result.map.store(result.map.load(from), to);
  return result;
}

std::optional<MapOf> map_of(const MoveProblem& problem, const Preparation& p) {
  if (is_empty(p) || p.has_slices() || p.has_strides() || !detail::is_movable(problem, p)) return std::nullopt;
  const detail::MovePlan plan = detail::move_plan(problem, p);
  const DType dtype = p.output().format.dtype, word = word_of(dtype);
  if (plan.axes.size() > 8) return std::nullopt;
  MapOf result{{.compute = size_of(word) < 8 ? DType::u32 : word}};
  MapProblem& map = result.map;
  const std::size_t rank = plan.axes.size();
  MapView from{.array = 0,
               .dtype = word,
               .offset = plan.base,
               .fill = size_of(word) == 8 ? problem.fill : static_cast<double>(plan.fill)},
      to{.array = 0, .dtype = word, .strides = MapAxes(rank)};
  std::int64_t stride = 1;
  for (std::size_t axis = rank; axis-- > 0;) to.strides[axis] = stride, stride *= plan.axes[axis].extent;
  for (std::size_t a = 0; a < rank; ++a) {
    const MoveProblem::Axis& axis = plan.axes[a];
    map.extents.push_back(axis.extent);
    from.strides.push_back(axis.offsets.empty() ? axis.stride : 0);
    if (axis.offsets.empty()) continue;
    MapAxes along(rank);
    along[a] = 1;
    from.tables.push_back({along, 0, std::make_shared<const std::vector<std::int64_t>>(axis.offsets)});
  }
  map.store(plan.outside ? map.number(from.fill) : map.load(from), to);
  return result;
}

std::optional<MapOf> map_of(const ReduceProblem& problem, const Preparation& p) {
  if (is_empty(p) || p.has_codes() || p.input().shape.numel() == 0 || !detail::is_reducible(problem, p))
    return std::nullopt;
  const DType dtype = p.input().format.dtype;
  const bool single = is_activation(dtype);
  if (detail::finds_place(problem.kind)) return std::nullopt;
  MapOf result{{.extents = axes_of(p.input().shape), .reduced = problem.dims}};
  MapProblem& map = result.map;
  map.compute = single ? DType::f32 : detail::reduction_type(problem.kind, dtype);
  if (!is_float(map.compute) && problem.kind == Reduction::mean) return std::nullopt;  // rounds towards 0
  double count = 1;
  for (std::size_t a = 0; a < map.extents.size(); ++a)
    count *= map.reduces(a) ? static_cast<double>(map.extents[a]) : 1.0;
  const int x = map.load(as_it_is(p.input(), 0));
  const auto sum = [&](int of) { return map.reduce(MapReduction::sum, of); };
  int y = x;
  switch (problem.kind) {
    case Reduction::sum: y = sum(x); break;
    case Reduction::mean: y = map.function(Pointwise::div, sum(x), map.number(count)); break;
    case Reduction::max: y = map.reduce(MapReduction::max, x); break;
    case Reduction::min: y = map.reduce(MapReduction::min, x); break;
    case Reduction::prod: y = map.reduce(MapReduction::product, x); break;
    case Reduction::l1: y = sum(map.function(Pointwise::abs, x)); break;
    case Reduction::l2: y = map.function(Pointwise::sqrt, sum(map.function(Pointwise::mul, x, x))); break;
    case Reduction::sum_square: y = sum(map.function(Pointwise::mul, x, x)); break;
    case Reduction::log_sum: y = map.function(Pointwise::log, sum(x)); break;
    default: return std::nullopt;
  }
  MapView to{.array = 0, .dtype = p.output().format.dtype, .strides = MapAxes(map.extents.size())};
  const detail::Strides strides = detail::strides_of(p.output());
  const bool keeps = p.output().shape.rank() == map.extents.size();
  std::size_t kept = 0;
  for (std::size_t a = 0; a < map.extents.size(); ++a) {
    if (!map.reduces(a)) to.strides[a] = strides[keeps ? a : kept++];
  }
  map.store(y, to);
  return result;
}

std::optional<MapOf> map_of(const NormProblem& problem, const Preparation& p) {
  if (is_empty(p) || p.has_codes() || p.has_slices() || p.has_strides() || !has_activations(p)) return std::nullopt;
  const bool images = p.input().format.layout == Layout::nhwc;
  if (images ? !detail::is_of_groups(problem, p) || p.output().format.layout != Layout::nhwc || p.inputs.size() != 1 ||
                   !problem.epilogue.is_residual()
             : !detail::is_normalisable(problem, p)) {
    return std::nullopt;
  }
  // [rows, groups, channels of one, inner]
  const std::int64_t count = p.input().shape.numel(),
                     of_one = std::max<std::int64_t>(problem.length / problem.inner, 1);
  if (problem.length % problem.inner != 0 || problem.channels % of_one != 0) return std::nullopt;
  const std::int64_t groups = problem.channels / of_one, all = problem.channels * problem.inner;
  if (count % all != 0) return std::nullopt;
  MapOf result{{.extents = {count / all, groups, of_one, problem.inner}, .reduced = 0b1100}};
  MapProblem& map = result.map;
  const MapAxes rows = {all, problem.length, problem.inner, 1}, last = {all, of_one, 1, problem.channels};
  const auto view = [&](const View& of, int array) {
    return MapView{.array = array, .dtype = of.format.dtype, .strides = images ? last : rows};
  };
  const auto parameter = [&](const Tensor& values) {
    result.parameters.push_back(values);
    return map.load(
        {.array = static_cast<int>(p.inputs.size() + result.parameters.size()) - 1, .strides = {0, of_one, 1, 0}});
  };
  const auto f = [&](Pointwise function, int a, int b = -1) { return map.function(function, a, b); };
  const int x = map.load(view(p.input(), 0)), length = map.number(static_cast<double>(problem.length)),
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
      const int length_of_row = f(Pointwise::sqrt, map.reduce(MapReduction::sum, f(Pointwise::mul, x, x)));
      y = f(Pointwise::div, x, f(Pointwise::max, length_of_row, eps));
      break;
    }
  }
  if (problem.scale.defined()) y = f(Pointwise::mul, y, parameter(problem.scale));
  if (problem.shift.defined()) y = f(Pointwise::add, y, parameter(problem.shift));
  y = chained(map, problem.epilogue.chain, y,
              [&](int input) { return map.load(view(p.inputs[static_cast<std::size_t>(input)], input)); });
  map.store(y, view(p.output(), 0));
  return result;
}

std::optional<MapOf> map_of(const SoftmaxProblem& problem, const Preparation& p) {
  if (is_empty(p) || p.has_codes() || !has_activations(p) || p.inputs.size() != 1 ||
      p.input().shape != p.output().shape)
    return std::nullopt;
  MapOf result{{.extents = axes_of(p.output().shape), .reduced = 1u << problem.dim}};
  MapProblem& map = result.map;
  const int x = map.load(as_it_is(p.input(), 0));
  const int below = map.function(Pointwise::sub, x, map.reduce(MapReduction::max, x)),
            e = map.function(Pointwise::exp, below);
  const int sum = map.reduce(MapReduction::sum, e);
  const int y = problem.kind == SoftmaxKind::softmax
                    ? map.function(Pointwise::div, e, sum)
                    : map.function(Pointwise::sub, below, map.function(Pointwise::log, sum));
  map.store(y, as_it_is(p.output(), 0));
  return result;
}

}  // namespace lamina
