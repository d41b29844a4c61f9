// A Map, point by point and node by node: what is meant, and nothing about speed.

#include "lamina/cpu/map/plain.h"

#include <cstddef>
#include <optional>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/pointwise.h"

namespace lamina::cpu {
namespace {

std::int64_t along(const MapAxes& strides, const MapAxes& at) {
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < strides.size(); ++a) sum += strides[a] * at[a];
  return sum;
}

/// The element's place, or -1 where the point is outside.
std::int64_t place(const MapView& view, const MapAxes& at) {
  std::int64_t result = view.offset + along(view.strides, at);
  for (const MapView::Guard& guard : view.guards) {
    const std::int64_t coordinate = guard.offset + along(guard.strides, at);
    if (coordinate < 0 || coordinate >= guard.extent) return -1;
  }
  for (const MapView::Table& table : view.tables) {
    const std::int64_t entry = (*table.entries)[static_cast<std::size_t>(table.offset + along(table.strides, at))];
    if (entry < 0) return -1;
    result += entry;
  }
  return result;
}

template <class T>
T applied(Pointwise function, T a, T b, T c) {
  T result{};
  apply<T>(apply_kernels().back(), function, {&a, &b, &c}, &result, 1);
  return result;
}

template <class T>
class Plain {
 public:
  Plain(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs)
      : problem_(problem), inputs_(inputs), outputs_(outputs) {}

  void run() {
    MapAxes at(problem_.extents.size());
    do {
      reductions_.assign(problem_.nodes.size(), std::nullopt);
      do {
        for (const auto& [node, view] : problem_.stores) {
          const T result = value(node, at);
          auto* to = static_cast<std::byte*>(outputs_[static_cast<std::size_t>(view.array)]);
          store(view.dtype, &result, to + place(view, at) * static_cast<std::int64_t>(size_of(view.dtype)), 1);
        }
      } while (next(true, at));
    } while (next(false, at));
  }

 private:
  /// The next point among those that differ in reduced axes, or in kept ones; false behind the last.
  bool next(bool reduced, MapAxes& at) const {
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (problem_.reduces(axis) != reduced) continue;
      if (++at[axis] < problem_.extents[axis]) return true;
      at[axis] = 0;
    }
    return false;
  }

  /// Of a node, and so of all before it.
  T value(int last, const MapAxes& at) {
    std::vector<T> values;
    for (int i = 0; i <= last; ++i) {
      const MapNode& node = problem_.nodes[static_cast<std::size_t>(i)];
      const auto operand = [&](std::size_t k) {
        return values[static_cast<std::size_t>(node.from[node.from[k] < 0 ? 0 : k])];
      };
      switch (node.kind) {
        case MapNode::Kind::load:
          values.push_back(loaded(problem_.loads[static_cast<std::size_t>(node.view)], at));
          break;
        case MapNode::Kind::number: values.push_back(load_one<T>(node.number)); break;
        case MapNode::Kind::function:
          values.push_back(applied(node.function, operand(0), operand(1), operand(2)));
          break;
        case MapNode::Kind::reduce: {
          std::optional<T>& known = reductions_[static_cast<std::size_t>(i)];
          if (!known) known = reduced(node, at);
          values.push_back(*known);
        }
      }
    }
    return values.back();
  }

  /// In two passes, in double.
  T spread(int of, const MapAxes& first) {
    double sum = 0, count = 0, squares = 0;
    const auto each = [&](auto&& f) {
      MapAxes at = first;
      do f(static_cast<double>(value(of, at)));
      while (next(true, at));
    };
    each([&](double x) { sum += x, ++count; });
    each([&](double x) { squares += (x - sum / count) * (x - sum / count); });
    return static_cast<T>(squares);
  }

  T reduced(const MapNode& node, MapAxes at) {
    constexpr Pointwise functions[] = {Pointwise::add, Pointwise::mul, Pointwise::max, Pointwise::min};
    using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
    for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] = problem_.reduces(axis) ? 0 : at[axis];
    if (node.reduction == MapReduction::spread) return spread(node.from[0], at);
    auto sum = static_cast<Sum>(value(node.from[0], at));
    while (next(true, at)) {
      const auto x = static_cast<Sum>(value(node.from[0], at));
      sum = applied(functions[static_cast<std::size_t>(node.reduction)], sum, x, x);
    }
    return static_cast<T>(sum);
  }

  T loaded(const MapView& view, const MapAxes& at) const {
    const std::int64_t element = place(view, at);
    T result = load_one<T>(view.fill);
    const auto* from = static_cast<const std::byte*>(inputs_[static_cast<std::size_t>(view.array)]);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    if (element >= 0) load(view.dtype, from + element * size, &result, 1);
    return result;
  }

  const MapProblem& problem_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  std::vector<std::optional<T>> reductions_;  // by node: of all points that differ in reduced axes only, once known
};

}  // namespace

void evaluate(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs) {
  for (const std::int64_t extent : problem.extents) {
    if (extent == 0) return;
  }
  switch (problem.compute) {
    case DType::f32: return Plain<float>(problem, inputs, outputs).run();
    case DType::f64: return Plain<double>(problem, inputs, outputs).run();
    case DType::i64: return Plain<std::int64_t>(problem, inputs, outputs).run();
    case DType::u32:
    case DType::u64: return Plain<std::uint64_t>(problem, inputs, outputs).run();
    default: detail::fail("a map computes in f32, f64, i64 or u64, not in ", problem.compute);
  }
}

}  // namespace lamina::cpu
