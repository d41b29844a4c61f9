// Functions, moves, reductions and concatenations of arrays of any shape, as Maps.

#include "lamina/kernel/map/map_of.h"

#include <algorithm>
#include <memory>

#include "lamina/kernel/map/compose.h"
#include "lamina/kernel/map/parts.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina {

using namespace map_parts;

namespace {

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

/// Every `row` elements of what is stored are followed by those of others, up to `pitch`.
bool leave_gaps(MapProblem& map, std::int64_t row, std::int64_t pitch) {
  for (std::size_t a = 0; a < map.extents.size(); ++a) {
    const std::int64_t stride = map.stores[0].view.strides[a];
    if (stride >= row ? stride % row != 0 : stride * map.extents[a] > row && row % stride != 0) return false;
    if (stride >= row || stride * map.extents[a] <= row) continue;
    const std::int64_t inner = row / stride;
    if (map.extents[a] % inner != 0) return false;
    split_axis(map, a, inner);
  }
  for (std::int64_t& stride : map.stores[0].view.strides) stride = stride >= row ? stride / row * pitch : stride;
  return true;
}

/// Places a stride apart, which padding, -1, may go before and come after.
struct PaddedSteps {
  std::int64_t first, count, place, stride;
};
std::optional<PaddedSteps> padded_steps(const std::vector<std::int64_t>& places) {
  const auto is_there = [](std::int64_t place) { return place >= 0; };
  const auto begin = std::ranges::find_if(places, is_there);
  const auto end = std::find_if_not(begin, places.end(), is_there);
  if (end - begin < 2 || std::any_of(end, places.end(), is_there)) return std::nullopt;
  const std::int64_t stride = begin[1] - begin[0];
  for (auto place = begin + 1; place != end; ++place) {
    if (place[0] - place[-1] != stride) return std::nullopt;
  }
  return PaddedSteps{begin - places.begin(), end - begin, *begin, stride};
}

}  // namespace

std::optional<MapProblem> map_of(const PointwiseProblem& problem, const Preparation& p) {
  if (p.outputs.empty() || !detail::is_computable(problem, p)) return std::nullopt;
  if (p.has_codes() && problem.compute != DType::f32) return std::nullopt;
  const Shape& shape = p.output().shape;
  for (const View& view : p.inputs) {
    if (!detail::broadcasts(view.shape, shape)) return std::nullopt;
  }
  MapProblem map{.extents = axes_of(shape), .compute = problem.compute};
  std::vector<int> loaded(p.inputs.size(), -1);
  const auto load = [&](int input) {
    int& node = loaded[static_cast<std::size_t>(input)];
    const View& view = p.inputs[static_cast<std::size_t>(input)];
    if (node < 0) node = map_parts::load(map, broadcast(view, input, shape), view);
    return node;
  };
  store(map, chained(map, problem.chain, load(0), load), as_it_is(p.output(), 0), p.output());
  return map;
}

std::optional<MapProblem> map_of(const AffineProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.has_codes() || !has_activations(p) || p.inputs.size() != 1 || problem.epilogue.pool ||
      p.input().shape.rank() < 2)
    return std::nullopt;
  if (problem.epilogue.reads_operands()) return std::nullopt;
  MapProblem map{.extents = axes_of(p.output().shape), .parameters = {problem.scale, problem.shift}};
  MapAxes by_channel(map.extents.size());
  by_channel[1] = 1;
  const int x = map.load(as_it_is(p.input(), 0));
  const int scale = map.load({.array = 1, .strides = by_channel}),
            shift = map.load({.array = 2, .strides = by_channel});
  const int y = map.function(Pointwise::add, map.function(Pointwise::mul, x, scale), shift);
  map.store(chained(map, problem.epilogue.chain, y, [](int) { return -1; }), as_it_is(p.output(), 0));
  return map;
}

std::optional<MapProblem> map_of(const ConversionProblem&, const Preparation& p) {
  if (has_no_arrays(p) || p.inputs.size() != 1 || p.input().shape != p.output().shape) return std::nullopt;
  const DType dtype = p.input().format.dtype;
  const bool same = dtype == p.output().format.dtype && p.input().quantization == p.output().quantization;
  if (p.has_codes() && !same) return std::nullopt;
  MapView from = as_it_is(p.input(), 0), to = as_it_is(p.output(), 0);
  MapProblem map{.extents = axes_of(p.output().shape), .compute = carrier_of(dtype)};
  if (dtype == p.output().format.dtype && size_of(dtype) < 8) {
    from.dtype = to.dtype = word_of(dtype);
    map.compute = DType::u32;
  }
  map.store(map.load(from), to);
  return map;
}

std::optional<MapProblem> map_of(const MoveProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.input().is_slice() || p.input().is_strided() || !detail::is_movable(problem, p))
    return std::nullopt;
  const std::optional<detail::Gaps> gaps = detail::gaps_of(p.output());
  if (!gaps) return std::nullopt;
  MoveProblem filled = problem;
  if (p.has_codes()) {
    const View& codes = p.input();
    filled.fill = detail::code_of(static_cast<float>(problem.fill), codes.quantization, codes.format.dtype);
  }
  const detail::MovePlan plan = detail::move_plan(filled, p);
  const DType dtype = p.output().format.dtype, word = word_of(dtype);
  MapProblem map{.compute = size_of(word) < 8 ? DType::u32 : word};
  const std::size_t rank = plan.axes.size();
  MapView from{.array = 0,
               .dtype = word,
               .offset = plan.base,
               .fill = size_of(word) == 8 ? filled.fill : static_cast<double>(plan.fill)},
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
    if (const auto steps = padded_steps(axis.offsets)) {
      from.strides[a] = steps->stride, from.offset += steps->place - steps->first * steps->stride;
      from.guards.push_back({along, -steps->first, steps->count});
      continue;
    }
    from.tables.push_back({along, 0, std::make_shared<const std::vector<std::int64_t>>(axis.offsets)});
  }
  map.store(plan.outside ? map.number(from.fill) : map.load(from), to);
  if (gaps->pitch != gaps->row && !leave_gaps(map, gaps->row, gaps->pitch)) return std::nullopt;
  return map;
}

std::optional<MapProblem> map_of(const ReduceProblem& problem, const Preparation& p) {
  if (has_no_arrays(p) || p.has_codes() || !detail::is_reducible(problem, p) || detail::finds_place(problem.kind))
    return std::nullopt;
  const DType dtype = p.input().format.dtype;
  MapProblem map{.extents = axes_of(p.input().shape), .reduced = problem.dims};
  map.compute = is_activation(dtype) ? DType::f32 : detail::reduction_type(problem.kind, dtype);
  const std::int64_t count = reduced_points(map);
  const bool of_nothing = count == 0;  // which no Map reduces
  if (of_nothing) {
    for (std::size_t a = 0; a < map.extents.size(); ++a) map.extents[a] = map.reduces(a) ? 1 : map.extents[a];
  }
  const int x = of_nothing ? map.number(0) : map.load(as_it_is(p.input(), 0));
  const auto reduce = [&](MapReduction reduction, int of) {
    if (!of_nothing) return map.reduce(reduction, of);
    if (reduction == MapReduction::max) return map.number(detail::least_of(dtype));
    if (reduction == MapReduction::min) return map.number(detail::max_of(dtype));
    return map.number(reduction == MapReduction::product ? 1 : 0);
  };
  const auto sum = [&](int of) { return reduce(MapReduction::sum, of); };
  int y = x;
  switch (problem.kind) {
    case Reduction::sum: y = sum(x); break;
    case Reduction::mean: y = map.function(Pointwise::div, sum(x), map.number(static_cast<double>(count))); break;
    case Reduction::max: y = reduce(MapReduction::max, x); break;
    case Reduction::min: y = reduce(MapReduction::min, x); break;
    case Reduction::prod: y = reduce(MapReduction::product, x); break;
    case Reduction::l1: y = sum(map.function(Pointwise::abs, x)); break;
    case Reduction::l2: y = map.function(Pointwise::sqrt, sum(map.function(Pointwise::mul, x, x))); break;
    case Reduction::sum_square: y = sum(map.function(Pointwise::mul, x, x)); break;
    case Reduction::log_sum: y = map.function(Pointwise::log, sum(x)); break;
    case Reduction::log_sum_exp: {  // what is infinite is no help to exponentials
      const int most = reduce(MapReduction::max, x), one = map.number(1);
      const int finite =
          map.function(Pointwise::where, map.function(Pointwise::is_inf, most, one, one), map.number(0), most);
      const int powers = map.function(Pointwise::exp, map.function(Pointwise::sub, x, finite));
      y = map.function(Pointwise::add, map.function(Pointwise::log, sum(powers)), finite);
      break;
    }
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
  return map;
}

std::vector<MapProblem> maps_of(const ConcatProblem& problem, const Preparation& p) {
  std::vector<MapProblem> result;
  if (has_no_arrays(p) || p.has_codes() || size_of(p.output().format.dtype) == 8) return result;
  const MapView whole = as_it_is(p.output(), 0);
  const auto dim = static_cast<std::size_t>(problem.dim);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.inputs[i].format.dtype != p.output().format.dtype) return {};
    MapProblem& map = result.emplace_back(MapProblem{.extents = axes_of(p.inputs[i].shape), .compute = DType::u32});
    MapView from = as_it_is(p.inputs[i], static_cast<int>(i)), to = whole;
    to.offset = first * whole.strides[dim];
    from.dtype = to.dtype = word_of(whole.dtype);
    map.store(map.load(from), to);
    first += map.extents[dim];
  }
  return result;
}

}  // namespace lamina
